"""A schedule of torch.distributed.pipelining under torch.profiler."""

import os
import pathlib
import re
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH, ROWS = 128, 16


def profiled(csv: str, microbatches: int, folder: str) -> float:
    """Three steps of a compute_only file; the profiler sees the newest two. Returns: seconds of the newest."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    row = pathlib.Path(csv).read_text().splitlines()[rank]
    mine = sorted(set(map(int, re.findall(r"(\d+)F\d", row))))
    count = 1 + max(int(stage) for stage in re.findall(r"(\d+)F\d", pathlib.Path(csv).read_text()))
    modules = {stage: torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for stage in mine}
    stages = [PipelineStage(module, stage, count, torch.device("cpu")) for stage, module in modules.items()]
    schedule = _PipelineScheduleRuntime(stages, microbatches, loss_fn=torch.nn.functional.mse_loss)
    schedule._load_csv(csv)
    batch = torch.ones(ROWS * microbatches, WIDTH)
    inputs = (batch,) if any(stage.is_first for stage in stages) else ()
    targets = {"target": batch} if any(stage.is_last for stage in stages) else {}
    schedule.step(*inputs, **targets)
    seconds = 0.0
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(2):
            dist.barrier()
            begin = time.perf_counter()
            schedule.step(*inputs, **targets)
            seconds = time.perf_counter() - begin
    profiler.export_chrome_trace(f"{folder}/rank{ranks - 1 - rank}.json")  # names say nothing of the rank
    dist.barrier()
    dist.destroy_process_group()
    return seconds
