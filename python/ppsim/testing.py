"""The tests of every published schedule, for one that is written in Python.

    import pytest
    from ppsim.testing import cases, check_schedule

    @pytest.mark.parametrize("ranks, microbatches", cases())
    def test_mine(ranks, microbatches):
        check_schedule("mine", ranks=ranks, microbatches=microbatches)

With hypothesis: `@given(ranks=integers(1, 8), microbatches=integers(1, 32))`. Needs neither of the two.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Any

from ppsim import builder
from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.errors import Error
from ppsim.registry import counts, generate, registered, schedules
from ppsim.simulation import Run, simulate
from ppsim.verification import check

#: Units of the closed forms.
UNITS = ({"F": 1.0, "B": 2.0, "I": 1.0, "W": 1.0}, {"F": 1.0, "B": 3.0, "I": 2.0, "W": 1.0})


def cases(
    ranks: Iterable[int] = (1, 2, 3, 4, 6), microbatches: Iterable[int] = (1, 2, 4, 7, 12)
) -> list[tuple[int, int]]:
    """Pairs of ranks and microbatches to try."""
    counts = list(microbatches)
    return [(p, m) for p in ranks for m in counts]


@checked
def check_schedule(
    name: str, *, ranks: int | None = None, microbatches: int | None = None, **settings: Any
) -> int:
    """Checks one case, or without ranks and microbatches each of `cases()`.

    Every stage computes every microbatch once, on all transports no timing hangs or mixes data up, its files
    read as what was written, and the closed forms that were registered hold. A case that the function refuses
    with a ValueError is left out, unless it was the one asked for; what ScheduleBuilder refuses is no such case.
    Returns: how many cases were checked. Raises CheckFailed or AssertionError, naming the case (in a note of
    CheckFailed), or why every case is refused; Error for a name that is not registered.
    """
    if (ranks is None) != (microbatches is None):
        raise Error("give both ranks and microbatches, or neither")
    if name not in schedules():
        generate(name, ranks=1, microbatches=1)  # which refuses it, and names the nearest one
    if ranks is not None and microbatches is not None:
        _check_case(name, ranks, microbatches, settings)
        return 1
    checked, reason = 0, None
    for p, m in cases():
        try:
            generate(name, ranks=p, microbatches=m, **settings)
        except ValueError as refused:
            if not _refuses(refused):
                refused.add_note(f"{name} with {counts(p, m)}")
                raise
            reason = refused
            continue
        _check_case(name, p, m, settings)
        checked += 1
    _hold(checked > 0, f"{name} refuses every case: none was checked: {reason}")
    return checked


def _refuses(error: ValueError) -> bool:
    """Whether it is about the parameters, and not what ScheduleBuilder says of the schedule made for them."""
    if not isinstance(error, Error):
        return True
    calls = [frame.f_locals.get("function") for frame, _ in traceback.walk_tb(error.__traceback__)]
    own = any(frame.f_code.co_filename == builder.__file__ for frame, _ in traceback.walk_tb(error.__traceback__))
    of_builder = own or any(getattr(function, "__module__", "") == builder.__name__ for function in calls)
    return error.code == "bad_argument" and not of_builder


def _check_case(name: str, ranks: int, microbatches: int, settings: dict[str, Any]) -> None:
    where = f"{name} with {counts(ranks, microbatches)}"
    schedule = generate(name, ranks=ranks, microbatches=microbatches, **settings)
    again = generate(name, ranks=ranks, microbatches=microbatches, **settings)
    _hold(again == schedule, f"{where}: another schedule the second time")
    _hold(_core.Schedule.from_json(schedule.to_json()) == schedule, f"{where}: its file reads differently")
    try:
        for transport in ("any", "nccl-one-queue"):
            check(schedule, transport=transport)
        runs = [(simulate(schedule, unit=units), units) for units in UNITS]
    except Error as wrong:
        wrong.add_note(where)
        raise
    for run, units in runs:
        _check_forms(name, run, units, where)


def _check_forms(name: str, run: Run, units: dict[str, float], where: str) -> None:
    own = registered(name)
    if own is None:
        return
    ranks, microbatches = run.program.ranks, run.program.microbatches - run.program.padding
    if own.peak is not None:
        expected = own.peak(ranks, microbatches)
        _hold(
            run.peak_live_activations == expected,
            f"{where}: {run.peak_live_activations} live activations, the closed form says {expected}",
        )
    if own.bubble is not None:
        longest = max(run.ranks, key=lambda rank: rank.end_ns - rank.start_ns)
        idle = (longest.end_ns - longest.start_ns - longest.busy_ns) / 1e6
        bubble = own.bubble(ranks, microbatches, units)
        _hold(abs(idle - bubble) < 1e-6, f"{where}, {units}: bubble {idle:g}, the closed form says {bubble:g}")


def _hold(condition: bool, message: str) -> None:
    """An assertion that python -O keeps."""
    if not condition:
        raise AssertionError(message)
