"""Costs that PyTorch measured: its profiler names what a pipeline does `PP:<cell>`."""

from __future__ import annotations

import gzip
import json
import os
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from ppsim.costs import Costs
from ppsim.errors import FileError

_CELL = re.compile(r"PP:(\d+)([FBIW])\d+")
_PAIR = re.compile(r"PP:\((\d+)F\d+;(\d+)[BI]\d+\)OVERLAP_F_B")
_ON_DEVICE, _ON_HOST = "gpu_user_annotation", "user_annotation"
#: What takes time beside the computation of stages, and is no matter of these ranges.
_FREE = ("UNSHARD", "RESHARD", "REDUCE_GRAD")


def costs_from_kineto(traces: Iterable[str | os.PathLike[str]], *, transfer_ns: int = 0) -> Costs:
    """The medians of F, B, I, W and overlapped pairs of each stage in traces of torch.profiler, one a rank.

    Where a trace has ranges of the GPU, these count, else those of the host. A range of a transfer is the time
    of its launch and no transfer's: all take transfer_ns.
    Raises FileError for what is no trace, and for traces without such ranges.
    """
    paths = [os.fspath(path) for path in traces]
    found: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for path in paths:
        for key, microseconds in _durations(path):
            found[key].append(microseconds)
    if not found:
        raise FileError(
            "no range of a pipeline",
            code="bad_file",
            file=", ".join(paths),
            expected="traces of torch.profiler over a step of torch.distributed.pipelining, with PP:0F0 and others",
        )
    entries = [_entry(key, statistics.median(values)) for key, values in sorted(found.items())]
    entries += [{"kind": kind, "ns": transfer_ns} for kind in ("SEND_F", "SEND_B")]
    entries += [{"kind": kind, "ns": 0} for kind in _FREE]
    return Costs.table({"format": "ppsim-tables", "version": 1, "costs": entries, "sizes": []})


def _entry(key: tuple[str, int, int], microseconds: float) -> dict[str, Any]:
    kind, stage, backward = key
    entry = {"kind": kind, "stage": stage, "ns": round(1000 * microseconds)}
    return entry | {"peer": backward} if backward >= 0 else entry


def _durations(path: str) -> Iterator[tuple[tuple[str, int, int], float]]:
    events = _events(path)
    on_device = any(event.get("cat") == _ON_DEVICE and _key(event) for event in events)
    for event in events:
        key = _key(event)
        if key and event.get("cat") == (_ON_DEVICE if on_device else _ON_HOST):
            yield key, float(event["dur"])


def _key(event: dict[str, Any]) -> tuple[str, int, int] | None:
    """Kind, stage and the stage of an overlapped backward, or -1."""
    name = str(event.get("name", ""))
    if event.get("ph") != "X" or "dur" not in event:
        return None
    if cell := _CELL.fullmatch(name):
        return cell[2], int(cell[1]), -1
    pair = _PAIR.fullmatch(name)
    return ("OVERLAP_F_B", int(pair[1]), int(pair[2])) if pair else None


def _events(path: str) -> list[dict[str, Any]]:
    try:
        with gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
            data = json.load(file)
        return list(data["traceEvents"] if isinstance(data, dict) else data)
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise FileError(f"no trace: {wrong}", code="bad_file", file=path, expected="JSON of torch.profiler") from wrong
