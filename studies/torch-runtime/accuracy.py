"""The step that is simulated from `ppsim.torch.profile` beside the one that is measured, for four schedules.

OMP_NUM_THREADS=1 torchrun --standalone --nproc-per-node 2 studies/torch-runtime/accuracy.py RESULTS.json
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

WIDTH, ROWS, LAYERS, MICROBATCHES, STEPS = 256, 96, 2, 8, 11
SCHEDULES = {"gpipe": 1, "1f1b": 1, "zb-h1": 1, "zb-v": 2}  # and stages on a rank


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


def measured(name: str, rank: int) -> dict[str, Any]:
    schedule = ppsim.generate(name, ranks=2, microbatches=MICROBATCHES)
    mine, loss = stages_of(schedule, rank), nn.functional.mse_loss
    inputs, targets = torch.randn(MICROBATCHES * ROWS, WIDTH), torch.randn(MICROBATCHES * ROWS, WIDTH)
    costs = ppsim.torch.profile(mine, inputs[:ROWS], loss=loss, targets=targets[:ROWS], optimizer=sgd, repeats=15)
    program = ppsim.lower(schedule, costs=costs, with_=("reduce-grad", "opt"))
    proof = ppsim.check(program, transport="in-process")
    with ppsim.torch.Runtime(program, mine, proof, loss=loss, optimizer=sgd, costs=costs, kept_traces=STEPS) as runtime:
        for _ in range(STEPS):
            runtime.step(inputs, targets)
        traces, own = runtime.traces(), runtime.costs()
    steps = [max(int(row.split(",")[5]) for row in trace.splitlines()[1:]) for trace in traces[1:]]
    return {
        "schedule": name,
        "simulated_ms": ppsim.simulate(program, costs=costs).makespan_ns / 1e6,
        "simulated_from_its_own_steps_ms": ppsim.simulate(program, costs=own).makespan_ns / 1e6,
        "measured_ms": statistics.median(steps) / 1e6,
        "measured_quartiles_ms": [value / 1e6 for value in statistics.quantiles(steps, n=4)],
    }


def main(path: str) -> None:
    dist.init_process_group("gloo")
    load = os.getloadavg()
    found = [measured(name, dist.get_rank()) for name in SCHEDULES]
    if dist.get_rank() == 0:
        for one in found:
            error = 100 * (one["simulated_ms"] / one["measured_ms"] - 1)
            own = 100 * (one["simulated_from_its_own_steps_ms"] / one["measured_ms"] - 1)
            print(f"{one['schedule']:6} measured {one['measured_ms']:7.2f} ms, simulated {one['simulated_ms']:7.2f} ms "
                  f"({error:+.1f} %), from its own steps {own:+.1f} %")
        result = {"torch": torch.__version__, "cores": os.cpu_count(), "load": load, "runs": found}
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_text(json.dumps(result, indent=1) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
