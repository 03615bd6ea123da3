"""Messages and sums between ranks: one process group for each communicator of the Program."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ppsim.execution import Action, Plan
from ppsim.torch.replicas import Whole

#: A day: a step has a deadline of its own, which says more than a time-out of the library.
NO_TIMEOUT = datetime.timedelta(days=1)
_MOST_TAGS = 1 << 24
#: Objects of Transfers so far: as many on each process of a pipeline.
_count = 0


@dataclass(frozen=True)
class Message:
    """One end of a transfer: what is sent, or where it is received."""

    action: Action
    tensors: tuple[Any, ...]


class Transfers:
    """Makes the groups in the order of the communicators, which is the same on every rank."""

    def __init__(self, plan: Plan, processes: Sequence[int], backend: str, device: Any) -> None:
        global _count
        _count += 1
        self._number = _count
        self._plan, self._processes, self._backend, self._device = plan, processes, backend, device
        self._groups = [self._new_group(number) for number in range(len(plan.members))]
        self._replicas: dict[tuple[int, tuple[int, ...]], Any] = {}  #: by communicator and processes
        self._sent: dict[tuple[int, int, int], int] = {}

    def warm_up(self) -> None:
        """One byte through every channel, one after another: what connects lazily connects now.

        First all members of each NCCL communicator meet: a channel of two of them would wait for the rest, and one that
        has no channels would connect in the middle of a step.
        """
        for group in self._groups:
            self._meet(group)
        for communicator, source, destination in self._plan.channels():
            byte = torch.zeros(1, dtype=torch.uint8, device=self._device)
            group = self._groups[communicator]
            if self._plan.rank == source:
                self._warm_up_by(dist.P2POp(dist.isend, byte, self._processes[destination], group=group))
            elif self._plan.rank == destination:
                self._warm_up_by(dist.P2POp(dist.irecv, byte, self._processes[source], group=group))

    def _meet(self, group: Any) -> None:
        if self._backend == "nccl" and group is not None and group != dist.GroupMember.NON_GROUP_MEMBER:
            dist.all_reduce(torch.zeros(1, device=self._device), group=group, async_op=True).wait()

    def open_replicas(self, stages: Mapping[int, Whole]) -> None:
        """A group of the replicas for each collective of the Program that concerns their stage."""
        for action in sorted(self._plan.collectives(), key=lambda action: (action.communicator, action.subject)):
            for number in self._plan.stages_of(action):
                if stages[number].processes:
                    self._replica_group(action.communicator, stages[number].processes)
        for number, stage in sorted(stages.items()):
            if stage.processes:
                stage.open(self._groups_of(number, stage))

    def add_shards(self, tensor: Any, communicator: int, processes: Sequence[int]) -> None:
        """The sum over the processes that have shards of the same stages, in place."""
        dist.all_reduce(tensor, group=self._replica_group(communicator, tuple(processes)))

    @staticmethod
    def _warm_up_by(end: Any) -> None:
        """In a batch, as `exchange` has them: on NCCL a single send would open another communicator."""
        for work in dist.batch_isend_irecv([end]):
            work.wait()

    def exchange(self, messages: Sequence[Message]) -> None:
        """All of an instruction's messages; those of other channels progress independently.

        gloo: returns when they are over. nccl: the current stream waits for them.
        """
        works = self._start_batches(messages) if self._backend == "nccl" else self._start_each(messages)
        for work in works:
            work.wait()

    def add(self, tensor: Any, communicator: int) -> None:
        """The sum over the members, in place."""
        dist.all_reduce(tensor, group=self._groups[communicator], async_op=True).wait()

    def broadcast(self, tensor: Any, communicator: int) -> None:
        """The value of the lowest member."""
        first = self._processes[self._plan.members[communicator][0]]
        dist.broadcast(tensor, first, group=self._groups[communicator])

    def close(self) -> None:
        for group in [*self._groups, *self._replicas.values()]:
            if group is not None and group != dist.GroupMember.NON_GROUP_MEMBER:
                dist.destroy_process_group(group)
        self._groups, self._replicas = [], {}

    def _new_group(self, number: int) -> Any:
        members = self._plan.members[number]
        if len(members) < 2:
            return None
        name = f"ppsim {self._plan.program.communicators[number]}"
        return self._open([self._processes[member] for member in members], name)

    def _open(self, processes: Sequence[int], name: str) -> Any:
        """All of torchrun's processes take part, unless this pipeline has only some of them."""
        own = len(self._processes) < dist.get_world_size()
        if own and self._processes[self._plan.rank] not in processes:
            return None
        with _of_members_alone(f"{self._number} {name}") if own else contextlib.nullcontext() as device:
            return dist.new_group(
                list(processes), timeout=NO_TIMEOUT, backend=self._backend, group_desc=name,
                use_local_synchronization=own, device_id=device,
            )

    def _replica_group(self, communicator: int, processes: tuple[int, ...]) -> Any:
        key = communicator, processes
        if key not in self._replicas:
            name = f"ppsim {self._plan.program.communicators[communicator]} replicas"
            self._replicas[key] = self._open(processes, name)
            self._meet(self._replicas[key])
        return self._replicas[key]

    def _groups_of(self, number: int, stage: Whole) -> Callable[[str], Any]:
        def group_of(kind: str) -> Any:
            of_kind = (a for a in self._plan.collectives() if a.kind == kind and number in self._plan.stages_of(a))
            found = next(of_kind, None)  # without backwards nothing is reduced
            return None if found is None else self._replica_group(found.communicator, stage.processes)

        return group_of

    def _start_each(self, messages: Iterable[Message]) -> list[Any]:
        """Tags number the messages of a channel, so that it is a FIFO whatever the library reorders."""
        works = []
        for message in messages:
            start = dist.isend if message.action.sends else dist.irecv
            for tensor in _with_data(message.tensors):
                peer, tag = self._processes[message.action.peer_rank], self._next_tag(message.action)
                works.append(start(tensor, peer, group=self._group(message), tag=tag))
        return works

    def _start_batches(self, messages: Sequence[Message]) -> list[Any]:
        works: list[Any] = []
        for communicator in dict.fromkeys(message.action.communicator for message in messages):
            batch = []
            for message in messages:
                if message.action.communicator != communicator:
                    continue
                call: Callable[..., Any] = dist.isend if message.action.sends else dist.irecv
                for tensor in _with_data(message.tensors):
                    peer = self._processes[message.action.peer_rank]
                    batch.append(dist.P2POp(call, tensor, peer, group=self._group(message)))
            if batch:
                works += dist.batch_isend_irecv(batch)
        return works

    def _group(self, message: Message) -> Any:
        return self._groups[message.action.communicator]

    def _next_tag(self, action: Action) -> int:
        mine, other = self._plan.rank, action.peer_rank
        channel = (action.communicator, mine, other) if action.sends else (action.communicator, other, mine)
        number = self._sent[channel] = self._sent.get(channel, 0) + 1
        return number % _MOST_TAGS


@contextlib.contextmanager
def _of_members_alone(name: str) -> Iterator[Any]:
    """Where the default group is bound to a device, PyTorch splits new groups off it, and then all of its processes
    have to take part, or the members wait for ever. Here it is bound to none; gives the device.

    name: that no other group has. Before 2.14 PyTorch gives a group the name of an earlier one of the same processes that
    is destroyed, and the members look for each other where that one was
    """
    library: Any = dist.distributed_c10d
    default, hashed = library._get_default_group(), library._hash_ranks_to_str
    device = default.bound_device_id
    default.bound_device_id = None
    library._hash_ranks_to_str = lambda ranks: hashed([*ranks, name])
    try:
        yield device
    finally:
        default.bound_device_id = device
        library._hash_ranks_to_str = hashed


def _with_data(tensors: Iterable[Any]) -> list[Any]:
    return [tensor for tensor in tensors if tensor is not None and tensor.numel()]
