#!/usr/bin/env python3
"""Measures `ppsim simulate` as a process, reading its file included, and where the time goes.

    studies/engine-speed/whole.py build/release/bin/ppsim [OTHER...] [--large]

Of several programs, which take turns, each has a line for each input: processor time, user and system, as the median
of some runs, and the wall time of the fastest. Other work on the machine only adds. --large takes seconds and gigabytes.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = 15
UNIT = ["--unit", "F=1,B=2,c=0.1"]
#: Name of a schedule, ranks, microbatches, chunks, suffix of the file or nothing.
SMALL = [("1f1b", 8, 64, 1, ".csv"), ("interleaved-1f1b", 64, 512, 2, ".csv"), ("interleaved-1f1b", 64, 512, 2, ".json")]
LARGE = [("1f1b", 512, 8192, 1, ""), ("1f1b", 1024, 4096, 1, "")]


def run(arguments: list[str]) -> tuple[float, float, float, int, str]:
    """Wall, user and system time in seconds, largest memory in kilobytes, and the output."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        pid = subprocess.Popen(arguments, stdout=output)
        _, status, used = os.wait4(pid.pid, 0)
        wall = time.perf_counter() - begin
        if status != 0:
            sys.exit(f"{' '.join(arguments)} failed")
        output.seek(0)
        return wall, used.ru_utime, used.ru_stime, used.ru_maxrss, output.read().decode()


def subject_of(ppsim: str, row: tuple[str, int, int, int, str], folder: str) -> list[str]:
    name, ranks, microbatches, chunks, suffix = row
    shape = ["--ranks", str(ranks), "--microbatches", str(microbatches)]
    shape += ["--chunks", str(chunks)] if chunks > 1 else []
    if not suffix:
        return [name, *shape]
    file = os.path.join(folder, "schedule" + suffix)
    subprocess.run([ppsim, "generate", name, *shape, "-o", file], check=True, stdout=subprocess.DEVNULL)
    return [file]


def print_times(ppsim: str, runs: list[tuple], actions: int) -> None:
    user, system, both = (statistics.median(values) for values in list(zip(*[(r[1], r[2], r[1] + r[2]) for r in runs])))
    wall, memory = min(r[0] for r in runs), min(r[3] for r in runs)
    print(
        f"  {ppsim}: {both * 1e3:.1f} ms of processors (user {user * 1e3:.1f}, system {system * 1e3:.1f}), "
        f"{both * 1e6 / actions:.3f} us an action; fastest {wall * 1e3:.1f} ms; {memory * 1024 / 1e9:.2f} GB"
    )


def print_phases(ppsim: str, subject: list[str], actions: int, runs: int) -> None:
    phases = [json.loads(run([ppsim, "simulate", *subject, *UNIT, "--json"])[4])["phase_ns"] for _ in range(runs)]
    fastest = {phase: min(of[phase] for of in phases) for phase in phases[0]}
    print("    " + ", ".join(f"{phase} {ns / actions:.0f}" for phase, ns in fastest.items() if ns > 0) + " ns an action")


def measure(programs: list[str], row: tuple[str, int, int, int, str], folder: str, runs: int) -> None:
    name, ranks, microbatches, chunks, suffix = row
    actions = 2 * ranks * microbatches * chunks
    subject = subject_of(programs[0], row, folder)
    print(f"{name} p={ranks} m={microbatches} v={chunks} {suffix or 'generated'}")
    turns = [[run([ppsim, "simulate", *subject, *UNIT]) for ppsim in programs] for _ in range(runs)]
    for ppsim, of_program in zip(programs, zip(*turns)):
        print_times(ppsim, list(of_program), actions)
        if actions <= 1_000_000:
            print_phases(ppsim, subject, actions, runs)


def main(*arguments: str) -> None:
    programs = [argument for argument in arguments if argument != "--large"]
    print(f"{os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as folder:
        for row in SMALL:
            measure(programs, row, folder, RUNS)
        for row in LARGE if "--large" in arguments else []:
            measure(programs, row, folder, 2)


if __name__ == "__main__":
    main(*sys.argv[1:])
