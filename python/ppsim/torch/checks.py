"""Checks of PyTorch's pipeline schedules, in the process where they are made. Imports no torch by itself."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ppsim._native import _core
from ppsim.errors import Error
from ppsim.files import read, read_text
from ppsim.verification import Verdict
from ppsim.verification import check as check_program

#: Rank to its actions, as a schedule of torch.distributed.pipelining has it; None is an idle cell.
PipelineOrder = Mapping[int, Sequence[Any]]


def program(
    schedule: Any, *, dialect: str = "torch", communicators: str = "per-edge"
) -> _core.Schedule | _core.Program:
    """A schedule object with `pipeline_order_with_comms` or `pipeline_order`, such a dictionary, or the path
    of a CSV, as PyTorch would run it.

    dialect, communicators: as in ppsim.read
    Raises FileError naming rank and action that cannot be read; IllFormed for what is no schedule.
    """
    if isinstance(schedule, _core.Schedule | _core.Program):
        return schedule
    if isinstance(schedule, str | pathlib.PurePath):
        return read(os.fspath(schedule), dialect=dialect, communicators=communicators)
    order = _order_of(schedule)
    rows = [",".join(_cell(action) for action in order[rank]) for rank in range(len(order))]
    return read_text("\n".join(rows) + "\n", name="<pipeline_order>", dialect=dialect, communicators=communicators)


def check(
    schedule: Any,
    *,
    transport: str = "nccl",
    communicators: str = "per-pair",
    dialect: str = "torch",
    **options: Any,
) -> Verdict:
    """Proves that what PyTorch is about to run neither hangs nor mixes data up, or raises why not.

    schedule: as in `program`
    communicators: per-pair, which is what a process group of NCCL opens by default; per-rank where batches
    are coalesced; per-edge with PyTorch's pipeline_per_edge_p2p
    transport and options: as in ppsim.check
    """
    known = program(schedule, dialect=dialect, communicators=communicators)
    lowered = isinstance(known, _core.Schedule)
    return check_program(
        known, transport=transport, communicators=communicators if lowered else None, **options
    )


def _order_of(schedule: Any) -> PipelineOrder:
    for name in ("pipeline_order_with_comms", "pipeline_order"):
        if isinstance(order := getattr(schedule, name, None), Mapping) and order:
            schedule = order
            break
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
