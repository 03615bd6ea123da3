"""One Program under many costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.arrays import structured
from ppsim.costs import Costs, costs_of, sources_of
from ppsim.errors import Error
from ppsim.lowering import program_of
from ppsim.simulation import threads_of

if TYPE_CHECKING:
    import numpy
    from numpy.typing import ArrayLike, NDArray

#: Short names of kinds, as Costs.unit has them.
_KINDS = {"FB": ("OVERLAP_F_B",), "c": ("SEND_F", "SEND_B", "SEND_A")}
#: The form of an instruction that runs F and B as one.
_OVERLAP = 1


@checked
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
    threads: 1 to 1024; default: as many as there are cores; they do not change the result. Ctrl-C ends it
    Returns an array with the fields makespan_ns, rank_span_ns, ideal_ns, bubble_fraction and
    bubble_fraction_span, a row for each point: what simulate_many gives for it.
    Raises what simulate raises, and Error for arrays of other shapes, what is no duration, kinds of which the
    Program has no action, and two arrays for one kind.
    """
    threads = threads_of(threads)
    known = costs_of(costs, unit) or Costs.unit()
    program = program_of(value, known)
    _check_names(durations_ns, program)
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


def _check_names(names: Iterable[str], program: _core.Program) -> None:
    """An array without an action would vary nothing, and of two for a kind one would win."""
    there = _kinds_of(program)
    of: dict[str, str] = {}
    for name in names:
        kinds = _KINDS.get(name, (name,))
        for kind in kinds:
            if kind in of:
                raise Error(f"two arrays are of {kind}", found=f"{of[kind]} and {name}", expected="one of them")
            of[kind] = name
        known = all(kind in _core.op_kinds() and not kind.startswith("RECV_") for kind in kinds)
        if known and there.isdisjoint(kinds):
            expected = ", ".join(kind for kind in _core.op_kinds() if kind in there)
            raise Error(f"no action of the Program is {name}", found=name, expected=expected)


def _kinds_of(program: _core.Program) -> set[str]:
    """Kinds that take time: an overlapped pair is one of its own."""
    import numpy  # not at the top: `import ppsim` stays fast

    actions, instructions = program.actions["kind"], program.instructions
    pairs = instructions["first_action"][instructions["form"] == _OVERLAP]
    alone = numpy.ones(len(actions), bool)
    alone[pairs] = alone[pairs + 1] = False
    names = {_core.op_kinds()[kind] for kind in numpy.unique(actions[alone])}
    return {name for name in names if not name.startswith("RECV_")} | ({"OVERLAP_F_B"} if len(pairs) else set())


def _columns(name: str, durations: ArrayLike, stages: int) -> list[tuple[int, Any]]:
    """Stage and durations; the stage -1 is all of them."""
    import numpy

    expected = f"(points,) or (points, {stages})"
    try:
        array = numpy.asarray(durations)
    except ValueError as error:
        raise Error(f"{name} is no array: its rows differ in length", expected=expected) from error
    if array.dtype.kind not in "iuf":
        raise Error(f"{name} must be nanoseconds", found=f"an array of {array.dtype}", expected="finite numbers")
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] != stages):
        raise Error(f"{name} has another shape", found=str(array.shape), expected=expected)
    given: Any = numpy.ma.asarray(durations)
    _refuse_any(numpy.ma.getmaskarray(given), given, f"{name} is masked", "a value for every point")
    _refuse_any(~numpy.isfinite(array), array, f"{name} is no number of nanoseconds", "finite numbers")
    _refuse_any(array < 0, array, f"{name} is negative", "0 or more nanoseconds")
    _refuse_any(array >= 2**63, array, f"{name} is too long", "less than 2^63 ns (292 years)")
    whole = array.round().astype("<i8")
    if whole.ndim == 1:
        return [(-1, numpy.ascontiguousarray(whole))]
    return [(stage, numpy.ascontiguousarray(whole[:, stage])) for stage in range(stages)]


def _refuse_any(wrong: NDArray[Any], array: NDArray[Any], message: str, expected: str) -> None:
    """Names the first item that is wrong."""
    if wrong.any():
        at = tuple(int(indices[0]) for indices in wrong.nonzero())
        where = ", stage ".join(map(str, at))
        raise Error(f"{message} at point {where}", found=str(array[at]), expected=expected)
