"""Do files for a release of PyTorch load there, and give the gradients of the plain model?

targets.py PPSIM RESULTS asks the PyTorch that runs it, 2.15 or 2.14, and writes what it found as JSON. Four processes run
all files one after the other with gloo:

* every schedule of ppsim that four ranks can have, `compute_only` and lowered in five orders, by `--for`;
* lowered without `--for`, where ppsim warns of other gradients;
* PyTorch's own files with deferred receives, whose verdicts say which of them are wrong.

Files that ppsim says would not load are given to PyTorch's loader, too.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

import deferred
import generators

RANKS, MICROBATCHES = 4, 8
WIDTH, BATCH_PER_MICROBATCH = 8, 2
RELATIVE, ABSOLUTE = 1e-12, 1e-15  # float64: another order of summation, nothing else
TIMEOUT = timedelta(seconds=600)
TARGET = "torch-" + ".".join(torch.__version__.split(".")[:2])
HAS_WAITS = hasattr(schedules, "WAIT_SEND_F")
DEFERRED = ("looped-bfs", "interleaved-1f1b", "interleaved-zb", "zb-v", "dualpipe-v")
DEFERRED_MICROBATCHES = (4, 8, 12)
ORDERS = ("timed", "global", "just-in-time", "early:1", "early:3")


@dataclass
class Case:
    name: str
    kind: str  # compute_only, an order, without-for, deferred-by-pytorch
    path: Path
    lowered: bool
    verdict: str = "proved"
    microbatches: int = MICROBATCHES
    found: dict = field(default_factory=dict)

    @property
    def rows(self):
        return self.path.read_text().splitlines()


def ppsim_says(ppsim, *words):
    return subprocess.run([ppsim, *map(str, words)], capture_output=True, text=True)


def _names(ppsim):
    return [item["name"] for item in json.loads(ppsim_says(ppsim, "list", "schedules", "--json").stdout)["schedules"]]


def _sized(name):
    return [name, "--ranks", RANKS, "--microbatches", MICROBATCHES]


def exports(ppsim, folder):
    """Every schedule by --for: the cases, and the reasons of refusals."""
    cases, refused = [], {}
    for name in _names(ppsim):
        path = folder / f"{name}.csv"
        done = ppsim_says(ppsim, "generate", *_sized(name), "--for", TARGET, "-o", path)
        if done.returncode:
            refused[name] = done.stderr.strip().splitlines()[0]
            continue
        cases.append(Case(name, "compute_only", path, lowered=False))
        for order in ORDERS:
            path = folder / f"{name}-{order.replace(':', '')}.csv"
            done = ppsim_says(ppsim, "lower", *_sized(name), "--for", TARGET, "--order", order, "-o", path)
            if done.returncode:
                refused[f"{name} {order}"] = done.stderr.strip().splitlines()[0]
                continue
            cases.append(Case(name, order, path, lowered=True))
    return cases, refused


def without_target(ppsim, folder):
    """Lowered as for nobody: written with a warning of other gradients."""
    path = folder / "zb-h1-without.csv"
    dialect = ["--dialect", "torch-2.15"] if HAS_WAITS else []
    done = ppsim_says(ppsim, "lower", *_sized("zb-h1"), *dialect, "-o", path)
    assert f"{MICROBATCHES} times as large" in done.stderr, done.stderr
    return [Case("zb-h1", "without-for", path, lowered=True, verdict="warned")]


def deferred_by_pytorch(ppsim, folder):
    """PyTorch's own deferred receives; a file that only hangs on NCCL still runs with gloo."""
    cases = []
    for name in DEFERRED:
        for microbatches in DEFERRED_MICROBATCHES:
            for chunks in generators.GENERATORS[name][1]:
                try:
                    schedule = generators.generate(name, RANKS, microbatches, chunks)
                except (ValueError, AssertionError):
                    continue
                path = folder / f"deferred-{name}-{microbatches}-{chunks}.csv"
                deferred.write_rows(deferred.lowered(schedule, "deferred"), path)
                cases.append(Case(name, "deferred-by-pytorch", path, True, microbatches=microbatches))
    done = ppsim_says(ppsim, "verify", *(case.path for case in cases), "--for", TARGET, "--json")
    for case, result in zip(cases, json.loads(done.stdout)["results"], strict=True):
        wrong = [key for key, answer in result["properties"].items() if answer["verdict"] == "refuted"]
        case.verdict = "refuted: " + ", ".join(wrong) if wrong else "proved"
    return cases


def stages_of(row):
    return sorted(set(map(int, re.findall(r"(\d+)F\d", row))))


def _layers(stages):
    torch.manual_seed(0)
    return [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64), torch.nn.Tanh()) for _ in range(stages)
    ]


def _batch(microbatches):
    torch.manual_seed(1)
    shape = (microbatches * BATCH_PER_MICROBATCH, WIDTH)
    return torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)


class Waiting(dict):
    """The receives of a rank that nothing has used yet; both directions share the count."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.count[0] += 1
        self.count[1] = max(self.count)

    def pop(self, key):
        self.count[0] -= 1
        return super().pop(key)


def loaded(stages, path, microbatches, lowered):
    """PyTorch's runtime with the file, or its exception."""
    schedule = _PipelineScheduleRuntime(stages, microbatches, loss_fn=torch.nn.functional.mse_loss)
    schedule._load_csv(str(path), format="compute_comms" if lowered else "compute_only")
    return schedule


