"""Repairs and schedules that are searched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ppsim._native import _core
from ppsim.arguments import Long, checked
from ppsim.costs import Costs, costs_of, sources_of
from ppsim.errors import DoesNotFit, Error, Unknown
from ppsim.lowering import program_of
from ppsim.values import Value
from ppsim.verification import Certificate, question_of


@dataclass(frozen=True)
class Repair(Value):
    """The changes that remove a deadlock.

    program: which does not hang; None: no change that was allowed helps
    changes: the fewest, as text; why: what stands in the way
    still_refuted: other properties that the program lacks, before and after
    """

    program: _core.Program | None
    changes: list[str] = field(default_factory=list, hash=False)
    why: list[str] = field(default_factory=list, hash=False)
    still_refuted: list[str] = field(default_factory=list, hash=False)

    def __bool__(self) -> bool:
        return self.program is not None


@checked
def repair(
    value: _core.Schedule | _core.Program,
    *,
    changes: Iterable[str] = ("move", "group", "split"),
    transport: str = "any",
    communicators: str | None = None,
    timeout_s: float = 60,
) -> Repair:
    """The fewest changes after which a Program does not hang; what was proved before still is.

    changes: move (an instruction within its rank), group (two transfers), split (a communicator of its own)
    Ctrl-C ends it. Raises Unknown where the time did not suffice.
    """
    program = program_of(value, None, communicators)
    question = question_of(transport=transport, buffers=None, costs=None, timeout_s=timeout_s)
    data = _core.repair(program, question, list(changes))
    if "unknown" in data:
        raise Unknown(f"no repair is known: {data['unknown']}")
    return Repair(data.get("program"), list(data["changes"]), list(data.get("why", [])),
                  list(data.get("still_refuted", [])))


@dataclass(frozen=True)
class Synthesis(Value):
    """The best schedule that was found, and how good any can be.

    value_ns: of the objective; lower_bound_ns: proved, no schedule is below
    placements: that were looked at, of a free placement
    method, bound_method: that found them; open: why it is not known to be optimal
    certificate: that it runs within the limit in every timing; None: no time was left for the proof
    worst_case_bytes: of the fullest rank in any timing, under a limit in bytes
    """

    schedule: _core.Schedule
    program: _core.Program
    value_ns: int
    lower_bound_ns: int
    peak_live_activations: int
    method: str
    bound_method: str
    open: str = ""
    certificate: Certificate | None = None
    worst_case_bytes: int | None = None
    placements: int = 1

    @property
    def optimal(self) -> bool:
        return self.value_ns == self.lower_bound_ns


@checked
def synthesize(
    *,
    ranks: int,
    microbatches: int,
    activation_limit: int | None = None,
    memory_limit: int | str | None = None,
    placement: str | Sequence[int] | None = None,
    chunks: int | None = None,
    costs: Costs | None = None,
    unit: Mapping[str, float] | None = None,
    objective: str = "makespan",
    backward: str = "split",
    timeout_s: float = 60,
    steps: Long | None = None,
    seed: Long = 1,
) -> Synthesis:
    """The shortest schedule of a chain of stages within a limit of memory on each rank.

    activation_limit: (stage, microbatch) that a rank may hold between their F and their W or B; or
    memory_limit: bytes of a rank in any timing, or "80GB"; by default that of the GPU of a model
    placement: "loop", "v", "free" (the best is looked for), or the rank of each stage; by default stage s on rank s
    chunks: stages per rank of a loop, a V or a free placement
    steps: orders to try, without Z3: the same result on every machine; by default as many as time allows
    seed: of the orders that are tried, 0 or more
    objective: makespan, or span of the longest rank; backward: split (I and W) or fused (B)
    Ctrl-C ends it. Raises DoesNotFit where no schedule keeps to the limit.
    """
    if seed < 0:
        raise Error("seed out of range", found=str(seed), expected="0 or more")
    words = _core.SynthesisWords()
    words.ranks, words.microbatches = ranks, microbatches
    words.activation_limit = activation_limit
    words.memory_limit = "" if memory_limit is None else str(memory_limit)
    if placement is not None:
        words.placement = placement if isinstance(placement, str) else ",".join(str(rank) for rank in placement)
    words.chunks, words.steps, words.seed = chunks, steps, seed
    words.span = _one_of("objective", objective, ("makespan", "span")) == "span"
    words.fused = _one_of("backward", backward, ("split", "fused")) == "fused"
    words.timeout_s = timeout_s
    words.costs = sources_of(costs_of(costs, unit) or Costs.unit())
    data = dict(_core.synthesize(words))
    if "why" in data:
        raise DoesNotFit(f"no schedule: {data['why']}", code="does_not_fit", property="memory")
    data["certificate"] = data["certificate"] and Certificate(data["certificate"])
    return Synthesis(**data)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise Error(f"unknown {name}", found=str(value), expected=" or ".join(allowed))
    return value
