#!/usr/bin/env python3
"""Each example under the hazard checker: no finding; and a twin of its recording without one wait or synchronisation has one.

Usage: examples_test.py FOLDER_OF_PROGRAMS EXAMPLE...
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

# The checker's own example is wrong on purpose.
WRONG_ON_PURPOSE = {"13_checker"}
ORDERS = {"wait", "synchronize", "query"}


def run(command, **environment):
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, **environment})


def check(weir, scenario, path):
    path.write_text(json.dumps(scenario))
    return run([weir, "check", "--json", "--host-order", "observed", path]).returncode


def twin_is_told(weir, scenario, path):
    """Whether some order can be left out, and the checker says so; None where the program has none."""
    program = scenario["program"]
    places = [i for i, command in enumerate(program) if command["op"] in ORDERS]
    if not places:
        return None
    for place in places:
        if check(weir, {**scenario, "program": program[:place] + program[place + 1:]}, path) == 1:
            return True
    # One wait may be enough where another one stands beside it: then without any.
    return check(weir, {**scenario, "program": [c for c in program if c["op"] not in ORDERS]}, path) == 1


def main():
    folder = pathlib.Path(sys.argv[1])
    weir = folder / "weir"
    failed = twins = 0
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "recording.json"
        for name in sys.argv[2:]:
            said = []
            if name not in WRONG_ON_PURPOSE:
                checked = run([folder / f"example_{name}"], WEIR_CHECK="throw")
                if checked.returncode != 0:
                    said.append(f"under WEIR_CHECK=throw it ends with {checked.returncode}:\n{checked.stderr}")
            recorded = run([weir, "record", "-o", path, "--", folder / f"example_{name}"])
            if recorded.returncode != 0:
                said.append(f"it cannot be recorded: {recorded.stderr}")
            else:
                told = twin_is_told(weir, json.loads(path.read_text()), path)
                twins += told is True
                if told is False:
                    said.append("no twin of it without one of its waits is reported")
            print(f"{name:<22} {'FAILED' if said else 'ok'}")
            for one in said:
                print("    " + one)
            failed += bool(said)
    print(f"{twins} of {len(sys.argv) - 2} examples have a twin without a wait that is reported")
    return 1 if failed or twins == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
