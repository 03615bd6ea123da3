"""One Program under many costs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ppsim._native import _core
from ppsim.arrays import structured
from ppsim.costs import Costs, costs_of, sources_of
from ppsim.errors import Error
from ppsim.lowering import program_of

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike, NDArray

#: Short names of kinds, as Costs.unit has them.
_KINDS = {"FB": ("OVERLAP_F_B",), "c": ("SEND_F", "SEND_B", "SEND_A")}


def sweep(
    value: _core.Schedule | _core.Program,
    durations_ns: Mapping[str, ArrayLike],
    *,
    costs: Costs | None = None,
    unit: Mapping[str, float] | None = None,
    transport: str = "any",
    threads: int | None = None,
) -> NDArray[numpy.void]:
    """Times of one Program at many points, from arrays to an array: 100,000 points take about a second.

    durations_ns: for each kind that varies (F, B, I, W, R, FB, c, or a kind as a cost table names it) its
    durations in nanoseconds, rounded. Shape: (points,), or (points, stages), where a transfer is of the stage
    that sends it
    costs, unit: of everything else, at every point; a Schedule is lowered under them, once
    threads: default: as many as there are cores; they do not change the result. Ctrl-C ends it
    Returns an array with the fields makespan_ns, rank_span_ns, ideal_ns, bubble_fraction and
    bubble_fraction_span, a row for each point: what simulate_many gives for it.
    Raises what simulate raises, and Error for arrays of other shapes.
    """
    threads = threads or len(os.sched_getaffinity(0))
    if threads < 1:
        raise Error("threads out of range", found=str(threads), expected="1 or more")
    known = costs_of(costs, unit) or Costs.unit()
    program = program_of(value, known)
    columns = [
        (kind, stage, column)
        for name, durations in durations_ns.items()
        for stage, column in _columns(name, durations, program.stages)
        for kind in _KINDS.get(name, (name,))
    ]
    counts = {len(column) for _, _, column in columns}
    if len(counts) > 1:
        raise Error("the arrays differ in their number of points", found=str(sorted(counts)), expected="one number")
    return structured(_core.sweep(program, sources_of(known), columns, transport, threads), "point")


def _columns(name: str, durations: ArrayLike, stages: int) -> list[tuple[int, Any]]:
    """Stage and durations; the stage -1 is all of them."""
    import numpy  # not at the top: `import ppsim` stays fast

    array = numpy.asarray(durations)
    if array.dtype.kind not in "iuf" or not numpy.isfinite(array).all():
        raise Error(f"{name} must be nanoseconds", found=f"an array of {array.dtype}", expected="finite numbers")
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] != stages):
        raise Error(
            f"{name} has another shape", found=str(array.shape), expected=f"(points,) or (points, {stages})"
        )
    if array.size and abs(array).max() >= 2**63:
        raise Error(f"{name} is too long", found=f"{array.max():g} ns", expected="less than 2^63 ns (292 years)")
    whole = array.round().astype("<i8")
    if whole.ndim == 1:
        return [(-1, numpy.ascontiguousarray(whole))]
    return [(stage, numpy.ascontiguousarray(whole[:, stage])) for stage in range(stages)]
