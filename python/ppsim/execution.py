"""A Program as one rank executes it: its own instructions, what each waits for, and where data comes from."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ppsim._native import _core
from ppsim.costs import Costs

COMPUTE_QUEUE, COPY_QUEUE = 0, 1
TRANSFERS = frozenset({"SEND_F", "RECV_F", "SEND_B", "RECV_B", "SEND_A", "RECV_A"})
COLLECTIVES = frozenset({"REDUCE_GRAD", "COLL", "UNSHARD"})
_HEADER = ("rank", "queue", "index", "instruction", "start_ns", "end_ns")


@dataclass(frozen=True)
class Action:
    """subject: stage, block or collective; peer: stage at the other end, rank for SEND_A and RECV_A; -1: none.

    number: microbatch, or update; peer_rank: at the other end of a transfer; communicator: its number
    """

    kind: str
    subject: int
    number: int
    peer: int
    communicator: int
    peer_rank: int

    @property
    def sends(self) -> bool:
        return self.kind.startswith("SEND")


@dataclass(frozen=True)
class Instruction:
    """One of a rank. index: in the rank's list; id: in the Program; waits: indexes that must be complete before."""

    index: int
    id: int
    text: str
    actions: tuple[Action, ...]
    waits: tuple[int, ...]
    queues: tuple[int, ...]
    blocking: bool

    @property
    def queue(self) -> int:
        """The queue that runs it; what else it heads waits for it."""
        return self.queues[0]

    @property
    def communicates(self) -> bool:
        return self.actions[0].kind in TRANSFERS or self.actions[0].kind in COLLECTIVES


@dataclass
class Plan:
    """rank: whose instructions these are; execution: the C++ side, which knows what everything means.

    shared: an Execution that another Plan of the Program has made
    """

    program: _core.Program
    rank: int
    transport: str
    shared: _core.Execution | None = None
    execution: _core.Execution = field(init=False)
    instructions: list[Instruction] = field(init=False)

    def __post_init__(self) -> None:
        self.execution = self.shared or _core.Execution(self.program, self.transport)
        self.instructions = list(_instructions(self.program, self.execution, self.rank))

    @classmethod
    def of_all_ranks(cls, program: _core.Program, transport: str) -> list[Plan]:
        first = cls(program, 0, transport)
        return [first, *(cls(program, rank, transport, first.execution) for rank in range(1, program.ranks))]

    @cached_property
    def members(self) -> list[list[int]]:
        """Ranks of each communicator."""
        return self.execution.members

    @cached_property
    def stages(self) -> list[int]:
        """Those of this rank."""
        return [stage for stage, rank in enumerate(self.program.placement) if rank == self.rank]

    @cached_property
    def blocks_of(self) -> dict[int, list[int]]:
        """The parameter blocks of each stage, ascending."""
        found: dict[int, list[int]] = {stage: [] for stage in range(self.program.stages)}
        for block, stages in enumerate(self.execution.blocks):
            for stage in stages:
                found[stage].append(block)
        return found

    @cached_property
    def reduced_each_microbatch(self) -> frozenset[int]:
        """Blocks whose REDUCE_GRADs have numbers of microbatches."""
        return frozenset(self.execution.reduced_each_microbatch)

    @cached_property
    def order(self) -> list[int]:
        """All stages, each behind those that feed it."""
        rest, order = set(range(self.program.stages)), list[int]()
        while rest:
            ready = sorted(s for s in rest if not rest & {*self.feeders(s), *self.side_feeders(s)})
            order += ready
            rest -= set(ready)
        return order

    def feeders(self, stage: int) -> list[int]:
        """Stages whose outputs are inputs of a stage; empty for a first one."""
        example = self.example(stage)
        return [] if example is None else self.execution.producers(stage, example)

    def readers(self, stage: int) -> list[int]:
        example = self.example(stage)
        return [] if example is None else self.execution.consumers(stage, example)

    @cached_property
    def _side_edges(self) -> list[tuple[int, int]]:
        """Whose ends are on one route, ascending."""
        return [(u, v) for u, v in self.program.side_edges if self.execution.on_route(v, self.example(u) or 0)]

    def side_feeders(self, stage: int) -> list[int]:
        """Stages that a stage reads an output without gradient of, ascending."""
        return [producer for producer, reader in self._side_edges if reader == stage]

    def side_readers(self, stage: int) -> list[int]:
        """Stages for each of which a stage makes an output without gradient, ascending."""
        return [reader for producer, reader in self._side_edges if producer == stage]

    def receiver(self, producer: int, reader: int, microbatch: int) -> int:
        """The stage that receives an output of another rank for all readers on the rank of `reader`."""
        placement = self.program.placement
        readers = self.execution.consumers(producer, microbatch)
        return min(other for other in readers if placement[other] == placement[reader])

    def example(self, stage: int) -> int | None:
        """The first microbatch that visits a stage."""
        every = range(self.program.microbatches)
        return next((number for number in every if self.execution.on_route(stage, number)), None)

    def actions(self) -> list[Action]:
        """All of this rank."""
        return [action for instruction in self.instructions for action in instruction.actions]

    def cells(self, kind: str) -> set[tuple[int, int]]:
        """(subject, number) of all actions of a kind on this rank."""
        return {(a.subject, a.number) for a in self.actions() if a.kind == kind}

    def collectives(self) -> list[Action]:
        """Of this rank."""
        return [action for action in self.actions() if action.kind in COLLECTIVES]

    def stages_of(self, action: Action) -> list[int]:
        """Those of this rank that a collective concerns: all of them, for the norm."""
        if action.kind == "UNSHARD":
            return [action.subject]
        if action.kind == "REDUCE_GRAD":
            return [stage for stage in self.execution.blocks[action.subject] if self.is_local(stage)]
        return self.stages

    def has(self, kind: str) -> bool:
        return any(action.kind == kind for action in self.actions())

    def is_local(self, stage: int) -> bool:
        return self.program.placement[stage] == self.rank

    def owners(self, block: int) -> list[int]:
        """Ranks that have a share of a block, ascending."""
        return sorted({self.program.placement[stage] for stage in self.execution.blocks[block]})

    def channels(self) -> list[tuple[int, int, int]]:
        """(communicator, source, destination) of all ranks in one order, the same on each of them."""
        found = set()
        for rank in range(self.program.ranks):
            for instruction in _instructions(self.program, self.execution, rank):
                for action in instruction.actions:
                    if action.kind in TRANSFERS:
                        ends = (rank, action.peer_rank) if action.sends else (action.peer_rank, rank)
                        found.add((action.communicator, *ends))
        return sorted(found)

    def trace(self, spans: Sequence[tuple[int, int]]) -> str:
        """The CSV that `ppsim simulate --compare-trace` reads. spans: start and end of all ranks' instructions, in ns."""
        first = min(start for start, _ in spans)
        queues, names, texts = self.execution.queues, self.execution.queue_names, self.execution.texts
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_HEADER)
        for rank in range(self.program.ranks):
            begin, end = self.program.first[rank], self.program.first[rank + 1]
            for number in range(begin, end):
                queue = "+".join(names[queue] for queue in queues[number])
                times = (spans[number][0] - first, spans[number][1] - first)
                writer.writerow((rank, queue, number - begin, texts[number], *times))
        return out.getvalue()

    def measured(self, traces: Sequence[str]) -> Costs:
        """Means and spread over `typical_steps`."""
        return Costs.table(self.execution.measured(typical_steps(traces)))


