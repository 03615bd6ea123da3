"""Measures the time of 100,000 points: 1F1B, and interleaved 1F1B with two chunks, on 8 ranks with 64 microbatches, the
costs of every stage and transfer varied.

    PYTHONPATH=build/release/python python studies/engine-speed/sweep.py [points]
"""

import sys
import time

import numpy

import ppsim


def main(points: int = 100_000) -> None:
    for schedule in ("1f1b", "interleaved-1f1b"):
        program = ppsim.lower(ppsim.generate(schedule, ranks=8, microbatches=64))
        forward = numpy.random.default_rng(1).integers(1_000_000, 2_000_000, (points, program.stages))
        measure(schedule, program, {"F": forward, "B": 2 * forward, "c": numpy.arange(points)})


def measure(schedule: str, program: ppsim.Program, durations: dict[str, numpy.ndarray]) -> None:
    points = len(durations["c"])

    def many() -> None:
        costs = (ppsim.Costs.unit(F=1, B=2, c=point / points) for point in range(points))
        ppsim.simulate_many([(program, point) for point in costs], threads=2)

    for name, work in (
        ("sweep, 1 thread", lambda: ppsim.sweep(program, durations, threads=1)),
        ("sweep, 2 threads", lambda: ppsim.sweep(program, durations, threads=2)),
        ("simulate_many, 2 threads, with its points", many),
    ):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"{schedule}, {name}: {wall:.2f} s, {cpu:.2f} s of CPU")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
