"""What stages cost in a pipeline: a Program of no published schedule runs them on all processes at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from ppsim.builder import ScheduleBuilder
from ppsim.costs import Costs
from ppsim.lowering import lower
from ppsim.torch.admission import transport_of
from ppsim.torch.meeting import default_backend
from ppsim.torch.runtime import Runtime
from ppsim.torch.stage import Loss
from ppsim.torch.weights import MakeOptimizer
from ppsim.verification import check

#: Half of them with B, the others with I and W.
_MICROBATCHES_OF_A_RANK = 4
_UNITS = {"F": 1, "B": 2, "I": 1, "W": 1}


def rehearse(
    stages: Mapping[int, Any], owners: Mapping[int, int], inputs: Any, targets: Any, *,
    loss: Loss | None, optimizer: MakeOptimizer | None, costs: Costs, repeats: int,
) -> list[dict[str, Any]]:
    """Rows of a cost table: F, B, I, W, transfers, REDUCE_GRAD and OPT as they were in some steps, the first left out.

    costs: of the stages one by one, which order the transfers; repeats: how often each action is measured at least
    Requires: every process has a stage, and no other pipeline has it, too; the last one has a loss. All processes
    call it.
    """
    ranks = 1 + max(owners.values())
    microbatches = _MICROBATCHES_OF_A_RANK * ranks
    added = ("reduce-grad", "opt") if optimizer else ("reduce-grad",)
    program = lower(_order(owners, microbatches), costs=costs, with_=added)
    proof = check(program, transport=transport_of(default_backend(stages)))
    steps = 2 + 2 * repeats // microbatches
    with Runtime(
        program, stages, proof, loss=loss, optimizer=optimizer, kept_traces=steps
    ) as runtime:
        for _ in range(steps):
            runtime.step([inputs] * microbatches, [targets] * microbatches)
        found = json.loads(runtime.costs().bound(program.compute_only()))["costs"]
    return [{key: value for key, value in row.items() if key != "slice"} for row in found]


def _order(owners: Mapping[int, int], microbatches: int) -> Any:
    """Each rank does what it can, forwards and backwards in turn where it has both; as many microbatches are in flight
    as there are ranks."""
    ranks = 1 + max(owners.values())
    builder = ScheduleBuilder(ranks=ranks, stages=len(owners), microbatches=microbatches, name="rehearsal",
                              placement=[owners[stage] for stage in range(len(owners))])
    add = {"F": builder.forward, "B": builder.backward, "I": builder.backward_input, "W": builder.backward_weight}
    state = _State(owners, microbatches)
    free_at, went_forward = [0] * ranks, [False] * ranks
    while len(state.ends) < len(owners) * microbatches * 5 // 2:
        for rank in range(ranks):
            if free_at[rank] <= state.now:
                both = [state.forwards(rank), state.backwards(rank)]
                found = next(chain(*(reversed(both) if went_forward[rank] else both)), None)
                if found:
                    add[found[0]](found[1], found[2])
                    state.ends[found] = free_at[rank] = state.now + _UNITS[found[0]]
                    went_forward[rank] = found[0] == "F"
        state.now += 1
    return builder.build()


class _State:
    """What has been done when. ends: by kind, stage and microbatch."""

    def __init__(self, owners: Mapping[int, int], microbatches: int) -> None:
        self._owners, self._microbatches = owners, microbatches
        self.ends: dict[tuple[str, int, int], int] = {}
        self.now = 0

    def backwards(self, rank: int) -> Iterator[tuple[str, int, int]]:
        """That a rank can begin, best first."""
        last = len(self._owners) - 1
        for microbatch in range(self._microbatches):
            kinds = ("I", "W") if microbatch % 2 else ("B",)
            for stage in self._stages(rank):
                came = stage == last or self._is_over(kinds[0], stage + 1, microbatch)
                for kind in kinds:
                    if (kind, stage, microbatch) not in self.ends and came and self._is_over("F", stage, microbatch):
                        yield kind, stage, microbatch
                    came = self._is_over(kind, stage, microbatch)

    def forwards(self, rank: int) -> Iterator[tuple[str, int, int]]:
        for stage in self._stages(rank):
            for microbatch in range(self._microbatches):
                came = self._has_place() if stage == 0 else self._is_over("F", stage - 1, microbatch)
                if came and ("F", stage, microbatch) not in self.ends:
                    yield "F", stage, microbatch

    def _has_place(self) -> bool:
        every = range(self._microbatches)
        begun = sum(("F", 0, microbatch) in self.ends for microbatch in every)
        finished = sum(self._is_over("W" if microbatch % 2 else "B", 0, microbatch) for microbatch in every)
        return begun - finished < len(set(self._owners.values()))

    def _stages(self, rank: int) -> list[int]:
        """Those with the fewest behind them first."""
        return [stage for stage in sorted(self._owners, reverse=True) if self._owners[stage] == rank]

    def _is_over(self, kind: str, stage: int, microbatch: int) -> bool:
        return self.ends.get((kind, stage, microbatch), self.now + 1) <= self.now
