"""Messages and sums between ranks: one process group for each communicator of the Program."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ppsim.torch.plan import Action, Plan

#: A day: a step has a deadline of its own, which says more than a time-out of the library.
NO_TIMEOUT = datetime.timedelta(days=1)
_MOST_TAGS = 1 << 24


@dataclass(frozen=True)
class Message:
    """One end of a transfer: what is sent, or where it is received."""

    action: Action
    tensors: tuple[Any, ...]


class Transfers:
    """Makes the groups in the order of the communicators, which is the same on every rank."""

    def __init__(self, plan: Plan, backend: str, device: Any) -> None:
        self._plan, self._backend, self._device = plan, backend, device
        self._groups = [self._new_group(number) for number in range(len(plan.members))]
        self._sent: dict[tuple[int, int, int], int] = {}

    def warm_up(self) -> None:
        """One byte through every channel, one after another: what connects lazily connects now."""
        for communicator, source, destination in self._plan.channels():
            byte = torch.zeros(1, dtype=torch.uint8, device=self._device)
            group = self._groups[communicator]
            if self._plan.rank == source:
                self._warm_up_by(dist.P2POp(dist.isend, byte, destination, group=group))
            elif self._plan.rank == destination:
                self._warm_up_by(dist.P2POp(dist.irecv, byte, source, group=group))

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
        """What the lowest member has."""
        dist.broadcast(tensor, self._plan.members[communicator][0], group=self._groups[communicator])

    def close(self) -> None:
        for group in self._groups:
            if group is not None and group != dist.GroupMember.NON_GROUP_MEMBER:
                dist.destroy_process_group(group)
        self._groups = []

    def _new_group(self, number: int) -> Any:
        members = self._plan.members[number]
        if len(members) < 2:
            return None
        name = f"ppsim {self._plan.program.communicators[number]}"
        return dist.new_group(members, timeout=NO_TIMEOUT, backend=self._backend, group_desc=name)

    def _start_each(self, messages: Iterable[Message]) -> list[Any]:
        """Tags number the messages of a channel, so that it is a FIFO whatever the library reorders."""
        works = []
        for message in messages:
            start = dist.isend if message.action.sends else dist.irecv
            for tensor in _with_data(message.tensors):
                tag = self._next_tag(message.action)
                works.append(start(tensor, message.action.peer_rank, group=self._group(message), tag=tag))
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
                    batch.append(dist.P2POp(call, tensor, message.action.peer_rank, group=self._group(message)))
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


def _with_data(tensors: Iterable[Any]) -> list[Any]:
    return [tensor for tensor in tensors if tensor is not None and tensor.numel()]
