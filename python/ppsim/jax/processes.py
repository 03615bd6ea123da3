"""Ranks in processes of their own: jax.distributed between them, and a CPU device for each communicator."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.errors import Error
from ppsim.execution import Plan
from ppsim.jax.layout import Layout

_VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
_AXIS = "ranks"


@checked
def prepare(program: _core.Program) -> int:
    """Makes this process one rank of a Program, and returns which. Call it before JAX is used.

    Reads JAX_COORDINATOR_ADDRESS (host:port of process 0), JAX_NUM_PROCESSES and JAX_PROCESS_ID. Each process gets
    a CPU device to compute on, and one for each communicator: what gloo does on one waits for nothing on another.
    Raises Error for missing variables and another number of processes than ranks.
    """
    missing = [name for name in _VARIABLES if not os.environ.get(name)]
    if missing:
        raise Error("a process of a program needs to know the others", found=f"no {', '.join(missing)}",
                    expected="JAX_COORDINATOR_ADDRESS=host:port JAX_NUM_PROCESSES=4 JAX_PROCESS_ID=0")
    address, count, number = (os.environ[name] for name in _VARIABLES)
    if not (count.isdigit() and number.isdigit()) or int(count) != program.ranks or int(number) >= program.ranks:
        raise Error("another number of processes than ranks", found=f"process {number} of {count}",
                    expected=f"processes 0 to {program.ranks - 1} of {program.ranks}")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", _device_count(program))
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # SIGTERM ends the process
    jax.distributed.initialize(address, int(count), int(number))
    return int(number)


def _device_count(program: _core.Program) -> int:
    return 1 + len(program.communicators)


class Processes:
    """This process among those of a run. devices: of its rank, None of the others.

    Raises Error, on every process, where these differ or cannot run the Program.
    """

    def __init__(self, plans: list[Plan], unverified: bool) -> None:
        self.rank, self._plans = jax.process_index(), plans
        _check(plans, unverified)
        by_rank: list[list[Any]] = [[] for _ in plans]
        for device in jax.devices():
            by_rank[device.process_index].append(device)
        self._by_rank = by_rank
        self.devices = [by_rank[rank][0] if rank == self.rank else None for rank in range(len(plans))]
        self._calls: dict[Any, Any] = {}

    def meet(self, layout: Layout) -> None:
        """All have the same Program and function, and every channel is connected, in one order."""
        if layout.loose:
            raise Error(f"stages {layout.stages[layout.loose[0]]} read parameter {layout.split.names[layout.loose[0]]}, and no "
                        "block of the program says so", code="refused",
                        expected="ppsim.jax.tied(schedule, loss_function, params, batch), lowered with reduce-grad")
        split = layout.split
        shapes = [str(shape) for part in split.parts for shape in part.outputs]
        mine = f"{layout.plan.program.hash} {split.parameters} {split.batch} {shapes}"
        told = {rank: text for rank, text in enumerate(self._tell(mine.encode()))}
        others = [rank for rank, text in told.items() if text != mine.encode()]
        if others:
            raise Error("processes run other programs or functions", found=f"rank {others[0]}: {told[others[0]].decode()}",
                        expected=f"rank {self.rank}: {mine}")
        byte = np.zeros(1, np.uint8)
        for communicator, source, target in layout.plan.channels():
            if self.rank in (source, target):
                self._permute(communicator, source, target, byte)

    def send(self, communicator: int, source: int, target: int, values: Sequence[Any]) -> None:
        """Returns when it has arrived."""
        if values:
            parts = [np.ascontiguousarray(np.asarray(value)).reshape(-1).view(np.uint8) for value in values]
            self._permute(communicator, source, target, np.concatenate(parts))

    def receive(self, communicator: int, source: int, target: int, shapes: Sequence[Any]) -> list[Any]:
        sizes = [int(np.prod(shape.shape)) * shape.dtype.itemsize for shape in shapes]
        if not shapes:
            return []
        flat = self._permute(communicator, source, target, np.zeros(sum(sizes), np.uint8))
        pieces = np.split(flat, np.cumsum(sizes)[:-1])
        return [jax.device_put(piece.copy().view(shape.dtype).reshape(shape.shape), self.devices[self.rank])
                for piece, shape in zip(pieces, shapes, strict=True)]

    def add(self, communicator: int, values: Sequence[Any]) -> list[Any]:
        """The sums over the members of a communicator."""
        members = self._plans[0].members[communicator]
        key = communicator, tuple((value.shape, value.dtype.name) for value in values)
        mesh = self._mesh(communicator, members)
        if key not in self._calls:
            def total(*mine: Any) -> list[Any]:
                return [jax.lax.psum(value, _AXIS) for value in mine]

            self._calls[key] = self._mapped(total, mesh)
        found = self._calls[key](*(self._shared(np.asarray(value), mesh, communicator) for value in values))
        return [jax.device_put(_local(value), self.devices[self.rank]) for value in found]

    def gather(self, steps: Iterable[list[tuple[int, int]]]) -> list[list[tuple[int, int]]]:
        """Spans of the ranks' instructions, rank after rank, for each kept step. All processes call it."""
        mine = np.asarray(list(steps), np.int64)
        told = self._tell(mine.tobytes())
        shapes = [(len(mine), len(plan.instructions), 2) for plan in self._plans]
        ranks = [np.frombuffer(text, np.int64).reshape(shape) for text, shape in zip(told, shapes, strict=True)]
        return [[(int(a), int(b)) for of_rank in ranks for a, b in of_rank[step]] for step in range(len(mine))]

    def leave(self) -> NoReturn:
        """Says what has gone wrong and ends the process, whatever its threads wait for: the others notice that."""
        print(f"ppsim: rank {self.rank}: the run has failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        os._exit(1)

    def _tell(self, text: bytes) -> list[bytes]:
        """The value of each process, on all of them."""
        sizes = np.asarray(multihost_utils.process_allgather(np.asarray([len(text)], np.int32))).reshape(-1)
        padded = np.frombuffer(text.ljust(int(sizes.max())), np.uint8)
        every = np.asarray(multihost_utils.process_allgather(padded)).reshape(len(sizes), -1)
        return [row.tobytes()[:size] for row, size in zip(every, sizes, strict=True)]

    def _permute(self, communicator: int, source: int, target: int, flat: Any) -> Any:
        pair = sorted((source, target))
        key = communicator, source, target, flat.size
        mesh = self._mesh(communicator, pair)
        if key not in self._calls:
            way = [(pair.index(source), pair.index(target))]
            self._calls[key] = self._mapped(lambda mine: jax.lax.ppermute(mine, _AXIS, way), mesh)
        return np.asarray(_local(self._calls[key](self._shared(flat, mesh, communicator))))

    def _mesh(self, communicator: int, members: Sequence[int]) -> Any:
        return Mesh(np.array([self._by_rank[rank][1 + communicator] for rank in members]), (_AXIS,))

    def _mapped(self, function: Any, mesh: Any) -> Any:
        along = PartitionSpec(_AXIS)
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=along, out_specs=along))

    def _shared(self, value: Any, mesh: Any, communicator: int) -> Any:
        """This process's share of an array with a row for each member."""
        sharding = NamedSharding(mesh, PartitionSpec(_AXIS))
        local = jax.device_put(value[None], self._by_rank[self.rank][1 + communicator])
        return jax.make_array_from_single_device_arrays((mesh.size, *value.shape), sharding, [local])


def _local(value: Any) -> Any:
    return jax.block_until_ready(value).addressable_shards[0].data[0]


def _check(plans: list[Plan], unverified: bool) -> None:
    program, found = plans[0].program, len(jax.local_devices())
    if jax.process_count() != program.ranks:
        raise Error("another number of processes than ranks", found=str(jax.process_count()), expected=str(program.ranks))
    if found < _device_count(program):
        raise Error("every communicator needs a device in each process", found=f"{found} devices",
                    expected=f"{_device_count(program)}: call ppsim.jax.prepare(program) before JAX is used")
    if unverified:
        raise Error("a program without proof could hang in other processes, where nobody says why", code="refused",
                    expected="a certificate, or one process for all ranks")
    for plan in plans:
        for instruction in plan.instructions:
            kinds = {action.kind for action in instruction.actions}
            if kinds & {"SEND_A", "RECV_A"} or (instruction.communicates and len(instruction.actions) > 1):
                raise Error(f"processes cannot run {instruction.text}: it lends activations, or is a group", code="refused",
                            expected="a program without these, or one process for all ranks")
