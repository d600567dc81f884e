#!/usr/bin/env python3
"""Traces programs on this machine's GPU by `weir trace`, checks the timelines, prints what explain says, and leaves files and pages in
a folder. usage: check.py TOOL PROBE FOLDER [--demos]   PROBE is probe.cu, compiled; --demos: those of the tool, by Weir's own backend"""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback

tool, probe, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
here = pathlib.Path(__file__).resolve().parent
folder.mkdir(parents=True, exist_ok=True)
LANES = ["kernel", "copy in", "copy out", "copy device", "copy host", "fill", "host function", "external", "graph", "memory", "order"]
TIES = ["stream order", "event", "default stream", "memory"]
failed = []


def expect(condition, what):
    print(("ok: " if condition else "FAILED: ") + what, flush=True)
    if not condition:
        failed.append(what)
    return condition


class Timeline:
    """What a file in the trace-event format has: src/trace/write_json.cpp tells how."""

    def __init__(self, path):
        data = json.loads(path.read_text())
        self.head = data["weir"]
        self.commands, self.waits, self.ranges = [], [], []
        texts = self.head["texts"]
        for event in data["traceEvents"]:
            if event.get("cat") == "command":
                w = [int(one) for one in event["args"]["w"].split()]
                stream = self.head["streams"][w[4]]
                self.commands.append({"name": event["name"], "stream": texts[stream[0]], "lane": LANES[w[6]], "ran": w[7] == 0,
                                      "bytes": w[11], "call": w[12], "begin": w[14], "end": w[15],
                                      "behind": [(w[i], TIES[w[i + 1]]) for i in range(16, len(w), 2)]})
            elif event.get("cat") == "host wait":
                self.waits.append(event)
            elif event.get("cat") == "range":
                self.ranges.append(event["name"])

    def of(self, lane, name=""):
        return [one for one in self.commands if one["lane"] == lane and name in one["name"]]

    def ties(self):
        return {tie for one in self.commands for _, tie in one["behind"]}


def run(words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=200, **more)


def look_at(name, path, overlaps=False):
    """Everything that reads a timeline reads this one. Libraries' kernels may overlap in one stream: they wait for each other inside."""
    for verb in ("summary", "explain"):
        done = run([tool, "trace", verb, path])
        expect(done.returncode == 0, f"{name}: {verb} {done.stderr.strip()}")
        print(f"--- {verb} of {name}\n{done.stdout}", flush=True)
    timeline = Timeline(path)
    kernels = timeline.of("kernel")
    expect(kernels and all(one["begin"] <= one["end"] for one in kernels if one["ran"]), f"{name}: {len(kernels)} kernels")
    known = [one for one in kernels if one["ran"] and one["call"] >= 0]
    expect(len(known) == len(kernels), f"{name}: all kernels ran, and have a call ({len(known)} of {len(kernels)})")
    late = [one for one in known if one["call"] > one["end"]]
    expect(not late, f"{name}: no kernel ended before its call ({len(late)})")
    early = sum(1 for one in timeline.commands for on, _ in one["behind"]
                if one["ran"] and timeline.commands[on]["ran"] and not (overlaps and one["lane"] == timeline.commands[on]["lane"] == "kernel") and timeline.commands[on]["end"] > one["begin"] + 2000)
    expect(early == 0, f"{name}: nothing began before what it comes behind had ended ({early})")
    print(f"note: {timeline.head['note'] or 'nothing was dropped'}; devices {len(timeline.head['devices'])}, streams {len(timeline.head['streams'])}")
    return timeline


def trace(name, words, options=(), cuda=True, overlaps=False):
    path = folder / f"{name}.json"
    print(f"\n=== {name}: {' '.join(map(str, words))}", flush=True)
    began = time.monotonic()
    done = run([tool, "trace", *(["--cuda"] if cuda else []), *options, "-o", path, "--", *words])
    print(f"exit {done.returncode} after {time.monotonic() - began:.1f} s\n{done.stderr}", flush=True)
    if not expect(done.returncode == 0 and path.exists(), f"{name} is traced"):
        print(done.stdout)
        return None, done
    return look_at(name, path, overlaps), done


def page(name, words, cuda=True):
    done = run([tool, "trace", *(["--cuda"] if cuda else []), "-o", folder / f"{name}.html", "--", *words])
    expect(done.returncode == 0, f"{name}.html {done.stderr.strip()}")


