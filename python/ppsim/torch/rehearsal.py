"""What stages cost in a pipeline: a Program of no published schedule runs them on all processes at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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
    """Each rank does what it can: backwards first, and as many microbatches are in flight as there are ranks."""
    ranks = 1 + max(owners.values())
    builder = ScheduleBuilder(ranks=ranks, stages=len(owners), microbatches=microbatches, name="rehearsal",
                              placement=[owners[stage] for stage in range(len(owners))])
    add = {"F": builder.forward, "B": builder.backward, "I": builder.backward_input, "W": builder.backward_weight}
    ends: dict[tuple[str, int, int], int] = {}
    free_at = [0] * ranks
    now = 0
    while len(ends) < len(owners) * microbatches * 5 // 2:
        for rank in range(ranks):
            if free_at[rank] <= now:
                found = next(_possible(owners, rank, microbatches, ends, now), None)
                if found:
                    add[found[0]](found[1], found[2])
                    ends[found] = free_at[rank] = now + _UNITS[found[0]]
        now += 1
    return builder.build()


def _possible(
    owners: Mapping[int, int], rank: int, microbatches: int, ends: Mapping[tuple[str, int, int], int], now: int
) -> Iterator[tuple[str, int, int]]:
    """What a rank can begin, best first."""
    last = len(owners) - 1
    mine = [stage for stage in sorted(owners, reverse=True) if owners[stage] == rank]

    def is_over(kind: str, stage: int, microbatch: int) -> bool:
        return ends.get((kind, stage, microbatch), now + 1) <= now

    for microbatch in range(microbatches):
        kinds = ("I", "W") if microbatch % 2 else ("B",)
        for stage in mine:
            came = is_over("F", last, microbatch) if stage == last else is_over(kinds[0], stage + 1, microbatch)
            for kind in kinds:
                if (kind, stage, microbatch) not in ends and came and is_over("F", stage, microbatch):
                    yield kind, stage, microbatch
                came = is_over(kind, stage, microbatch)
    begun = sum(("F", 0, microbatch) in ends for microbatch in range(microbatches))
    finished = sum(is_over("I" if m % 2 else "B", 0, m) for m in range(microbatches))
    for stage in mine:
        for microbatch in range(microbatches):
            came = begun - finished < len(set(owners.values())) if stage == 0 else is_over("F", stage - 1, microbatch)
            if came and ("F", stage, microbatch) not in ends:
                yield "F", stage, microbatch
