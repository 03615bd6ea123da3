"""Schedules by name: those of the C++ registry, and those that are written in Python."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.costs import Costs, costs_of, sources_of
from ppsim.errors import Error, IllFormed

Generator = Callable[..., _core.Schedule]
#: (ranks, microbatches, costs of units by name) -> idle time of a rank in the step, in units
BubbleForm = Callable[[int, int, Mapping[str, float]], float]
#: (ranks, microbatches) -> most live (stage, microbatch) of any rank
PeakForm = Callable[[int, int], int]


@dataclass(frozen=True)
class Registered:
    """A schedule that is written in Python."""

    name: str
    function: Generator
    bubble: BubbleForm | None = None
    peak: PeakForm | None = None


_registered: dict[str, Registered] = {}


@checked
def register(
    name: str,
    function: Generator,
    *,
    bubble: BubbleForm | None = None,
    peak: PeakForm | None = None,
) -> None:
    """Makes a function known to `generate`, `compare` and `ppsim.testing.check_schedule` by a name.

    function(ranks, microbatches, **settings) returns a Schedule, and raises ValueError for parameters that it
    has no schedule for. Where it has a parameter `costs`, the Costs of a call of `generate` or `compare` reach it; None
    without any, and always in the program (`ppsim --plugin`), which tells it no costs.
    bubble(ranks, microbatches, units) is what the paper says of the idle time of the rank with the longest
    span, in units; peak(ranks, microbatches) of the most live activations of a rank.
    Raises Error for a name that a published schedule has, and for one that is not of letters, digits and dashes.
    """
    check_name(name)
    if name in _published():
        raise Error("a published schedule has this name", found=name, expected="another name")
    _registered[name] = Registered(name, function, bubble, peak)


def check_name(name: str) -> None:
    """Raises Error for a name that a command line could not have."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*", name):
        raise Error("no name for a command line", found=repr(name), expected="letters, digits and dashes")


@checked
def unregister(name: str) -> None:
    """Forgets a name again."""
    _registered.pop(name, None)


@functools.cache
def _published() -> tuple[str, ...]:
    return tuple(info["name"] for info in _core.schedule_infos())


@functools.cache
def load_plugins() -> None:
    """Imports, once, the modules that installed packages name as entry points of the group `ppsim.plugins`."""
    for point in importlib.metadata.entry_points(group="ppsim.plugins"):
        point.load()


def registered(name: str) -> Registered | None:
    """The function that was registered by this name."""
    if name not in _registered and name not in _published():
        load_plugins()
    return _registered.get(name)


def schedules() -> list[str]:
    """The names that `generate` knows."""
    load_plugins()
    return [*_published(), *_registered]


@checked
def generate(
    name: str,
    *,
    ranks: int,
    microbatches: int,
    chunks: int | None = None,
    slices: int | None = None,
    costs: Costs | None = None,
    unit: Mapping[str, float] | None = None,
    **settings: Any,
) -> _core.Schedule:
    """A published schedule, or one that was registered.

    ranks, microbatches, chunks (stages per rank), slices (pieces of a microbatch): counts; chunks and slices
    default to the schedule's own
    costs: for orders that follow them (zb-greedy, v-adaptive, ...)
    settings: what only some schedules have, as `ppsim list schedules` names it
    Raises Error naming every parameter that is out of range.
    """
    if (own := registered(name)) is not None:
        given = {"chunks": chunks, "slices": slices}
        settings.update({key: value for key, value in given.items() if value is not None})
        known = costs_of(costs, unit)
        if "costs" in inspect.signature(own.function).parameters:
            settings["costs"] = known
        return _made(own, own.function(ranks, microbatches, **settings), (ranks, microbatches))
    words = _core.GenerateWords()
    words.ranks, words.microbatches = _count("ranks", ranks), _count("microbatches", microbatches)
    words.chunks = None if chunks is None else _count("chunks", chunks)
    words.slices = None if slices is None else _count("slices", slices)
    words.settings = {key: _setting(value) for key, value in settings.items()}
    words.costs = sources_of(costs_of(costs, unit))
    return _core.generate(name, words)


def _made(own: Registered, schedule: Any, asked: tuple[int, int]) -> _core.Schedule:
    """Returns the schedule of a registered function, if it is one with the ranks and microbatches asked for."""
    if not isinstance(schedule, _core.Schedule):
        raise IllFormed(f"the function of {own.name} returned no schedule", code="ill_formed", found=repr(schedule),
                        expected="a ppsim.Schedule")
    made = (schedule.ranks, schedule.microbatches - schedule.padding)
    if made != asked:
        raise IllFormed(f"the function of {own.name} made another schedule", code="ill_formed", found=counts(*made),
                        expected=f"{counts(*asked)}, as it was asked for")
    return schedule


def counts(ranks: int, microbatches: int) -> str:
    """ "1 rank, 8 microbatches"."""
    return ", ".join(f"{n} {one}{'' if n == 1 else end}" for n, one, end in ((ranks, "rank", "s"), (microbatches, "microbatch", "es")))


def _count(name: str, value: int) -> int:
    if value < 1:
        raise Error(f"{name} is no number of them", found=str(value), expected="1 or more, such as 4")
    return value


def _setting(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
