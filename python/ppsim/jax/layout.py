"""Which part of the function each stage of a Program is, and which parameters each of its blocks has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ppsim._native import _core
from ppsim.errors import Error
from ppsim.execution import Plan
from ppsim.jax.equations import describe
from ppsim.jax.split import Split, has_gradient


class Layout:
    """parts: the part of each stage: its place on its route, so that both routes of a bidirectional schedule have
    all parts. stages: the stages that read each parameter; blocks: numbers of each block's parameters.

    plans: of all ranks; loose: parameters whose stages are no block, such as tied weights that the Program does not know of
    Raises Error for a function with another number of parts, or with values that no edge carries.
    """

    def __init__(self, plans: list[Plan], split: Split) -> None:
        self.plans, self.plan, self.split = plans, plans[0], split
        self.parts = _places(self.plan)
        self._check_count()
        self._check_edges()
        users = [split.users(number) or [0] for number in range(len(split.parameters))]
        self.stages = [[s for s, part in enumerate(self.parts) if part in of] for of in users]
        blocks = [sorted(stages) for stages in self.plan.execution.blocks]
        self.blocks = [[k for k, stages in enumerate(self.stages) if stages == block] for block in blocks]
        owned = {number for numbers in self.blocks for number in numbers}
        self.loose = [number for number in range(len(split.parameters)) if number not in owned]
        self._check_blocks()

    def rank(self, stage: int) -> int:
        return int(self.plan.program.placement[stage])

    def crossing(self, producer: int, reader: int, gradients: bool) -> list[int]:
        """Numbers of the outputs that go from a stage to another one and those after it; of the gradients back."""
        outputs, part = self.split.parts[self.parts[producer]].outputs, self.parts[producer]
        if gradients:
            numbers = self.split.parts[self.parts[reader]].reads(part)
            return [number for number in numbers if has_gradient(outputs[number])]
        stages = self.readers(producer, reader)
        return sorted({number for stage in stages for number in self.split.parts[self.parts[stage]].reads(part)})

    def readers(self, producer: int, receiver: int) -> list[int]:
        """The stages on the rank of the receiver for which it gets an output."""
        example = self._example(receiver)
        if self.rank(producer) == self.rank(receiver) or producer in self.plan.side_feeders(receiver):
            return [receiver]
        stages = self.plan.execution.consumers(producer, example)
        return [stage for stage in stages if self.plan.receiver(producer, stage, example) == receiver]

    def shapes(self, producer: int, reader: int, gradients: bool) -> list[Any]:
        """Of the same."""
        outputs = self.split.parts[self.parts[producer]].outputs
        return [outputs[number] for number in self.crossing(producer, reader, gradients)]

    def _check_count(self) -> None:
        found, expected = len(self.split.parts), max(self.parts) + 1
        if found != expected:
            raise Error("the function has another number of stages than the program",
                        found=f"{found} stages, {found - 1} calls of enter_stage",
                        expected=f"{expected} stages, {expected - 1} calls of enter_stage")

    def _check_edges(self) -> None:
        """Every value goes from its stage to a later one on an edge of the Program."""
        for stage, number in enumerate(self.parts):
            part, example = self.split.parts[number], self._example(stage)
            fed = {self.parts[feeder] for feeder in self.plan.execution.producers(stage, example)}
            aside = {self.parts[feeder] for feeder in self.plan.side_feeders(stage)}
            for producer, place in part.inputs:
                value = self.split.parts[producer].outputs[place]
                if producer in fed or (producer in aside and not has_gradient(value)):
                    continue
                shape, known = describe(value), ", ".join(f"{feeder} -> {number}" for feeder in sorted(fed))
                if producer in aside:
                    raise Error(
                        f"a value of stage {producer}, {shape}, is used in stage {number}, and the side edge between them "
                        "takes no gradient back", found=shape, expected="integers or booleans, or an edge with a gradient")
                raise Error(
                    f"a value of stage {producer}, {shape}, is used in stage {number}, and the program has no edge for it",
                    found=known or f"no edge to stage {number}",
                    expected=f"an edge {producer} -> {number}, or the value among those of each enter_stage between the two",
                )

    def _example(self, stage: int) -> int:
        """A microbatch that visits a stage."""
        return next(m for m in range(self.plan.program.microbatches) if self.plan.execution.on_route(stage, m))

    def _check_blocks(self) -> None:
        kinds = self.plan.program.actions["kind"]
        if self.loose and (kinds == _core.op_kinds().index("OPT")).any():
            number = self.loose[0]
            stages = self.stages[number]
            raise Error(f"stages {stages} read parameter {self.split.names[number]}, and the program updates no block of these",
                        code="refused", found=f"blocks {self.plan.execution.blocks}",
                        expected="ppsim.jax.tied(schedule, loss_function, params, batch), lowered with reduce-grad and opt")


def _places(plan: Plan) -> list[int]:
    """How many stages come before each on its route, in the order of the stages' numbers along the edges."""
    places = [0] * plan.program.stages
    for microbatch in _first_of_routes(plan):
        route = [s for s in range(plan.program.stages) if plan.execution.on_route(s, microbatch)]
        done: list[int] = []
        while len(done) < len(route):
            ready = (s for s in route if s not in done and _feeders(plan, s, microbatch) <= set(done))
            stage = next(ready)
            places[stage] = len(done)
            done.append(stage)
    return places


def _feeders(plan: Plan, stage: int, microbatch: int) -> set[int]:
    return {*plan.execution.producers(stage, microbatch), *plan.side_feeders(stage)}


def _first_of_routes(plan: Plan) -> Iterable[int]:
    seen = set()
    for microbatch in range(plan.program.microbatches):
        route = tuple(s for s in range(plan.program.stages) if plan.execution.on_route(s, microbatch))
        if route not in seen:
            seen.add(route)
            yield microbatch
