"""Do our files, run by PyTorch's runtime on several processes, give the gradients of the plain model?"""

import os
import re
import subprocess
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

import generators
from equality import generate_ours

WIDTH = 16
BATCH_PER_MICROBATCH = 3
TIMEOUT = timedelta(seconds=300)  # a hang is a failure
RELATIVE, ABSOLUTE = 1e-12, 1e-15  # float64: another order of summation, nothing else


@dataclass(frozen=True)
class Run:
    schedule: str
    ranks: int
    microbatches: int
    chunks: int
    lowered: bool = False  # our compute_comms file instead of PyTorch's lowering of our compute_only one

    @property
    def sizes(self):
        return self.ranks, self.microbatches, self.chunks

    @property
    def stages(self):
        return self.ranks * self.chunks


RUNS = (
    Run("1f1b", 4, 8, 1),
    Run("interleaved-1f1b", 2, 6, 2),
    Run("interleaved-1f1b", 4, 10, 2),
    Run("interleaved-zb", 2, 6, 2),
    Run("zb-v", 2, 5, 2),
    Run("zb-v", 4, 12, 2),
    Run("dualpipe-v", 2, 6, 2),
    Run("interleaved-1f1b", 2, 6, 2, lowered=True),
    Run("zb-v", 2, 5, 2, lowered=True),
)


def _layers(stages):
    """The whole model, the same in every process."""
    torch.manual_seed(0)
    return [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64), torch.nn.Tanh()) for _ in range(stages)
    ]


def _batch(microbatches):
    torch.manual_seed(1)
    shape = (microbatches * BATCH_PER_MICROBATCH, WIDTH)
    return torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)


def _gradients(module):
    return [parameter.grad for parameter in module.parameters()]


def _step(run, schedule):
    inputs, targets = _batch(run.microbatches)
    first = any(stage.is_first for stage in schedule._stages)
    last = any(stage.is_last for stage in schedule._stages)
    schedule.step(*((inputs,) if first else ()), **({"target": targets} if last else {}))


def _run_rank(rank, run, path, folder):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=run.ranks, timeout=TIMEOUT)
    row = path.read_text().splitlines()[rank]
    mine = sorted(set(map(int, re.findall(r"(\d+)F\d", row))))
    layers = _layers(run.stages)
    stages = [PipelineStage(layers[stage], stage, run.stages, torch.device("cpu")) for stage in mine]
    schedule = _PipelineScheduleRuntime(stages, run.microbatches, loss_fn=torch.nn.functional.mse_loss)
    schedule._load_csv(str(path), format="compute_comms" if run.lowered else "compute_only")
    _step(run, schedule)
    torch.save({stage: _gradients(layers[stage]) for stage in mine}, folder / f"gradients{rank}")
    dist.barrier()
    dist.destroy_process_group()


def _plain_gradients(run):
    layers = _layers(run.stages)
    inputs, targets = _batch(run.microbatches)
    torch.nn.functional.mse_loss(torch.nn.Sequential(*layers)(inputs), targets).backward()
    return {stage: _gradients(layer) for stage, layer in enumerate(layers)}


def _compare(run, folder):
    found = {}
    for rank in range(run.ranks):
        found |= torch.load(folder / f"gradients{rank}")
    expected = _plain_gradients(run)
    if sorted(found) != sorted(expected):
        return {"equal": False, "largest_difference": None}
    pairs = [(a, b) for stage in expected for a, b in zip(expected[stage], found[stage], strict=True)]
    return {
        "equal": all(torch.allclose(b, a, rtol=RELATIVE, atol=ABSOLUTE) and a.abs().max() > 0 for a, b in pairs),
        "largest_difference": max((a - b).abs().max().item() for a, b in pairs),
        "largest_gradient": max(a.abs().max().item() for a, _ in pairs),
    }


def _lower(ppsim, path, folder):
    """From 2.15 on PyTorch wants a wait for every send. REDUCE_GRAD is where it divides by the number of microbatches."""
    program, lowered = folder / "lowered.json", folder / "lowered.csv"
    dialect = "torch-2.15" if hasattr(schedules, "WAIT_SEND_F") else "torch"
    subprocess.run([ppsim, "lower", str(path), "--with", "reduce-grad", "-o", str(program)], check=True, capture_output=True)
    subprocess.run([ppsim, "convert", str(program), str(lowered), "--dialect", dialect], check=True)
    return lowered


def check(ppsim, run, folder):
    """Exports, executes and compares one schedule; raises where a process of PyTorch fails."""
    path = folder / "ours.csv"
    generate_ours(ppsim, run.schedule, run.sizes, path)
    if run.lowered:
        path = _lower(ppsim, path, folder)
    processes.spawn(_run_rank, args=(run, path, folder), nprocs=run.ranks)
    return _compare(run, folder)
