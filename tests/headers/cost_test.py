#!/usr/bin/env python3
"""What a user's compiler pays for Weir: reading weir.hpp, and building examples/01_saxpy.cpp, in CPU time. Other work on the
machine makes both slower, so each is compared with reading the standard headers that both need, in turns.
    cost_test.py COMPILER INCLUDE PROGRAM"""

import pathlib
import resource
import subprocess
import sys
import tempfile

STANDARD = ["atomic", "chrono", "memory", "optional", "span", "string", "variant", "vector"]
# Where the standard headers take 0.53 s: 0.62 s for weir.hpp, and 0.84 s for the program, which leaves 0.16 s to link it.
MOST = {"weir.hpp": 1.17, "the program": 1.58}
# Each of them takes as long to read as a half of Weir's own headers or more.
UNREAD = {"chrono", "filesystem", "functional", "iostream", "memory", "thread"}
TURNS = 10  # the best of them count; fewer where they are good enough


def cpu_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    compiler, include, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        standard, header = folder / "standard.cpp", folder / "header.cpp"
        standard.write_text("".join(f"#include <{name}>\n" for name in STANDARD))
        header.write_text("#include <weir/weir.hpp>\n")
        command = [compiler, "-std=c++20", f"-I{include}"]
        commands = {"the standard headers": [*command, "-fsyntax-only", str(standard)],
                    "weir.hpp": [*command, "-fsyntax-only", str(header)],
                    "the program": [*command, "-c", program, "-o", str(folder / "program.o")]}
        read = subprocess.run([*command, "-M", str(header)], check=True, capture_output=True, text=True).stdout.split()
        if needless := UNREAD & {pathlib.Path(path).name for path in read}:
            sys.exit(f"weir.hpp reads what it can do without: {', '.join(sorted(needless))}")
        best = dict.fromkeys(commands, float("inf"))
        for turn in range(TURNS):
            for what, one in commands.items():
                best[what] = min(best[what], cpu_seconds(one))
            ratios = {what: best[what] / best["the standard headers"] for what in MOST}
            if turn > 0 and all(ratios[what] <= most for what, most in MOST.items()):
                break
    for what, seconds in best.items():
        print(f"{what}: {seconds:.2f} s of CPU, {seconds / best['the standard headers']:.2f} times the standard headers")
    if dear := [f"{what} takes more than {most} times the standard headers" for what, most in MOST.items() if ratios[what] > most]:
        sys.exit("\n".join(dear))


if __name__ == "__main__":
    main()
