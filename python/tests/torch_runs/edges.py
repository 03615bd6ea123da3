"""Outputs without gradient and weights that stages share, beside the same model without a pipeline."""

import json
import os
from collections.abc import Callable
from typing import Any

import torch

import ppsim
import ppsim.torch
from ppsim.execution import Plan
from torch_runs.models import WIDTH, Block, batch, loss

MICROBATCHES = 4


class Numbered(Block):
    """Gives its output and, beside it, the number of the microbatch."""

    def forward(self, x: Any, number: Any) -> Any:
        return super().forward(x), number


class Told(Block):
    """A stage that weights its output by a given number."""

    def forward(self, x: Any, number: Any) -> Any:
        return super().forward(x) * (1 + number)


class Halves(Numbered):
    """A stage whose second result has a gradient that goes nowhere."""

    def forward(self, x: Any, number: Any) -> Any:
        y = Block.forward(self, x)
        return y, y.mean() / 2


class Table(torch.nn.Module):
    """A stage with its own block and with weights that another stage has, too."""

    def __init__(self, seed: int, transposed: bool) -> None:
        super().__init__()
        self.inner, self.transposed = Block(seed), transposed
        torch.manual_seed(99)
        self.table = torch.nn.Parameter(torch.randn(WIDTH, WIDTH, dtype=torch.float64) / 3)

    def forward(self, x: Any) -> Any:
        return self.inner(x) @ self.table.T if self.transposed else self.inner(x @ self.table)


def numbered(microbatches: int) -> list[Any]:
    """Inputs of which each microbatch has its number with it."""
    pieces = batch(microbatches)[0].chunk(microbatches)
    return [(piece, torch.full((1,), number, dtype=torch.int64)) for number, piece in enumerate(pieces)]


def with_side_edge(schedule: ppsim.Schedule, edge: tuple[int, int]) -> ppsim.Schedule:
    text = json.loads(schedule.to_json())
    text["pipeline"]["side_edges"] = [list(edge)]
    found = ppsim.read_text(json.dumps(text))
    assert isinstance(found, ppsim.Schedule)
    return found


def beside() -> list[dict[str, Any]]:
    """Side edges between ranks and within one, with recompute and offload, and of an output that has a gradient."""
    base = ppsim.generate("interleaved-1f1b", ranks=2, microbatches=MICROBATCHES, chunks=2)
    across = ppsim.generate("interleaved-1f1b", ranks=2, microbatches=MICROBATCHES, chunks=2, graph="index")
    within = with_side_edge(base, (0, 2))
    split = with_side_edge(ppsim.generate("interleaved-zb", ranks=2, microbatches=MICROBATCHES, chunks=2), (0, 3))
    return [
        _sided(ppsim.lower(across, with_="reduce-grad"), 3),
        _sided(ppsim.lower(within, with_="reduce-grad"), 2),
        _sided(ppsim.lower(split, with_="reduce-grad"), 3),
        _sided(ppsim.lower(across, with_=["reduce-grad", "load"], recompute="full"), 3),
        _sided(ppsim.lower(across, with_="reduce-grad", offload="all"), 3),
        _sided(ppsim.lower(across, with_="reduce-grad"), 3, Halves),
    ]


def _sided(program: ppsim.Program, reader: int, first: Callable[[int], Any] = Numbered) -> dict[str, Any]:
    def make() -> dict[int, Any]:
        return {s: first(s) if s == 0 else Told(s) if s == reader else Block(s) for s in range(program.stages)}

    plain = make()
    for piece, target in zip(numbered(MICROBATCHES), batch(MICROBATCHES)[1].chunk(MICROBATCHES), strict=True):
        x, number = plain[0](*piece)
        for stage in range(1, program.stages):
            x = plain[stage](x, number.detach()) if stage == reader else plain[stage](x)
        loss(x, target).backward()
    mine = {s: module for s, module in make().items() if program.placement[s] == own_rank()}
    with ppsim.torch.Runtime(program, mine, ppsim.check(program, transport="in-process"), loss=loss) as runtime:
        runtime.step(numbered(MICROBATCHES), batch(MICROBATCHES)[1])
    return _compared(mine, plain)


def _compared(mine: dict[int, Any], plain: dict[int, Any]) -> dict[str, Any]:
    pairs = [
        (a.grad, b.grad / MICROBATCHES)
        for stage, module in mine.items()
        for a, b in zip(module.parameters(), plain[stage].parameters(), strict=True)
    ]
    return {
        "pairs": len(pairs),
        "equal": all(torch.equal(a, b) for a, b in pairs),
        "worst": max(float((a - b).abs().max()) for a, b in pairs),
    }


