"""Checks of PyTorch's pipeline schedules, in the process where they are made. Imports no torch by itself."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ppsim._native import _core
from ppsim.errors import Error
from ppsim.files import read, read_text
from ppsim.targets import load, load_text
from ppsim.verification import Verdict
from ppsim.verification import check as check_program

#: Rank to its actions, as a schedule of torch.distributed.pipelining has it; None is an idle cell.
PipelineOrder = Mapping[int, Sequence[Any]]


def program(
    schedule: Any,
    *,
    dialect: str = "torch",
    communicators: str | None = None,
    target: str | None = None,
) -> _core.Schedule | _core.Program:
    """A schedule object with `pipeline_order_with_comms` or `pipeline_order`, such a dictionary, the list of
    `get_schedule_ops`, or the path of a CSV, as PyTorch would run it.

    dialect, communicators: as in ppsim.read; target: as that release loads it
    Raises FileError naming rank and action that cannot be read; IllFormed for what is no schedule; Error with
    the code refused for what the target would not load.
    """
    if isinstance(schedule, _core.Schedule | _core.Program):
        return schedule
    if isinstance(schedule, str | pathlib.PurePath):
        if target is not None:
            return load(schedule, target=target, communicators=communicators)
        return read(os.fspath(schedule), dialect=dialect, communicators=communicators or "per-edge")
    order = _order_of(schedule)
    rows = [",".join(_cell(action) for action in order[rank]) for rank in range(len(order))]
    text = "\n".join(rows) + "\n"
    if target is not None:
        return load_text(text, name="<pipeline_order>", target=target, communicators=communicators)
    return read_text(text, name="<pipeline_order>", dialect=dialect, communicators=communicators or "per-edge")


def check(
    schedule: Any,
    *,
    target: str | None = None,
    transport: str = "nccl",
    communicators: str | None = None,
    dialect: str = "torch",
    **options: Any,
) -> Verdict:
    """Proves that what PyTorch is about to run neither hangs nor mixes data up, or raises why not.

    schedule: as in `program`
    target: torch-2.15, torch-2.14 or legacy: that the release loads it and computes the gradients of the plain
    model is part of the answer, and an order without transfers is proved in its own lowering
    communicators: per-pair, which is what a process group of NCCL opens by default; per-rank where batches
    are coalesced or the group was given its device; per-edge with PyTorch's pipeline_per_edge_p2p
    transport and options: as in ppsim.check
    """
    if target is not None:
        known = program(schedule, target=target, communicators=communicators)
        return check_program(known, target=target, transport=transport, communicators=communicators, **options)
    communicators = communicators or "per-pair"
    known = program(schedule, dialect=dialect, communicators=communicators)
    lowered = isinstance(known, _core.Schedule)
    return check_program(known, transport=transport, communicators=communicators if lowered else None, **options)


def _order_of(schedule: Any) -> PipelineOrder:
    for name in ("pipeline_order_with_comms", "pipeline_order"):
        if isinstance(order := getattr(schedule, name, None), Mapping) and order:
            schedule = order
            break
    if isinstance(schedule, list | tuple) and all(isinstance(row, list | tuple) for row in schedule):
        schedule = dict(enumerate(schedule))
    if not isinstance(schedule, Mapping):
        raise Error(
            "no schedule of torch.distributed.pipelining",
            found=type(schedule).__name__,
            expected="a path, a schedule with pipeline_order, or a dictionary of rank to actions",
        )
    if sorted(schedule) != list(range(len(schedule))):
        raise Error("a row for each rank is needed", found=f"ranks {sorted(schedule)}", expected="0, 1, 2, ...")
    return schedule


def _cell(action: Any) -> str:
    """PyTorch's actions print as its files spell them; a list of actions that run as one has them in sub_actions."""
    if action is None:
        return ""
    return str(action)