def _run_case(rank, case):
    rows = case.rows
    mine = stages_of(rows[rank])
    count = sum(len(stages_of(row)) for row in rows)
    layers = _layers(count)
    stages = [PipelineStage(layers[stage], stage, count, torch.device("cpu")) for stage in mine]
    schedule = loaded(stages, case.path, case.microbatches, case.lowered)
    waiting = [0, 0]
    schedule.fwd_recv_ops, schedule.bwd_recv_ops = Waiting(waiting), Waiting(waiting)
    inputs, targets = _batch(case.microbatches)
    first, last = 0 in mine, count - 1 in mine
    schedule.step(*((inputs,) if first else ()), **({"target": targets} if last else {}))
    return {stage: [p.grad for p in layers[stage].parameters()] for stage in mine}, waiting[1]


def run_rank(rank, cases, folder, ranks=RANKS):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks, timeout=TIMEOUT)
    for number, case in enumerate(cases):
        torch.save(_run_case(rank, case), folder / f"result-{number}-{rank}")
        dist.barrier()
    dist.destroy_process_group()


def _plain(stages, microbatches):
    layers = _layers(stages)
    inputs, targets = _batch(microbatches)
    torch.nn.functional.mse_loss(torch.nn.Sequential(*layers)(inputs), targets).backward()
    return [[p.grad for p in layer.parameters()] for layer in layers]


def compared(case, number, folder, ranks=RANKS):
    gradients, waiting = {}, []
    for rank in range(ranks):
        of_rank, most = torch.load(folder / f"result-{number}-{rank}")
        gradients |= of_rank
        waiting.append(most)
    expected = _plain(len(gradients), case.microbatches)
    pairs = [(a, b) for stage in gradients for a, b in zip(expected[stage], gradients[stage], strict=True)]
    ratio = (pairs[0][1].norm() / pairs[0][0].norm()).item()
    equal = all(torch.allclose(b, a, rtol=RELATIVE, atol=ABSOLUTE) for a, b in pairs)
    return {"equal": equal, "times": round(ratio, 6), "most_waiting_receives": waiting}


BROKEN = {
    "byte order mark": "\ufeff0F0,0B0\r\n1F0,1B0\r\n",
    "empty row at the end": "0F0,0B0\r\n1F0,1B0\r\n\r\n",
    "no backward": "0F0\r\n1F0\r\n",
    "half a backward": "0F0,0I0\r\n1F0,1B0\r\n",
    "REDUCE_GRAD without WAIT": "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0WAIT_SEND_F0\r\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0\r\n",
    "SEND without WAIT": "0F0,0SEND_F0,0RECV_B0,0B0\r\n1RECV_F0,1F0,1B0,1SEND_B0\r\n",
    "WAIT cells": "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0WAIT_SEND_F0\r\n"
    "1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,1WAIT_SEND_B0\r\n",
}


def stand_in(stage, stages, ranks):
    """For a stage of rank 0, where a file is loaded and not run."""
    return SimpleNamespace(
        num_stages=stages, group_size=ranks, group_rank=0, submod=None, stage_index=stage, has_backward=True
    )


def _loads(path, lowered):
    try:
        loaded([stand_in(0, 2, 2)], path, 1, lowered)
    except Exception as error:  # whatever PyTorch says of a file is its answer
        return type(error).__name__
    return "loads"


def broken(ppsim, folder):
    """Returns the answers of PyTorch's loader and of `verify --for` to broken files; one that loads may compute other gradients."""
    found = {}
    for name, text in BROKEN.items():
        path = folder / "broken.csv"
        path.write_text(text, newline="")
        done = ppsim_says(ppsim, "verify", path, "--for", TARGET)
        said = "proved" if done.returncode == 0 else done.stderr.strip().splitlines()[0].split(": ", 2)[-1]
        found[name] = {"pytorch": _loads(path, "SEND" in text), "ppsim": said}
    return found


def _is_as_said(case):
    if case.kind == "without-for":
        return case.found["times"] == MICROBATCHES
    mixed = "matched" in case.verdict
    return case.found["equal"] != mixed


def main(ppsim, results):
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        cases, refused = exports(ppsim, folder)
        cases += without_target(ppsim, folder) + deferred_by_pytorch(ppsim, folder)
        loads = broken(ppsim, folder)
        print(f"{len(cases)} files, {len(refused)} refused, {time.monotonic() - start:.0f} s", flush=True)
        processes.spawn(run_rank, args=(cases, folder), nprocs=RANKS)
        for number, case in enumerate(cases):
            case.found = compared(case, number, folder)
    surprises = [f"{case.name} {case.kind}" for case in cases if not _is_as_said(case)]
    surprises += [name for name, item in loads.items() if item["pytorch"] != "loads" and item["ppsim"] == "proved"]
    listed = [
        {"schedule": case.name, "kind": case.kind, "microbatches": case.microbatches, "verdict": case.verdict} | case.found
        for case in cases
    ]
    found = {
        "torch": torch.__version__,
        "target": TARGET,
        "ranks": RANKS,
        "microbatches": MICROBATCHES,
        "files": listed,
        "refused": refused,
        "loader": loads,
        "surprises": surprises,
    }
    Path(results).write_text(json.dumps(found, indent=1) + "\n")
    print(f"{sum(case.found['equal'] for case in cases)} of {len(cases)} files with the gradients of the plain model")
    print("as said" if not surprises else f"NOT as said: {surprises}")
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