def too_little() -> None:
    """A module that gives nothing for its side edge."""
    program = ppsim.lower(
        ppsim.generate("interleaved-1f1b", ranks=2, microbatches=MICROBATCHES, chunks=2, graph="index"), with_="reduce-grad"
    )
    mine = {s: Block(s) for s in range(4) if program.placement[s] == own_rank()}
    with ppsim.torch.Runtime(program, mine, ppsim.check(program, transport="in-process"), loss=loss) as runtime:
        runtime.step(*batch(MICROBATCHES))


def tied() -> list[dict[str, Any]]:
    """The first and the last stage share a table, summed across ranks once, or for every microbatch; schedules with
    halves, with two directions, and with updates and clipping."""
    each = "reduce-grad-each-microbatch"
    found = []
    for name, microbatches, with_ in (
        ("1f1b", MICROBATCHES, ["reduce-grad"]),
        ("1f1b", MICROBATCHES, [each]),
        ("zb-h1", MICROBATCHES, [each]),
        ("chimera", MICROBATCHES, ["reduce-grad"]),
        ("1f1b", MICROBATCHES, ["reduce-grad", "opt", "clip"]),
        ("1f1b", MICROBATCHES, [each, "opt", "clip"]),
    ):
        schedule = ppsim.generate(name, ranks=2, microbatches=microbatches)
        found.append(_tied(ppsim.lower(schedule, with_=with_, tied=True), "opt" in with_))
    return found


def _tied(program: ppsim.Program, updates: bool) -> dict[str, Any]:
    blocks = Plan(program, 0, "in-process").execution.blocks
    own = {stage: block for block, stages in reversed(list(enumerate(blocks))) for stage in stages}
    plain = [Table(0, False), Table(1, True)]
    plain[1].table = plain[0].table
    parameters = list({id(p): p for module in plain for p in module.parameters()}.values())
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    mine = {s: Table(own[s], own[s] > 0) for s in range(program.stages) if program.placement[s] == own_rank()}
    ends = {stage: "table" for stage in blocks[-1]}
    steps = 3 if updates else 1
    with ppsim.torch.Runtime(
        program, mine, ppsim.check(program, transport="in-process"), loss=loss, tied=[ends],
        optimizer=(lambda group: torch.optim.SGD(group, lr=0.05, momentum=0.9)) if updates else None,
        clip_norm=0.1 if updates else None,
    ) as runtime:
        for step in range(steps):
            runtime.step(*batch(MICROBATCHES, step))
    for step in range(steps):
        optimizer.zero_grad()
        for x, target in zip(*(part.chunk(MICROBATCHES) for part in batch(MICROBATCHES, step)), strict=True):
            (loss(plain[1](plain[0](x)), target) / MICROBATCHES).backward()
        if updates:
            torch.nn.utils.clip_grad_norm_(parameters, 0.1)
            optimizer.step()
    pairs = [
        (a, b) if updates else (a.grad, b.grad)
        for stage, module in mine.items()
        for (_, a), (_, b) in zip(sorted(module.named_parameters()), sorted(plain[own[stage]].named_parameters()), strict=True)
    ]
    return {"pairs": len(pairs), "worst": max(float((a - b).detach().abs().max()) for a, b in pairs)}


def refusals() -> list[str]:
    """Returns the messages that refuse a wrong `tied`; the same on all ranks."""
    shared = ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=MICROBATCHES), with_="reduce-grad", tied=True)
    plain = ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=MICROBATCHES), with_="reduce-grad")
    found = []
    for program, ends in (
        (shared, []),
        (plain, [{0: "table", 1: "table"}]),
        (shared, [{0: "table", 1: ["table", "inner.up.weight"]}]),
        (shared, [{0: "tables", 1: "tables"}]),
        (shared, {0: "table", 1: "table"}),
    ):
        mine = {own_rank(): Table(own_rank(), own_rank() > 0)}
        try:
            ppsim.torch.Runtime(program, mine, ppsim.check(program, transport="in-process"), loss=loss, tied=ends).close()
            found.append("")
        except ppsim.Error as wrong:
            found.append(str(wrong))
    return found


def own_rank() -> int:
    return int(os.environ["RANK"])


def everything() -> list[Any]:
    return [beside(), tied(), refusals()]
