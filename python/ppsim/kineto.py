"""Costs that PyTorch measured: its profiler names what a pipeline does `PP:<cell>`."""

from __future__ import annotations

import gzip
import os
import re
import statistics
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from ppsim._native import _core
from ppsim.arguments import path as path_of
from ppsim.arguments import whole
from ppsim.costs import Costs
from ppsim.errors import Error, FileError

_CELL = re.compile(r"(\d+)([FBIW])\d+")
_PAIR = re.compile(r"\((\d+)F\d+;(\d+)[BI]\d+\)OVERLAP_F_B")
#: Cells beside the computation of stages; the ranges of a profiler have none of them.
_FREE = ("UNSHARD", "RESHARD", "REDUCE_GRAD")


def costs_from_kineto(
    traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, transfer_ns: int = 0
) -> Costs:
    """The medians of F, B, I, W and overlapped pairs of each stage in traces of torch.profiler, one a rank, or in one.

    Where a trace has ranges of the GPU, these count, else those of the host. A range of a transfer is the time
    of its launch and no transfer's: all take transfer_ns.
    Raises FileError for what is no trace, and for a trace without such ranges.
    """
    paths = _paths(traces)
    transfer_ns = whole("transfer_ns", transfer_ns)
    if transfer_ns < 0:
        raise Error("transfer_ns out of range", found=str(transfer_ns), expected="0 or more whole nanoseconds")
    found: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    for path in paths:
        for key, nanoseconds in _durations(path):
            found[key].append(nanoseconds)
    entries = [_entry(key, statistics.median(values)) for key, values in sorted(found.items())]
    entries += [{"kind": kind, "ns": transfer_ns} for kind in ("SEND_F", "SEND_B")]
    entries += [{"kind": kind, "ns": 0} for kind in _FREE]
    return Costs.table({"format": "ppsim-tables", "version": 1, "costs": entries, "sizes": []})


def _paths(traces: object) -> list[str]:
    """A text is a path and not one for each of its characters."""
    several = [traces] if isinstance(traces, str | os.PathLike) else traces
    paths = list(several) if isinstance(several, Iterable) and not isinstance(several, bytes) else []
    if not paths or not all(isinstance(path, str | os.PathLike) for path in paths):
        expected = "the path of a trace, or one for each rank"
        raise FileError("no trace", code="bad_file", found=repr(traces), expected=expected)
    return [path_of("a trace", path) for path in paths]


def _entry(key: tuple[str, int, int], nanoseconds: float) -> dict[str, Any]:
    kind, stage, backward = key
    entry = {"kind": kind, "stage": stage, "ns": round(nanoseconds)}
    return entry | {"peer": backward} if backward >= 0 else entry


def _durations(path: str) -> Iterator[tuple[tuple[str, int, int], int]]:
    for cell, nanoseconds in _core.kineto_ranges(_text_of(path), path):
        if known := _CELL.fullmatch(cell):
            yield (known[2], int(known[1]), -1), nanoseconds
        elif pair := _PAIR.fullmatch(cell):
            yield ("OVERLAP_F_B", int(pair[1]), int(pair[2])), nanoseconds


def _text_of(path: str) -> str:
    try:
        with gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
            return str(file.read())
    except (OSError, ValueError, EOFError, zlib.error) as wrong:
        raise FileError(f"no trace: {wrong}", code="bad_file", file=path, expected="JSON of torch.profiler") from wrong
