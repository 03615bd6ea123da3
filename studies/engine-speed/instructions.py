#!/usr/bin/env python3
"""How many instructions `ppsim simulate` and `ppsim verify` take in two programs, on the same inputs.

    studies/engine-speed/instructions.py BEFORE NOW

Counted by `valgrind --tool=callgrind` from start to end of the process: no load changes them. Prints a table in Markdown.
"""

import os
import re
import subprocess
import sys
import tempfile

COSTS = ["--unit", "F=1,B=2,c=0.1"]
#: Command, schedule, ranks, microbatches and what else is asked.
CASES = [
    ("simulate", "1f1b", 8, 64, COSTS),
    ("simulate", "interleaved-1f1b", 8, 64, ["--chunks", "2", *COSTS]),
    ("simulate", "zb-h1", 8, 64, COSTS),
    ("simulate", "dualpipe", 8, 32, COSTS),
    ("simulate", "1f1b", 32, 256, COSTS),
    ("verify", "1f1b", 8, 64, []),
    ("verify", "1f1b", 32, 128, []),
    ("verify", "interleaved-1f1b", 8, 32, ["--chunks", "2"]),
    ("verify", "zb-h1", 8, 32, []),
    ("verify", "dualpipe", 8, 32, []),
    ("verify", "1f1b", 8, 32, ["--unit", "F=1,B=2,A=1e9", "--properties", "memory"]),
]


def instructions(program: str, arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={os.path.join(folder, 'out')}", program, *arguments]
        run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    counted = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or counted is None:
        sys.exit(f"{' '.join(command)} failed:\n{run.stderr}")
    return int(counted[1])


def main(before: str, now: str) -> None:
    print("| command | before, millions | now | ratio |\n|---|---|---|---|")
    for command, name, ranks, microbatches, rest in CASES:
        arguments = [command, name, "--ranks", str(ranks), "--microbatches", str(microbatches), *rest]
        counts = [instructions(program, arguments) / 1e6 for program in (before, now)]
        print(f"| `{' '.join(arguments)}` | {counts[0]:.1f} | {counts[1]:.1f} | {counts[1] / counts[0]:.2f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
