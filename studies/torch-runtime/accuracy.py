"""The step that is simulated from `ppsim.torch.profile` beside the one that is measured, for four schedules.

OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 studies/torch-runtime/accuracy.py RESULTS.json [ROUNDS]

A round profiles and measures every schedule once, one directly after the other, so that a machine whose speed
changes from minute to minute changes both alike. A measured step is the mean of those of a round without the first, the
slowest and the fastest, since that is what the steps of a run add up to; the error is the median over the rounds.
"""

import json
import os
import pathlib
import statistics
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import ppsim
import ppsim.torch
from ppsim.execution import step_ns, typical_steps

WIDTH, ROWS, LAYERS, MICROBATCHES, STEPS = 256, 96, 2, 8, 16
SCHEDULES = ("gpipe", "1f1b", "zb-h1", "zb-v")


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def stages_of(schedule: ppsim.Schedule, rank: int) -> dict[int, nn.Module]:
    layers = 2 * LAYERS * schedule.ranks // schedule.stages
    return {
        stage: nn.Sequential(*(Layer() for _ in range(layers)))
        for stage, owner in enumerate(schedule.placement)
        if owner == rank
    }


def sgd(parameters: list[Any]) -> Any:
    return torch.optim.SGD(parameters, lr=1e-4)


def measured(name: str, rank: int) -> dict[str, float]:
    """One round of one schedule."""
    schedule = ppsim.generate(name, ranks=2, microbatches=MICROBATCHES)
    mine, loss = stages_of(schedule, rank), nn.functional.mse_loss
    inputs, targets = torch.randn(MICROBATCHES * ROWS, WIDTH), torch.randn(MICROBATCHES * ROWS, WIDTH)
    costs = ppsim.torch.profile(mine, inputs[:ROWS], loss=loss, targets=targets[:ROWS], optimizer=sgd)
    program = ppsim.lower(schedule, costs=costs, with_=("reduce-grad", "opt"))
    proof = ppsim.check(program, transport="in-process")
    with ppsim.torch.Runtime(program, mine, proof, loss=loss, optimizer=sgd, kept_traces=STEPS) as runtime:
        for _ in range(STEPS):
            dist.barrier()  # simulated ranks begin together, too
            runtime.step(inputs, targets)
        traces, own = runtime.traces(), runtime.costs()
    steps = [step_ns(trace) for trace in typical_steps(traces)]
    simulated = ppsim.simulate(program, costs=costs)
    return {
        "measured_ms": statistics.fmean(steps) / 1e6,
        "simulated_ms": simulated.makespan_ns / 1e6,
        "simulated_from_its_own_steps_ms": ppsim.simulate(program, costs=own).makespan_ns / 1e6,
    }


def summary(name: str, rounds: list[dict[str, float]]) -> dict[str, Any]:
    def error(key: str) -> list[float]:
        return sorted(100 * (one[key] / one["measured_ms"] - 1) for one in rounds)

    return {
        "schedule": name,
        "measured_ms": statistics.median(one["measured_ms"] for one in rounds),
        "errors_percent": error("simulated_ms"),
        "errors_from_its_own_steps_percent": error("simulated_from_its_own_steps_ms"),
    }


def main(path: str, rounds: int) -> None:
    dist.init_process_group("gloo")
    load = os.getloadavg()
    found: dict[str, list[dict[str, float]]] = {name: [] for name in SCHEDULES}
    for _ in range(rounds):
        for name in SCHEDULES:
            found[name].append(measured(name, dist.get_rank()))
    if dist.get_rank() == 0:
        lines = [summary(name, of_schedule) for name, of_schedule in found.items()]
        for one in lines:
            simulated = one["errors_percent"]
            own = statistics.median(one["errors_from_its_own_steps_percent"])
            print(f"{one['schedule']:6} measured {one['measured_ms']:7.1f} ms, simulated {statistics.median(simulated):+.1f} % "
                  f"({simulated[0]:+.1f} to {simulated[-1]:+.1f}), from its own steps {own:+.1f} %", flush=True)
        result = {"torch": torch.__version__, "cores": os.cpu_count(), "load_before": load, "rounds": rounds, "runs": lines}
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_text(json.dumps(result, indent=1) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9)
