"""Checks of PyTorch's pipeline schedules, in the process where they are made. Imports no torch by itself."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ppsim._native import _core
from ppsim.annotations import github
from ppsim.arguments import checked, text
from ppsim.errors import Error
from ppsim.files import named, read_for, read_text_for, with_communicators
from ppsim.targets import check_alone, load, load_text, program_for, targets
from ppsim.torch.jobs import is_job, read_job
from ppsim.verification import Verdict, proved, verify

#: Rank to its actions, as a schedule of torch.distributed.pipelining has it; None is an idle cell.
PipelineOrder = Mapping[int, Sequence[Any]]
#: The file of an order in messages.
_ORDER = "<pipeline_order>"


@checked
def program(
    schedule: Any,
    *,
    dialect: str = "torch",
    communicators: str | None = None,
    target: str | None = None,
    layers: int | None = None,
) -> _core.Schedule | _core.Program:
    """A schedule object with `pipeline_order_with_comms` or `pipeline_order`, such a dictionary, the list of
    `get_schedule_ops`, the path of a CSV, or a job config of torchtitan (TOML, or its object), as PyTorch would
    run it.

    A Schedule or Program of ppsim stays what it is; with a target it is what ppsim.targets.program_for makes of it.

    dialect: of a CSV or an order, as in ppsim.read; target: as that release loads it, in its own alphabet
    communicators: of a CSV or an order with transfers, or of a Program in place of its own, as in ppsim.read
    layers: transformer layers of the model, for a job with pipeline_parallel_layers_per_stage
    Raises FileError naming rank and action that cannot be read; IllFormed for what is no schedule; Error with
    the code refused for what the target would not load.
    """
    _check_dialect(dialect, schedule)
    if is_job(schedule):
        job = read_job(schedule, layers=layers, target=target or targets()[0])
        return with_communicators(job.checked(), communicators, schedule)
    _check_no_job(layers)
    if target is not None and isinstance(schedule, _core.Schedule | _core.Program):
        return program_for(schedule, target=target, communicators=communicators)
    return with_communicators(_loaded(schedule, dialect, communicators, target), communicators, schedule)


@checked
def check(
    schedule: Any,
    *,
    target: str | None = None,
    transport: str = "nccl",
    communicators: str | None = None,
    dialect: str = "torch",
    layers: int | None = None,
    annotations: str | None = None,
    **options: Any,
) -> Verdict:
    """Proves that what PyTorch is about to run neither hangs nor mixes data up, or raises why not.

    schedule: as in `program`
    target: torch-2.15, torch-2.14 or legacy: that the release loads it and computes the gradients of the plain
    model is part of the answer, and an order without transfers is proved in its own lowering
    communicators: per-pair, which is what a process group of NCCL opens by default; per-rank where batches
    are coalesced or the group was given its device; per-edge with PyTorch's pipeline_per_edge_p2p. A Program
    keeps its own unless some are named
    transport and options: as in ppsim.check
    A job config is checked for the newest target where none is named; `layers` as in `program`. The report says
    which pipeline it means. Raises JobError for settings that do not go together.
    annotations: github: what is not proved is printed as GitHub shows it at the cells of the file, too
    """
    if annotations not in (None, "github"):
        raise Error("unknown annotations", found=str(annotations), expected="github")
    _check_dialect(dialect, schedule)
    file = os.fspath(schedule) if isinstance(schedule, str | pathlib.PurePath) else ""
    about = ""
    try:
        if is_job(schedule):
            target = target or targets()[0]
            job = read_job(schedule, layers=layers, target=target)
            file = job.csv or job.file
            schedule, about = job.checked(), f"{job}, for {target}"
        else:
            _check_no_job(layers)
        return _checked(
            schedule, about, {"target": target, "communicators": communicators, "dialect": dialect}, transport, options
        )
    except Error as wrong:
        if annotations:
            print(*github(wrong, file), sep="\n")
        raise


def _checked(
    schedule: Any, about: str, loading: dict[str, Any], transport: str, options: dict[str, Any]
) -> Verdict:
    target, communicators = loading["target"], loading["communicators"]
    if target is not None:
        known = _loaded(schedule, loading["dialect"], communicators, target)
        verdict = verify(known, target=target, transport=transport, communicators=communicators, **options)
        return proved(replace(verdict, about=about))
    usual = "per-pair" if communicators is None else communicators
    known = _loaded(schedule, loading["dialect"], usual, None)
    asked = usual if isinstance(known, _core.Schedule) else communicators  # a Program has its own
    return proved(verify(known, transport=transport, communicators=asked, **options))


def _loaded(
    schedule: Any, dialect: str, communicators: str | None, target: str | None
) -> _core.Schedule | _core.Program:
    """What `program` takes but a job, as the target loads it: under these communicators where it has none of its own."""
    if isinstance(schedule, _core.Schedule | _core.Program):
        return schedule
    check_alone(target, dialect=None if dialect == "torch" else dialect)
    if isinstance(schedule, str | pathlib.PurePath):
        path = text("schedule", os.fspath(schedule))
        if target is not None:
            return load(path, target=target, communicators=communicators)
        return read_for(path, dialect, communicators)
    cells = _cells_of(schedule)
    if target is not None:
        return load_text(cells, name=_ORDER, target=target, communicators=communicators)
    return read_text_for(cells, _ORDER, dialect, communicators)


def _check_dialect(dialect: str, schedule: Any) -> None:
    if dialect not in ("torch", "auto") and (is_job(schedule) or isinstance(schedule, _core.Schedule | _core.Program)):
        found = f"dialect={dialect!r} with {named(schedule)}"
        raise Error("a dialect is the alphabet of a CSV", found=found, expected="a CSV, or no dialect")


def _check_no_job(layers: int | None) -> None:
    if layers is not None:
        raise Error("layers are those of a job", found=f"layers={layers}", expected="a job config of torchtitan")


def _cells_of(schedule: Any) -> str:
    order = _order_of(schedule)
    return "".join(",".join(_cell(action) for action in order[rank]) + "\n" for rank in range(len(order)))


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
    if set(schedule) != set(range(len(schedule))):
        raise Error("a row for each rank is needed", found=f"ranks {list(schedule)}", expected="0, 1, 2, ...")
    for rank, row in schedule.items():
        if isinstance(row, str) or not isinstance(row, Sequence):
            raise Error(f"the row of rank {rank} is no list", found=repr(row), expected="actions, or None for idle cells")
    return schedule


def _cell(action: Any) -> str:
    """PyTorch's actions print as its files spell them; a list of actions that run as one has them in sub_actions."""
    if action is None:
        return ""
    return str(action)
