"""Faults on purpose."""

import os
import signal
import time
from typing import Any

import ppsim
import ppsim.torch
import torch

from torch_runs.models import batch, loss, modules


def runtime(program: ppsim.Program, rank: int, **options: Any) -> Any:
    mine = {stage: module for stage, module in modules(program).items() if program.placement[stage] == rank}
    options.setdefault("certificate", ppsim.verify(program, transport="in-process").certificate)
    return ppsim.torch.Runtime(program, mine, loss=loss, **options)


def small(ranks: int, microbatches: int = 4) -> ppsim.Program:
    return ppsim.lower(ppsim.generate("1f1b", ranks=ranks, microbatches=microbatches), with_="reduce-grad")


class Deadly(torch.nn.Module):
    """Ends its process in its second forward."""

    def __init__(self, module: Any, how: str) -> None:
        super().__init__()
        self.module, self.how, self.calls = module, how, 0

    def forward(self, x: Any) -> Any:
        if x.device.type != "meta":
            self.calls += 1
        if self.calls == 3:
            if self.how == "raise":
                raise ValueError("no such luck")
            os.kill(os.getpid(), signal.SIGKILL if self.how == "kill" else signal.SIGSTOP)
        return self.module(x)


def dies(ranks: int, who: int, how: str) -> Any:
    """Rank `who` is killed, is stopped, or raises in the middle of a step."""
    rank = int(os.environ["RANK"])
    program = small(ranks)
    mine = {rank: modules(program)[rank]}
    if rank == who:
        mine[rank] = Deadly(mine[rank], how)
    proof = ppsim.check(program, transport="in-process").certificate
    one = ppsim.torch.Runtime(program, mine, proof, loss=loss, silence_s=8 if how == "stop" else 120)
    return _until_failure(one, program)


def hangs(path: str) -> Any:
    """Runs a refuted program all the same."""
    rank = int(os.environ["RANK"])
    program = ppsim.read(path, communicators="per-rank")
    one = runtime(program, rank, certificate=None, unverified=True, deadline_s=3)
    return _until_failure(one, program)


def _until_failure(one: Any, program: ppsim.Program) -> Any:
    begin = time.monotonic()
    try:
        for step in range(3):
            one.step(*batch(program.microbatches, step))
    except ppsim.torch.StepFailed as failed:
        print(f"named after {time.monotonic() - begin:.1f} s", flush=True)
        raise failed
    return "no failure"


def differs(name: str, microbatches: int, chunks: int | None) -> Any:
    """Rank 1 comes with another program."""
    rank = int(os.environ["RANK"])
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=4)
    if rank == 1:
        schedule = ppsim.generate(name, ranks=2, microbatches=microbatches, chunks=chunks)
    return _refusal(lambda: runtime(ppsim.lower(schedule, with_="reduce-grad"), rank))


def lacks_proof(ranks: int) -> Any:
    """Rank 1 has no certificate."""
    rank = int(os.environ["RANK"])
    options = {"certificate": None} if rank == 1 else {}
    return _refusal(lambda: runtime(small(ranks), rank, **options))


def frozen_on_one() -> Any:
    """Rank 0 has frozen its copies of blocks that rank 1 owns, too."""
    program = ppsim.lower(ppsim.generate("chimera", ranks=2, microbatches=4), with_=("reduce-grad", "opt"))
    rank = int(os.environ["RANK"])
    mine = {s: module.requires_grad_(rank != 0) for s, module in modules(program).items() if program.placement[s] == rank}
    proof = ppsim.check(program, transport="in-process")

    def sgd(parameters: list[Any]) -> Any:
        return torch.optim.SGD(parameters, lr=0.1)

    return _refusal(lambda: ppsim.torch.Runtime(program, mine, proof, loss=loss, optimizer=sgd, meeting_s=10))


def wrong_batches() -> dict[str, str]:
    """Steps of one rank with an invalid batch, and with an invalid optimizer: the error of each."""
    program = ppsim.lower(ppsim.generate("1f1b", ranks=1, microbatches=4), with_=("reduce-grad", "opt"))
    proof = ppsim.check(program, transport="in-process")
    wrong = {"rows": torch.ones(7, 4), "no rows": torch.ones(0, 4), "a number": torch.tensor(1.0), "a text": "abcd",
             "numpy": torch.ones(8, 4).numpy(), "too few": [torch.ones(2, 4)] * 3, "optimizer": None}
    found = {}
    for name, inputs in wrong.items():
        def make(parameters: list[Any]) -> Any:
            return None if name == "optimizer" else torch.optim.SGD(parameters, lr=0.1)

        try:
            with ppsim.torch.Runtime(program, {0: torch.nn.Linear(4, 4)}, proof, loss=loss, optimizer=make) as one:
                one.step(inputs, torch.ones(8, 4))
        except ppsim.Error as refused:
            found[name] = str(refused)
    return found


def _refusal(make: Any) -> Any:
    begin = time.monotonic()
    try:
        make()
    except ppsim.Error as refused:
        return {"error": str(refused), "seconds": time.monotonic() - begin, "group": torch.distributed.is_initialized()}
    return {"error": "", "seconds": time.monotonic() - begin, "group": True}