def check_probe():
    plain = json.loads(run([probe]).stdout)
    timeline, done = trace("probe", [probe])
    if timeline is None:
        return
    traced = json.loads(done.stdout)
    nodes, done_nodes = trace("probe_nodes", [probe, 500], ["--graph-nodes"])
    print(f"a launch: {plain['launch_us']} us, traced {traced['launch_us']} us ({traced['launch_us'] / plain['launch_us']:.2f}x); "
          f"a graph of 100 kernels and a wait: {plain['graph_us']} us, traced {traced['graph_us']} us "
          f"({traced['graph_us'] / plain['graph_us']:.2f}x)"
          + (f", its nodes {json.loads(done_nodes.stdout)['graph_us']} us" if nodes else ""))
    long = [one for one in timeline.of("kernel", "spin") if one["end"] - one["begin"] > 4_000_000]
    ours = sum(one["end"] - one["begin"] for one in long) / 1e6
    expect(len(long) == traced["timed"] and abs(ours / traced["events_ms"] - 1) < 0.01,
           f"kernels took {ours:.4f} ms, by events {traced['events_ms']:.4f} ms")
    expect({"stream order", "event", "default stream"} <= timeline.ties(), f"ties: {sorted(timeline.ties())}")
    waited = [one for one in timeline.commands if any(tie == "event" for _, tie in one["behind"])]
    expect(any(timeline.commands[on]["name"] == "record" for one in waited for on, tie in one["behind"] if tie == "event"),
           "the wait stands behind its record")
    scaled = [one for one in timeline.of("kernel", "scale") if one["end"] - one["begin"] > 10_000]
    loaded = [one for one in timeline.of("copy in") if one["bytes"] == 1 << 26]
    expect(len(scaled) == 1 and len(loaded) == 1 and scaled[0]["begin"] >= loaded[0]["end"], "the kernel ran behind the copy")
    expect("step" in timeline.ranges, f"NVTX: {timeline.ranges}")
    names = [one["name"] for one in timeline.waits]
    expect("pageable copy" in names and "allocation" in names, f"waits: {sorted(set(names))}")
    expect(len(timeline.of("graph")) == 51, f"{len(timeline.of('graph'))} launches of graphs")
    if nodes:
        expect(not nodes.of("graph") and len(nodes.of("kernel", "nothing")) >= 5100 + 500, "each node is a kernel where it is asked for")
    expect("default stream" in {one["stream"] for one in timeline.commands}, "the default stream has its name")
    page("probe", [probe, 500])


def has(package):
    there = importlib.util.find_spec(package) is not None
    if not there:
        print(f"skipped: no {package} here")
    return there


def cupti():
    """The library that the tool would open, for a program without one; None where there is none."""
    folders = [pathlib.Path(home) for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if home]
    for folder in folders:
        for within in ("extras/CUPTI/lib64", "lib64", "lib"):
            for one in sorted((folder / within).glob("libcupti.so*")):
                return one
    return None


def check_costs():
    """What recording costs, beside what others take for the same launches: a report, without bounds."""
    print("\n=== costs: microseconds of a launch, and of a replayed graph of 100 kernels with a wait", flush=True)
    rows = []

    def add(name, figures, before):
        rows.append(name)
        print(f"{name:<44}" + "".join(f"{key} {us:9.2f} ({us / before[key]:.2f}x)  " for key, us in figures.items()), flush=True)

    def of_probe(words, more=()):
        runs = [json.loads(run([*words, probe, 10000, *more]).stdout) for _ in range(3)]
        return {key: min(one[key] for one in runs) for key in ("launch_us", "graph_us")}

    traced = [tool, "trace", "--cuda", "-o", folder / "cost.json", "--"]
    plain = of_probe([])
    add("plain CUDA", plain, plain)
    if (library := cupti()) is not None:
        add("plain CUDA, CUPTI alone", of_probe([], [library]), plain)
    else:
        print("skipped: no libcupti in the toolkit's folders")
    add("plain CUDA, weir trace --cuda", of_probe(traced), plain)
    if has("torch"):
        launches = [sys.executable, here / "launches.py"]
        torch = json.loads(run([*launches, "--profiler"]).stdout)
        plain = {"launch_us": torch["launch_us"]}
        add("PyTorch's add_", plain, plain)
        add("PyTorch's add_, its own profiler", {"launch_us": torch["profiler_us"]}, plain)
        add("PyTorch's add_, weir trace --cuda", json.loads(run([*traced, *launches]).stdout), plain)
    expect(len(rows) >= 2, f"{len(rows)} rows of costs")


