#!/usr/bin/env python3
"""What `ppsim simulate` takes as a process, its file read included, and where the time goes.

    studies/engine-speed/whole.py build/release/bin/ppsim [--large]

Each row is the fastest of some runs: other work on the machine only adds. --large takes seconds and gigabytes.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

RUNS = 15
UNIT = ["--unit", "F=1,B=2,c=0.1"]
#: Name of a schedule, ranks, microbatches, chunks, suffix of the file or nothing.
SMALL = [("1f1b", 8, 64, 1, ".csv"), ("interleaved-1f1b", 64, 512, 2, ".csv"), ("interleaved-1f1b", 64, 512, 2, ".json")]
LARGE = [("1f1b", 512, 8192, 1, ""), ("1f1b", 1024, 4096, 1, "")]


def run(arguments: list[str]) -> tuple[float, float, int, str]:
    """Wall time and processor time in seconds, largest memory in kilobytes, and the output."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        pid = subprocess.Popen(arguments, stdout=output)
        _, status, used = os.wait4(pid.pid, 0)
        wall = time.perf_counter() - begin
        if status != 0:
            sys.exit(f"{' '.join(arguments)} failed")
        output.seek(0)
        return wall, used.ru_utime + used.ru_stime, used.ru_maxrss, output.read().decode()


def measured(ppsim: str, row: tuple[str, int, int, int, str], folder: str, runs: int) -> None:
    name, ranks, microbatches, chunks, suffix = row
    shape = ["--ranks", str(ranks), "--microbatches", str(microbatches)]
    shape += ["--chunks", str(chunks)] if chunks > 1 else []
    subject = [name, *shape]
    if suffix:
        subject = [os.path.join(folder, "schedule" + suffix)]
        subprocess.run([ppsim, "generate", name, *shape, "-o", *subject], check=True, stdout=subprocess.DEVNULL)
    actions = 2 * ranks * microbatches * chunks
    runs_of = [run([ppsim, "simulate", *subject, *UNIT]) for _ in range(runs)]
    wall, cpu, memory = (min(values) for values in list(zip(*runs_of))[:3])
    print(
        f"{name} p={ranks} m={microbatches} v={chunks} {suffix or 'generated'}: {wall * 1e3:.1f} ms, "
        f"{cpu * 1e3:.1f} ms of processors, {wall * 1e6 / actions:.3f} us an action, {memory * 1024 / 1e9:.2f} GB"
    )
    if actions > 1_000_000:
        return
    phases = [json.loads(run([ppsim, "simulate", *subject, *UNIT, "--json"])[3])["phase_ns"] for _ in range(runs)]
    fastest = {phase: min(of[phase] for of in phases) for phase in phases[0]}
    print("  " + ", ".join(f"{phase} {ns / actions:.0f}" for phase, ns in fastest.items() if ns > 0) + " ns an action")


def main(ppsim: str, *options: str) -> None:
    print(f"{os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as folder:
        for row in SMALL:
            measured(ppsim, row, folder, RUNS)
        for row in LARGE if "--large" in options else []:
            measured(ppsim, row, folder, 2)


if __name__ == "__main__":
    main(*sys.argv[1:])
