"""The time and memory of a step."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ppsim._native import _core
from ppsim.arguments import checked, count, number
from ppsim.arrays import structured
from ppsim.costs import Costs, costs_of, sources_of
from ppsim.errors import Error, FileError
from ppsim.lowering import program_of
from ppsim.values import Value

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

#: A Schedule or Program, and its costs.
Point = tuple[_core.Schedule | _core.Program, Costs]
MAX_THREADS = 1024


@dataclass(frozen=True)
class RankRun(Value):
    """One rank of a run. Start, end, busy and idle are of its computation; sizes are None where unknown.

    at_peak: what lives when memory is first at peak_bytes, by kind of tensor, the most bytes first
    allocated_bytes, reserved_bytes: most that PyTorch's caching allocator counts where each tensor is a block
    communicator_bytes: of the transport, beside peak_bytes
    """

    rank: int
    start_ns: int
    end_ns: int
    busy_ns: int
    idle_ns: int
    peak_bytes: int | None
    peak_at_ns: int | None
    peak_live_activations: int
    sent_bytes: int | None
    at_peak: dict[str, int] | None = field(hash=False)
    allocated_bytes: int | None
    reserved_bytes: int | None
    communicator_bytes: int | None = 0


@dataclass(frozen=True)
class Slowdowns(Value):
    """Slowdowns of computation, as shares of its time: 0.1 is a tenth more. From 0 to 1000, in millionths.

    others: for each other rank of its device that computes; ranks_per_device: consecutive ones that share one,
    2 or more where there is a share of others
    transfers, collectives: while one of its own rank is started and incomplete; the larger one beside both
    """

    ranks_per_device: int = 1
    others: float = 0
    transfers: float = 0
    collectives: float = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranks_per_device", count("ranks_per_device", self.ranks_per_device))
        if self.ranks_per_device < 1:
            raise Error("ranks_per_device out of range", found=str(self.ranks_per_device), expected="1 or more")
        for name in ("others", "transfers", "collectives"):
            share = float(number(name, getattr(self, name)))
            object.__setattr__(self, name, share)
            if not (share == 0 or 1e-6 <= share <= 1000):
                raise Error(f"{name} out of range", found=str(share), expected="0, or 0.000001 to 1000")
        if self.others and self.ranks_per_device == 1:
            raise Error("a slowdown is of the ranks that share a device", found=f"others={self.others:g} alone",
                        expected="ranks_per_device=2 or more beside others")


class Run:
    """A simulated step, with everything that is known of it. `simulate` makes it.

    name; program: what ran; costs; transport, buffers, slowdowns: of the simulation
    """

    @checked
    def __init__(
        self,
        program: _core.Program,
        costs: Costs,
        *,
        name: str = "program",
        transport: str = "any",
        buffers: int | None = None,
        slowdowns: Slowdowns | None = None,
    ) -> None:
        self.name, self.costs, self.transport, self.buffers = name, costs, transport, buffers
        self.slowdowns = slowdowns or Slowdowns()
        words = _core.SimulationWords()
        words.name, words.transport, words.buffers = name, transport, buffers
        words.costs = sources_of(costs)
        slow = self.slowdowns
        words.slow_down(slow.ranks_per_device, slow.others, slow.transfers, slow.collectives)
        self._step = _core.evaluate(program, words)

    @property
    def program(self) -> _core.Program:
        return self._step.program

    @cached_property
    def times(self) -> _core.StepTimes:
        """The times alone, as simulate_many gives them."""
        return self._step.times

    @property
    def makespan_ns(self) -> int:
        """End of the last instruction."""
        return self.times.makespan_ns

    @property
    def step_ns(self) -> int:
        """The makespan and, with costs of a model, the reduction of gradients and the optimizer after it."""
        return self._step.step_ns

    @property
    def rank_span_ns(self) -> int:
        """Longest time of a rank from its first start to its last end."""
        return self.times.rank_span_ns

    @property
    def ideal_ns(self) -> int:
        """Largest compute time of a rank: no order of the same actions takes less."""
        return self.times.ideal_ns

    @property
    def bubble_fraction(self) -> float:
        """1 - mean compute time of the ranks / makespan."""
        return self.times.bubble_fraction

    @property
    def bubble_fraction_span(self) -> float:
        """1 - compute time / span of the rank with the longest span."""
        return self.times.bubble_fraction_span

    @property
    def bubble_ns(self) -> dict[str, int]:
        """Idle time of all ranks by cause: warmup, steady, cooldown, exposed_communication, imbalance."""
        return dict(self._step.bubble_ns)

    @cached_property
    def ranks(self) -> tuple[RankRun, ...]:
        return tuple(RankRun(**rank) for rank in self._step.ranks())

    @property
    def peak_bytes(self) -> int | None:
        """Most memory of a rank in this run; None where the costs say no sizes. `verify` bounds every run."""
        peaks = [rank.peak_bytes for rank in self.ranks if rank.peak_bytes is not None]
        return max(peaks) if peaks else None

    @property
    def peak_live_activations(self) -> int:
        """Most (stage, microbatch) of a rank, slices apart, between the start of F and the end of B or W."""
        return max(rank.peak_live_activations for rank in self.ranks)

    @property
    def memory_limit_bytes(self) -> int | None:
        """Of one GPU of the model's cluster."""
        return self._step.memory_limit_bytes

    @property
    def fits(self) -> bool | None:
        """Whether every rank keeps to memory_limit_bytes, its communicators included; None where that is unknown."""
        return None if self.memory_limit_bytes is None else self._step.fits

    @property
    def tokens_per_second(self) -> float | None:
        """Of a model."""
        return self._step.tokens_per_second

    @property
    def model_flops_utilization(self) -> float | None:
        """Of a model, as a share of the peak."""
        return self._step.model_flops_utilization

    @property
    def free_of_cost(self) -> list[str]:
        """Kinds of actions that the costs name no price of: they took no time."""
        return self._step.free_of_cost()

    @property
    def critical_path(self) -> list[dict[str, Any]]:
        """The longest chain of waits: rank, index, action, start_ns, end_ns, reason; in time order."""
        return list(self._step.critical_path())

    @property
    def trace(self) -> NDArray[numpy.void]:
        """Start and end of every instruction, rank by rank in issue order; not copied, read-only.

        Fields: start_ns, end_ns, and start_round, end_round, which order what happens at one instant.
        Shape: (len(program),). Program.first[rank] is where a rank begins.
        """
        return structured(self._step.spans(), "span")

    @checked
    def memory(self, rank: int) -> NDArray[numpy.void]:
        """Memory of a rank after each change; not copied, read-only. Fields: time_ns, round, bytes.

        No rows where the costs say no sizes, as peak_bytes is None then.
        """
        if not 0 <= rank < self.program.ranks:
            raise Error("no such rank", found=str(rank), expected=f"0 to {self.program.ranks - 1}")
        points = structured(self._step.memory(rank), "memory")
        return points if self._step.has_sizes else points[:0]

    def to_arrow(self) -> _core.ArrowTable:
        """A row for each instruction, rank by rank in issue order, for pyarrow, polars, duckdb and others.

        Columns: rank, index, queue, kind, instruction, start_ns, end_ns; kind is that of the first action, or
        OVERLAP_F_B of a pair, and queue names all that a group is on ("0>1+1>0"). pyarrow.table(run.to_arrow()) and
        polars.DataFrame(run.to_arrow()) take it without copying; ppsim needs neither.
        """
        return self._step.table()

    def row(self) -> dict[str, Any]:
        """The figures of one line of a table."""
        return {
            "name": self.name,
            "makespan_ns": self.makespan_ns,
            "bubble_fraction": self.bubble_fraction,
            "bubble_fraction_span": self.bubble_fraction_span,
            "peak_bytes": self.peak_bytes,
            "peak_live_activations": self.peak_live_activations,
            "tokens_per_second": self.tokens_per_second,
        }

    @checked
    def svg(self, *, title: str = "", width: int = 1200) -> str:
        """The timeline as a picture, a row per rank. width: 20 to 20000 pixels."""
        return self._step.svg(title or self.name, width)

    @checked
    def show(self, *, width: int = 100) -> None:
        """Prints the timeline. width: 20 to 20000 characters."""
        print(self._step.text(width), end="")

    @checked
    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """.csv, .json (Chrome, Perfetto) or .pftrace, by the suffix."""
        self._step.write_trace(os.fspath(path))

    @checked
    def write_report(self, path: str | os.PathLike[str]) -> None:
        """A self-contained HTML page to zoom and to point at."""
        _core.write_report([self._step], os.fspath(path))

    def to_json(self) -> str:
        """The inputs of the run, from which from_json makes it again, and its figures."""
        return json.dumps(
            {
                "format": "ppsim-run",
                "program": json.loads(self.program.to_json()),
                "costs": self.costs.to_json(),
                "transport": self.transport,
                "buffers": self.buffers,
                "slowdowns": json.loads(self.slowdowns.to_json()),
                **self.row(),
                "ranks": [asdict(rank) for rank in self.ranks],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Run:
        """The inverse of to_json: simulates again. Raises FileError."""
        try:
            data = json.loads(text)
            program = _core.Program.from_json(json.dumps(data["program"]))
            slowdowns = data.get("slowdowns")  # which texts of older versions lack
            return cls(
                program,
                Costs.from_json(data["costs"]),
                name=data["name"],
                transport=data["transport"],
                buffers=data["buffers"],
                slowdowns=None if slowdowns is None else Slowdowns.from_json(json.dumps(slowdowns)),
            )
        except FileError:
            raise
        except (KeyError, TypeError, ValueError, RecursionError) as wrong:
            raise FileError(f"no run: {wrong}", code="bad_file", expected="the text of Run.to_json") from wrong

    def _made_from(self) -> tuple[Any, ...]:
        return self.name, self.program, self.costs, self.transport, self.buffers, self.slowdowns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self._made_from() == other._made_from()

    def __hash__(self) -> int:
        return hash(self._made_from())

    def __reduce__(self) -> tuple[Any, ...]:
        return _run_again, self._made_from()

    def __repr__(self) -> str:
        return (
            f"<ppsim.Run {self.name}: {self.makespan_ns / 1e6:g} ms, bubble {self.bubble_fraction:.1%}, "
            f"{self.bubble_fraction_span:.1%} of span>"
        )

    def _repr_html_(self) -> str:
        return self.svg(title=repr(self)[1:-1])


def _run_again(
    name: str,
    program: _core.Program,
    costs: Costs,
    transport: str,
    buffers: int | None,
    slowdowns: Slowdowns,
) -> Run:
    return Run(program, costs, name=name, transport=transport, buffers=buffers, slowdowns=slowdowns)


@checked
def simulate(
    value: _core.Schedule | _core.Program,
    *,
    costs: Costs | None = None,
    unit: Mapping[str, float] | None = None,
    transport: str = "any",
    buffers: int | None = None,
    slowdowns: Slowdowns | None = None,
    name: str | None = None,
) -> Run:
    """Simulates a step of a Program, or of a Schedule lowered by default options under these costs.

    costs, or unit, which is short for Costs.unit(**unit); without either one unit for F, I, W, two for B
    transport: any, nccl, nccl-one-queue, mpi, copy or in-process; buffers: messages of a channel, None for
    rendezvous
    slowdowns: what slows computation down beyond its costs
    name: of the run in tables and pictures; default: the schedule's, or "program"
    Raises Deadlock, IllFormed where it cannot run; Error for costs that lack what a table needs.
    """
    known = costs_of(costs, unit) or Costs.unit()
    program = program_of(value, known)
    if name is None:
        name = value.name if isinstance(value, _core.Schedule) else "program"
    return Run(program, known, name=name, transport=transport, buffers=buffers, slowdowns=slowdowns)


@checked
def simulate_many(
    points: Iterable[Point], *, transport: str = "any", threads: int | None = None
) -> list[_core.StepTimes]:
    """Times of many steps, without traces, memory and critical paths, as a sweep needs them.

    points: pairs of a Program or Schedule, and Costs. A Program is compiled once however many points share
    it; a Schedule is lowered under the costs of each of its points, which takes longer
    threads: 1 to 1024; default: as many as there are cores
    Order: that of the points, whatever the number of threads. Ctrl-C ends it.
    Raises what simulate raises; the message has the number of the point, from 0.
    """
    threads = threads_of(threads)
    pairs = [(_program_of_point(index, value, costs), costs) for index, (value, costs) in enumerate(points)]
    return _core.simulate_many(
        [program for program, _ in pairs], [sources_of(costs) for _, costs in pairs], transport, threads
    )


def _program_of_point(index: int, value: _core.Schedule | _core.Program, costs: Costs) -> _core.Program:
    try:
        return program_of(value, costs)
    except Error as wrong:
        wrong.message = f"point {index}: {wrong.message}"
        wrong.args = (wrong.message,)
        raise


def threads_of(threads: int | None) -> int:
    """The number of threads of a call: by default as many as there are cores."""
    if threads is None:
        return min(len(os.sched_getaffinity(0)), MAX_THREADS)
    if not 1 <= threads <= MAX_THREADS:
        raise Error("threads out of range", found=str(threads), expected=f"1 to {MAX_THREADS}, or None for all cores")
    return threads