def typical_steps(traces: Sequence[str]) -> list[str]:
    """Traces of all steps but the first, a tenth that was slowest and as many that were fastest. They are left out whole,
    since the mean step is the sum of the means of what is in it only where both are of the same steps."""
    steps = sorted(traces[1:] or traces, key=step_ns)
    left_out = len(steps) // 10
    return steps[left_out : len(steps) - left_out]


def step_ns(trace: str) -> int:
    """From the start of a step to its last end."""
    return max(int(row.split(",")[5]) for row in trace.splitlines()[1:])


def _instructions(program: _core.Program, execution: _core.Execution, rank: int) -> list[Instruction]:
    kinds = _core.op_kinds()
    begin, end = program.first[rank], program.first[rank + 1]
    table, actions = program.instructions, program.actions
    communicators, peers = execution.action_communicators, execution.action_peers
    waits, queues, texts = execution.waits, execution.queues, execution.texts
    result = []
    for number in range(begin, end):
        first, count = int(table["first_action"][number]), int(table["action_count"][number])
        members = tuple(
            Action(
                kind=kinds[int(actions["kind"][i])],
                subject=int(actions["subject"][i]),
                number=int(actions["microbatch"][i]),
                peer=int(actions["peer"][i]),
                communicator=communicators[i],
                peer_rank=peers[i],
            )
            for i in range(first, first + count)
        )
        result.append(
            Instruction(
                index=number - begin,
                id=number,
                text=texts[number],
                actions=members,
                waits=tuple(wait - begin for wait in waits[number]),
                queues=tuple(queues[number]),
                blocking=bool(table["blocking"][number]),
            )
        )
    return result
