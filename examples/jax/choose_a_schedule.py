"""Profiles the stages of a function, chooses the schedule that is fastest with their costs, proves it, trains with it,
and shows what was simulated beside what was measured.

It writes program.json, costs.json, measured.csv and report.html into the current folder.

    python examples/jax/choose_a_schedule.py
"""

import functools
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp

import ppsim
import ppsim.jax

RANKS, MICROBATCHES, ROWS, WIDTH, LAYERS, STEPS = 2, 6, 32, 96, 4, 5
CANDIDATES = ("gpipe", "1f1b", "zb-h1", "interleaved-1f1b", "zb-v")

jax.config.update("jax_num_cpu_devices", RANKS)  # before JAX is used first


def loss_of(params: Any, batch: Any, stages: int) -> Any:
    """The same layers in any number of stages."""
    x, target = batch
    for number, layer in enumerate(params):
        if number and number % (LAYERS // stages) == 0:
            x = ppsim.jax.enter_stage(x)
        x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
    return ((x - target) ** 2).mean()


def sgd(params: Any, gradients: Any) -> Any:
    return {name: params[name] - 0.1 * gradients[name] for name in params}


def random_params() -> Any:
    keys = jax.random.split(jax.random.key(0), (LAYERS, 2))
    return [{"up": jax.random.normal(up, (WIDTH, 2 * WIDTH)) / 10, "down": jax.random.normal(down, (2 * WIDTH, WIDTH)) / 14}
            for up, down in keys]


def batch_of(step: int) -> Any:
    x = jax.random.normal(jax.random.key(step), (MICROBATCHES * ROWS, WIDTH))
    return x, jnp.tanh(x)


def main() -> None:
    params = random_params()
    schedules = {name: ppsim.generate(name, ranks=RANKS, microbatches=MICROBATCHES) for name in CANDIDATES}
    one = tuple(part[:ROWS] for part in batch_of(0))
    losses = {count: functools.partial(loss_of, stages=count) for count in {s.stages for s in schedules.values()}}
    costs = {count: ppsim.jax.profile(loss, params, one, optimizer=sgd, repeats=10) for count, loss in losses.items()}
    programs, runs = {}, {}
    for name, schedule in schedules.items():
        known = costs[schedule.stages]
        programs[name] = ppsim.lower(schedule, costs=known, with_=("reduce-grad", "opt"))
        runs[name] = ppsim.simulate(programs[name], costs=known)
        print(f"{name:18} simulated {runs[name].makespan_ns / 1e6:7.2f} ms, bubble {100 * runs[name].bubble_fraction:.0f} %")
    best = min(runs, key=lambda name: runs[name].makespan_ns)
    program, stages = programs[best], schedules[best].stages

    verdict = ppsim.check(program, transport=ppsim.jax.TRANSPORT)
    with ppsim.jax.Runtime(program, losses[stages], params, batch_of(0), verdict, optimizer=sgd) as runtime:
        steps = [runtime.step(batch_of(number)) for number in range(STEPS)]
        runtime.write_trace("measured.csv")
    seconds = sorted(step.seconds for step in steps)[STEPS // 2]
    print(f"{best}: measured {1e3 * seconds:.2f} ms (median of {STEPS} steps)")
    print(f"loss {steps[0].loss:.3f} -> {steps[-1].loss:.3f}")
    overlay(program, costs[stages])


def overlay(program: ppsim.Program, costs: ppsim.Costs) -> None:
    """The measured step over the simulated one, as a page and as a table."""
    ppsim.write(program, "program.json")
    with open("costs.json", "w", encoding="utf-8") as file:
        file.write(costs.bound(program.compute_only()))
    command = [sys.executable, "-m", "ppsim", "simulate", "program.json", "--costs", "costs.json"]
    subprocess.run([*command, "--compare-trace", "measured.csv", "--report", "report.html"], check=True)


if __name__ == "__main__":
    main()
