"""Schedules of your own, action by action."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ppsim._native import _core
from ppsim.arguments import checked, count
from ppsim.errors import Error

#: Of a pipeline. More are refused before there are rows for them.
_MOST = {"ranks": 1 << 16, "stages": 1 << 20}
_SHAPE = ("ranks", "stages", "microbatches", "slices", "edges", "side_edges", "routes", "route", "blocks")


class ScheduleBuilder:
    """Collects the rows of a schedule; `build` checks that it is complete, and that each rank can follow its own row.

    Whether ranks wait for each other for ever is seen where transfers are there: `lower`, and all that lowers a
    Schedule, raises Deadlock then. A call that raises changes nothing. copy.copy gives one that goes on by itself.

    ranks, stages, microbatches, slices: counts
    placement: the rank of each stage, of all stages. Without it a stage is on the rank that its first action is added to;
    stage s on rank s mod ranks where no rank is named
    edges: pairs of stages, the output of the first being an input of the second; default: a chain
    side_edges: pairs of stages, of which the first makes one more output for the second, without gradient
    routes: lists of stages, and microbatch_routes: which of them each microbatch takes; default: all stages
    blocks: lists of stages that share parameters
    """

    @checked
    def __init__(
        self,
        *,
        ranks: int,
        stages: int,
        microbatches: int,
        slices: int = 1,
        name: str = "custom",
        placement: Sequence[int] = (),
        edges: Iterable[tuple[int, int]] = (),
        side_edges: Iterable[tuple[int, int]] = (),
        routes: Iterable[Sequence[int]] = (),
        microbatch_routes: Sequence[int] = (),
        blocks: Iterable[Sequence[int]] = (),
    ) -> None:
        counts = {"ranks": ranks, "stages": stages, "microbatches": microbatches, "slices": slices}
        if none := [name for name, value in counts.items() if value < 1]:
            raise Error(f"a pipeline needs {none[0]}", found=str(counts[none[0]]), expected="1 or more")
        for what, most in _MOST.items():
            if counts[what] > most:
                raise Error(f"too many {what}", found=str(counts[what]), expected=f"up to {most}")
        if placement and len(placement) != stages:
            raise Error("a placement has the rank of each stage", found=f"{len(placement)} ranks",
                        expected=f"{stages}, as many as stages")
        if wrong := [rank for rank in placement if not 0 <= rank < ranks]:
            raise Error("no such rank", found=str(wrong[0]), expected=f"0 to {ranks - 1}")
        self.name = name
        self._shape = _core.Shape()
        self._shape.ranks, self._shape.stages = ranks, stages
        self._shape.microbatches, self._shape.slices = microbatches, slices
        self._shape.edges, self._shape.side_edges = list(edges), list(side_edges)
        self._shape.routes = [list(route) for route in routes]
        self._shape.route = list(microbatch_routes)
        self._shape.blocks = [list(block) for block in blocks]
        self._placement: list[int | None] = list(placement) if placement else [None] * stages
        self._rows: list[list[str]] = [[] for _ in range(ranks)]

    def forward(self, stage: int, microbatch: int, *, rank: int | None = None, slice: int = 0) -> ScheduleBuilder:
        """F: the forward."""
        return self._add("F", stage, microbatch, rank, slice)

    def backward(self, stage: int, microbatch: int, *, rank: int | None = None, slice: int = 0) -> ScheduleBuilder:
        """B: the whole backward."""
        return self._add("B", stage, microbatch, rank, slice)

    def backward_input(
        self, stage: int, microbatch: int, *, rank: int | None = None, slice: int = 0
    ) -> ScheduleBuilder:
        """I: the gradient of the stage's input."""
        return self._add("I", stage, microbatch, rank, slice)

    def backward_weight(
        self, stage: int, microbatch: int, *, rank: int | None = None, slice: int = 0
    ) -> ScheduleBuilder:
        """W: the gradient of the stage's weights."""
        return self._add("W", stage, microbatch, rank, slice)

    @checked
    def overlap(
        self,
        forward: tuple[int, int],
        backward: tuple[int, int],
        *,
        rank: int | None = None,
        slices: tuple[int, int] = (0, 0),
    ) -> ScheduleBuilder:
        """The forward and the backward of two (stage, microbatch) as one. slices: of the forward and of the backward."""
        cells = self._cell("F", *forward, slices[0]), self._cell("B", *backward, slices[1])
        row = self._rank_of(forward[0], rank)
        self._place(forward[0], row)
        self._place(backward[0], row)
        self._rows[row].append(f"({cells[0]};{cells[1]})OVERLAP_F_B")
        return self

    def idle(self, rank: int) -> ScheduleBuilder:
        """A deliberate bubble."""
        self._rows[self._checked_rank(rank)].append("")
        return self

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which have rows of their own, and for pickle."""
        own = {"_placement": list(self._placement), "_rows": [list(row) for row in self._rows]}
        return self.__dict__ | own | {"_shape": {field: getattr(self._shape, field) for field in _SHAPE}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _shape=_core.Shape())
        for field, value in state["_shape"].items():
            setattr(self._shape, field, value)

    def build(self) -> _core.Schedule:
        """Raises IllFormed, naming every broken rule with its rank and action."""
        ranks = self._shape.ranks
        self._shape.placement = [s % ranks if r is None else r for s, r in enumerate(self._placement)]
        return _core.from_rows(self.name, self._shape, self._rows)

    def _add(self, kind: str, stage: int, microbatch: int, rank: int | None, slice: int) -> ScheduleBuilder:
        cell, row = self._cell(kind, stage, microbatch, slice), self._rank_of(stage, rank)
        self._place(stage, row)
        self._rows[row].append(cell)
        return self

    def _cell(self, kind: str, stage: int, microbatch: int, slice: int) -> str:
        stage = _within("stage", stage, self._shape.stages)
        microbatch = _within("microbatch", microbatch, self._shape.microbatches)
        slice = _within("slice", slice, self._shape.slices)
        return f"{stage}{kind}{microbatch}" + (f".{slice}" if self._shape.slices > 1 else "")

    def _checked_rank(self, rank: int) -> int:
        return _within("rank", rank, self._shape.ranks)

    def _rank_of(self, stage: int, rank: int | None) -> int:
        """Where its action goes. Requires: a stage that there is."""
        if rank is None:
            known = self._placement[stage]
            rank = stage % self._shape.ranks if known is None else known
        return self._checked_rank(rank)

    def _place(self, stage: int, rank: int) -> None:
        if self._placement[stage] is None:
            self._placement[stage] = rank


def _within(name: str, value: int, end: int) -> int:
    value = count(name, value)
    if not 0 <= value < end:
        raise Error(f"no such {name}", found=str(value), expected=f"0 to {end - 1}")
    return value
