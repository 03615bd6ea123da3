"""PyTorch's own orders, made without a process group."""

import csv
import subprocess
from types import SimpleNamespace

from torch.distributed.pipelining import schedules

# Which class generates what of ours; `chunks` is None where the class takes one stage a rank.
GENERATORS = {
    "gpipe": (schedules.ScheduleGPipe, None),
    "1f1b": (schedules.Schedule1F1B, None),
    "looped-bfs": (schedules.ScheduleLoopedBFS, (1, 2, 3, 4)),
    "interleaved-1f1b": (schedules.ScheduleInterleaved1F1B, (1, 2, 3, 4)),
    "interleaved-zb": (schedules.ScheduleInterleavedZeroBubble, (1, 2, 3, 4)),
    "zb-v": (schedules.ScheduleZBVZeroBubble, (1, 2, 3, 4)),
    "dualpipe-v": (schedules.ScheduleDualPipeV, (1, 2, 3, 4)),
}


def version_of(ppsim):
    """The first line of --version, without the name."""
    said = subprocess.run([ppsim, "--version"], capture_output=True, text=True, check=True).stdout
    return said.splitlines()[0].removeprefix("ppsim ")


def _stages(ranks, chunks):
    """Returns the stages of rank 0 as far as a constructor reads them; every rank generates the orders of all ranks."""
    return [
        SimpleNamespace(num_stages=ranks * chunks, group_size=ranks, group_rank=0, submod=None)
        for _ in range(chunks)
    ]


def generate(name, ranks, microbatches, chunks):
    """The schedule object; raises what PyTorch raises for a combination that it refuses."""
    make, several = GENERATORS[name]
    stages = _stages(ranks, chunks if several else 1)
    return make(stages if several else stages[0], microbatches)


def write(schedule, path, flavor="compute_only"):
    """Writes PyTorch's dump. Schedules of one stage a rank have no dump and borrow the other's."""
    if isinstance(schedule, schedules.PipelineScheduleMulti):
        schedule._dump_csv(path, format=flavor)
    else:
        schedules.PipelineScheduleMulti._dump_csv(schedule, path)


def read(path):
    """The rows of a compute_only file: its actions, without idle cells and what belongs to FSDP."""
    with open(path, newline="") as file:
        return [[cell for cell in row if cell and not cell.endswith("REDUCE_GRAD")] for row in csv.reader(file)]