def check_killed():
    if not has("torch"):
        return
    path = folder / "killed.json"
    print("\n=== a program that is killed", flush=True)
    started = subprocess.Popen([tool, "trace", "--cuda", "-o", str(path), "--", sys.executable, str(here / "training.py"), "5", "--hang"],
                               stdout=subprocess.PIPE, text=True)
    for line in started.stdout:
        if line.startswith("4 "):
            break
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (path.exists() and '"cat": "command"' in path.read_text()):
        time.sleep(0.2)
    time.sleep(2.5)
    child = int(subprocess.run(["pgrep", "-P", str(started.pid)], capture_output=True, text=True).stdout.split()[0])
    os.kill(child, signal.SIGKILL)
    expect(started.wait(timeout=30) == 128 + signal.SIGKILL, "the exit code tells the signal")
    timeline = look_at("killed", path, overlaps=True)
    expect("step 4" in timeline.ranges, "it has what happened until then")


def check_pytorch():
    if not has("torch"):
        return
    timeline, _ = trace("pytorch", [sys.executable, here / "training.py"], overlaps=True)
    if timeline:
        expect("step 19" in timeline.ranges, "NVTX: the steps")
    page("pytorch", [sys.executable, here / "training.py"])


def check_cupy():
    if not has("cupy"):
        return
    timeline, _ = trace("cupy", [sys.executable, here / "cupy_streams.py"])
    if timeline:
        expect("event" in timeline.ties(), "CuPy's event")


def reasons_of(path):
    """What held each command, by its place: without lines, and with a name of its own, none is one with another."""
    data = json.loads(path.read_text())
    texts = data["weir"]["texts"]
    place = 0
    for event in data["traceEvents"]:
        if event.get("cat") not in ("command", "host wait"):
            continue
        w = event["args"]["w"].split()
        if event["cat"] == "host wait":
            w[3] = "-1"
        else:
            w[2] = "-1"
            if LANES[int(w[6])] != "order":
                w[1] = str(len(texts))
                texts.append(str(place))
            place += 1
        event["args"]["w"] = " ".join(w)
    named = path.with_suffix(".named.json")
    named.write_text(json.dumps(data))
    told = json.loads(run([tool, "trace", "explain", named, "--json"]).stdout)
    named.unlink()
    return {one["held"]["name"]: one["reason"] for one in told["reasons"]}


def check_idle_times():
    """The ten longest of every demo are explained each, but for those of less than a microsecond, which are the device's own."""
    few = ["--repeat", "1"]
    for demo, more in (("vadd", few), ("normalize", few), ("prefetch", few), ("default-stream", []), ("overlap", []),
                       ("heat", [*few, "--size", "256"])):
        path = folder / f"idle_{demo}.json"
        done = run([tool, "demo", demo, "--device", "cuda:0", "--trace", path, *more])
        if not expect(done.returncode == 0, f"{demo} is traced {done.stderr.strip()}"):
            continue
        reasons = reasons_of(path)
        gaps = json.loads(run([tool, "trace", "summary", path, "--json"]).stdout)["idle_gaps"][:10]
        bare = [gap for gap in gaps if gap["end_ns"] - gap["begin_ns"] >= 1000
                and reasons.get(str(gap["before"]["command"]), "unknown") == "unknown"]
        expect(gaps and not bare, f"{demo}: each of the {len(gaps)} longest idle times is explained {bare}")
        page(f"idle_{demo}", [tool, "demo", demo, "--device", "cuda:0", *more], cuda=False)


def check_demos():
    check_idle_times()
    for demo in ("vadd", "prefetch"):
        words = [tool, "demo", demo, "--device", "cuda:0"]
        trace(demo, words, cuda=False)  # by Weir's own observers
        page(demo, words, cuda=False)
        trace(demo + "_cupti", words)


done = run([tool, "trace", "--cuda", "-o", folder / "none.json", "--", "/bin/true"])
expect(done.returncode == 3 and "made no call of CUDA" in done.stderr, "a program without CUDA is said to be one")
for check in (check_probe, check_costs, check_pytorch, check_killed, check_cupy) + ((check_demos,) if "--demos" in sys.argv else ()):
    try:
        check()
    except Exception as error:
        traceback.print_exc()
        expect(False, f"{check.__name__}: {error!r}")
print("\nfiles and pages are in", folder)
print("FAILED: " + "; ".join(failed) if failed else "all passed")
sys.exit(1 if failed else 0)
