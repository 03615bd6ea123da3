"""Effects of a cluster on a step: the costs that decide it, break-even points, random costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from ppsim._native import _core
from ppsim.arguments import Long, checked
from ppsim.costs import sources_of
from ppsim.errors import Error
from ppsim.simulation import Run, threads_of
from ppsim.values import Value


_MAX_SAMPLES = 1_000_000


@dataclass(frozen=True)
class Sensitivity(Value):
    """The share of a step that the costs of a group decide, exactly.

    actions, total_ns: of the group
    one_percent_less_ns, one_percent_more_ns: the step with all of them changed so much
    path_ns: what the group takes of the longest path; below the present costs and above them, which differ where
    several paths are as long
    holds: the factors of the costs from and to which this is so; None: any
    """

    group: str
    actions: int
    total_ns: int
    one_percent_less_ns: float
    one_percent_more_ns: float
    path_ns: tuple[int, int]
    holds: tuple[Fraction, Fraction | None]


@dataclass(frozen=True)
class BreakEven(Value):
    """Which of two runs is shorter: `shorter[i]` from `points[i]` on; None where both take as long.

    points: factors of the costs, or nanoseconds that are added to each
    """

    added: bool
    points: tuple[Fraction, ...]
    shorter: tuple[Run | None, ...]


@dataclass(frozen=True)
class Jitter(Value):
    """Steps whose costs were drawn.

    mean_error_ns: half of the 95 % confidence interval of the mean
    gains_ns: of each rank, what the mean step gets shorter where its own factor is 1; gain_errors_ns: half of the 95 %
    confidence intervals
    """

    planned_ns: int
    steps_ns: tuple[float, ...]
    mean_ns: float
    mean_error_ns: float
    gains_ns: tuple[float, ...]
    gain_errors_ns: tuple[float, ...] = ()

    @checked
    def percentile(self, percent: float) -> float:
        """The shortest step that so many of them do not exceed."""
        if not 0 <= percent <= 100:
            raise Error("percentile out of range", found=str(percent), expected="0 to 100")
        ordered = sorted(self.steps_ns)
        share = Fraction(str(percent)) / 100  # as it was written: 16.1 is no float
        return ordered[max(1, math.ceil(share * len(ordered))) - 1]


@checked
def sensitivity(run: Run, by: str = "kind") -> list[Sensitivity]:
    """Sensitivities of a step in the order of instructions that it has.

    by: kind, which has the network, too, where Costs.from_model alone gives the costs; rank, stage, link or class
    Raises Error where times are no longest paths: computation that others slow down (`Slowdowns`, `ns_beside_transfers`).
    """
    return [_sensitivity(found) for found in _core.sensitivities(run._step, by, sources_of(run.costs))]


@checked
def break_even(first: Run, second: Run, over: str, *, added: bool = False) -> BreakEven:
    """At which costs of a group, such as "transfers", "F" or "rank:0", the other one of two runs is shorter.

    added: as much is added to each cost; else all are multiplied, unless all are 0
    Raises what sensitivity raises; Error for a group that neither has, for runs of other numbers of ranks or
    microbatches, and for one that trains beside one that does not.
    """
    shapes = [(run.program.ranks, run.program.microbatches - run.program.padding) for run in (first, second)]
    if shapes[0] != shapes[1]:
        raise Error("break-even points need the same ranks and microbatches", found=f"{second.name} with {second.program!r}",
                    expected=f"as {first.name} with {first.program!r}")
    found = _core.break_even(first._step, second._step, over, added)
    runs = {-1: first, 0: None, 1: second}
    return BreakEven(
        added=found["added"],
        points=tuple(Fraction(*point) for point, _ in found["ranges"]),
        shorter=tuple(runs[shorter] for _, shorter in found["ranges"]),
    )


@checked
def jitter(
    run: Run,
    *,
    vary: Mapping[str, str] | None = None,
    vary_ranks: str = "",
    slow_ranks: Mapping[int, float] | None = None,
    slow_links: Mapping[tuple[int, int], float] | None = None,
    samples: int | None = None,
    seed: Long = 1,
    threads: int | None = None,
) -> Jitter:
    """Steps whose costs vary, with slow ranks and links; the same with any number of threads.

    vary: {"compute": "lognormal:0.05", "transfers": "gamma:0.3"}; "all" is all of them
    vary_ranks: the spread of a factor that each rank keeps for a step
    slow_ranks, slow_links: factors, {3: 1.2} and {(2, 3): 2}
    samples: steps that are drawn, up to 1000000; default: 1000, or 1 where nothing is drawn
    Raises what sensitivity raises; Error for a group, rank or link that the run does not have.
    """
    if seed < 0:
        raise Error("seed out of range", found=str(seed), expected="0 or more")
    words = _core.SpreadWords()
    words.vary = list((vary or {}).items())
    words.vary_ranks = vary_ranks
    words.slow_ranks = list((slow_ranks or {}).items())
    words.slow_links = [(a, b, factor) for (a, b), factor in (slow_links or {}).items()]
    if samples is None:
        samples = 1000 if vary or vary_ranks else 1
    if not 1 <= samples <= _MAX_SAMPLES:
        raise Error("samples out of range", found=str(samples), expected=f"1 to {_MAX_SAMPLES}")
    words.samples, words.seed = samples, seed
    words.threads = threads_of(threads)
    found = _core.step_spread(run._step, words)
    return Jitter(
        planned_ns=found["planned_ns"],
        steps_ns=tuple(found["steps_ns"]),
        mean_ns=found["mean_ns"],
        mean_error_ns=found["mean_error_ns"],
        gains_ns=tuple(found["gains_ns"]),
        gain_errors_ns=tuple(found["gain_errors_ns"]),
    )


def _sensitivity(found: Mapping[str, object]) -> Sensitivity:
    values = dict(found)
    path = values.pop("path")
    assert isinstance(path, dict)
    return Sensitivity(
        **values,  # type: ignore[arg-type]
        path_ns=(path["below"], path["above"]),
        holds=(Fraction(*path["holds_from"]), Fraction(*path["holds_to"]) if path["holds_to"] else None),
    )
