"""Times of stages in a pipeline: a Program of no published schedule runs them on all processes at once."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch.distributed as dist

from ppsim._native import _core
from ppsim.builder import ScheduleBuilder
from ppsim.costs import Costs
from ppsim.execution import step_ns, typical_steps
from ppsim.lowering import lower
from ppsim.simulation import simulate
from ppsim.torch.admission import transport_of
from ppsim.torch.meeting import default_backend
from ppsim.torch.runtime import Runtime
from ppsim.torch.stage import Loss
from ppsim.torch.weights import MakeOptimizer
from ppsim.verification import check

#: Half of them with B, the others with I and W.
_MICROBATCHES_OF_A_RANK = 4
_UNITS = {"F": 1, "B": 2, "I": 1, "W": 1}


@dataclass(frozen=True)
class Cast:
    """Who rehearses. processes: by rank of the Program, the one with the lowest stage first; owners: the rank of each
    stage; sharded: whether parameters are gathered"""

    processes: tuple[int, ...]
    owners: Mapping[int, int]
    sharded: bool


def rehearse(
    stages: Mapping[int, Any], cast: Cast, inputs: Any, targets: Any, *,
    loss: Loss | None, optimizer: MakeOptimizer | None, costs: Costs, repeats: int,
) -> list[dict[str, Any]]:
    """Rows of a cost table: F, B, I, W, transfers, UNSHARD, REDUCE_GRAD and OPT as they were in some steps, the first left
    out, all by the same factor longer, with which the simulated step is the measured one.

    costs: of the stages one by one, which order the transfers; repeats: how often each action is measured at least
    Requires: every process has a stage; the last one has a loss. All processes call it, those of other pipelines with
    copies or shards of these stages, too.
    """
    microbatches = _MICROBATCHES_OF_A_RANK * len(cast.processes)
    added = ["reduce-grad", *(["opt"] if optimizer else []), *(["unshard"] if cast.sharded else [])]
    program = lower(_order(cast.owners, microbatches), costs=costs, with_=added)
    proof = check(program, transport=transport_of(default_backend(stages)))
    steps = 2 + 4 * repeats // microbatches
    with Runtime(
        program, stages, proof, loss=loss, optimizer=optimizer, kept_traces=steps, processes=cast.processes
    ) as runtime:
        for _ in range(steps):
            dist.barrier()  # simulated ranks begin together
            runtime.step([inputs] * microbatches, [targets] * microbatches)
        found, traces = runtime.costs(), runtime.traces()
    factor = _shortfall(program, found, typical_steps(traces))
    rows = json.loads(found.bound(program.compute_only()))["costs"]
    return [
        {key: round(factor * value) if key == "ns" else value for key, value in row.items() if key != "slice"}
        for row in rows
    ]


def _shortfall(program: _core.Program, costs: Costs, steps: Sequence[str]) -> float:
    """The mean step over the one that is simulated from the means of its own actions. Where durations vary, a step waits
    for whichever rank is slow just then, which no mean of one action has in it."""
    return statistics.fmean(map(step_ns, steps)) / max(simulate(program, costs=costs).makespan_ns, 1)


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
    """Times of the finished actions. ends: by kind, stage and microbatch."""

    def __init__(self, owners: Mapping[int, int], microbatches: int) -> None:
        self._owners, self._microbatches = owners, microbatches
        self.ends: dict[tuple[str, int, int], int] = {}
        self.now = 0

    def backwards(self, rank: int) -> Iterator[tuple[str, int, int]]:
        """Yields the backwards that a rank can begin, best first."""
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
