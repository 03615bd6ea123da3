"""Times and sizes of the user's stages, as Costs."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from ppsim.arguments import checked
from ppsim.costs import Costs
from ppsim.errors import Error
from ppsim.torch.devices import HostMemory, device_of, on, unchanged
from ppsim.torch.meeting import default_backend, prepare
from ppsim.torch.rehearsal import Cast, rehearse
from ppsim.torch.stage import Loss, Stage, Tensors, shapes_behind, shapes_of, tensors_of
from ppsim.torch.weights import MakeOptimizer

_OUTLIERS = 0.1
#: Rows of the tables in JSON.
Row = dict[str, Any]


@dataclass
class _Samples:
    """Nanoseconds by kind, and bytes by tensor, of one stage."""

    stage: int
    times: dict[str, list[int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)


@checked
def profile(
    stages: Mapping[int, Any],
    inputs: Any,
    *,
    loss: Loss | None = None,
    targets: Any = None,
    optimizer: MakeOptimizer | None = None,
    repeats: int = 20,
    warmup: int = 3,
) -> Costs:
    """Measures F, B, I, W, R, UNSHARD, RESHARD, OFFLOAD, RELOAD, REDUCE_GRAD, OPT and transfers of a chain of stages, and
    the memory that each needs.

    stages: modules by number; with torch.distributed initialized those of this process, and all processes
    together have the whole chain: they measure at the same time, as they would run, and get the same Costs. With a
    loss they then run some steps of a pipeline, and all but R, OFFLOAD and RELOAD is what it took there, with what
    threads and transfers take from computation, and scaled so that the step simulated from it is the one that was
    measured. Several pipelines whose stages are in fully_shard or DistributedDataParallel do so at once
    inputs: one microbatch for stage 0; other processes may give None
    loss, targets: of the last stage; optimizer: parameters -> what updates them
    repeats, warmup: of each measurement; outliers (a tenth on both sides) are left out of the means
    """
    if repeats < 1 or warmup < 0:
        raise Error("so many measurements cannot be made", found=f"repeats={repeats}, warmup={warmup}",
                    expected="repeats of 1 or more, warmup of 0 or more")
    if not (dist.is_initialized() and dist.get_world_size() > 1):
        return _profiled(stages, inputs, targets, _Wanted(loss, optimizer, repeats, warmup))
    prepare(default_backend(stages))
    device = device_of(stages.values(), default_backend(stages))
    with on(device):
        return _profiled(stages, inputs, targets, _Wanted(loss, optimizer, repeats, warmup), device)


@dataclass(frozen=True)
class _Wanted:
    """Arguments of `profile` other than the stages and their data."""

    loss: Loss | None
    optimizer: MakeOptimizer | None
    repeats: int
    warmup: int


def _profiled(stages: Mapping[int, Any], inputs: Any, targets: Any, wanted: _Wanted, device: Any = None) -> Costs:
    """device: of this process, where there are several processes."""
    together = device is not None
    owners = _gathered({number: _rank() for number in stages}) if together else dict.fromkeys(stages, 0)
    if not owners or sorted(owners) != list(range(len(owners))):
        raise Error("stages are missing", found=str(sorted(owners)), expected="0, 1, 2, ... on some process each")
    if wanted.loss and targets is None and len(owners) - 1 in stages:
        raise Error("there is a loss, and nothing to compare the output with", found="targets=None",
                    expected="the targets of one microbatch")
    shapes = _Shapes(owners, stages, inputs, together)
    samples, measured = [], list[Stage]()
    for number, module in sorted(stages.items()):
        is_last = number == len(owners) - 1
        stage = Stage(number, module, is_first=number == 0, loss=wanted.loss if is_last else None, trains=True,
                      splits=True, recomputed=frozenset([-2]), moved=frozenset([-1]), device=device)
        arguments = tensors_of(inputs, "inputs") if number == 0 else shapes.example(number, stage.device)
        samples.append(_measure(stage, _moved(arguments, stage.device),
                                _moved(targets, stage.device) if is_last else None, wanted))
        measured.append(stage)
    rows, sizes = _tables(samples)
    if together:
        rows += _Transfers(owners, shapes, device, wanted).rows()
        rows, sizes = _newest(_merged(rows), []), _newest(_merged(sizes), [])  # of replicas one
        cast = _cast(owners, measured)
        if cast is not None:
            updates = all(_gathered({_rank(): wanted.optimizer is not None}).values())
            with contextlib.ExitStack() as as_before:
                for stage in measured:
                    as_before.enter_context(unchanged(stage))
                rehearsed = rehearse(
                    stages, cast, inputs, targets, loss=wanted.loss, optimizer=wanted.optimizer if updates else None,
                    costs=_costs(rows, sizes), repeats=wanted.repeats,
                )
            rows = _newest(rows, _gathered({_rank(): rehearsed})[0])  # pipelines measure each for themselves
    return _costs(rows + _overlapped(rows), sizes)


def _moved(value: Any, device: Any) -> Any:
    """Tensors where the stage is."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    return tuple(tensor.to(device) for tensor in value) if isinstance(value, tuple | list) else value


def _costs(rows: list[Row], sizes: list[Row]) -> Costs:
    return Costs.table({"format": "ppsim-tables", "version": 1, "costs": rows, "sizes": sizes})


def _cast(owners: Mapping[int, int], stages: Iterable[Stage]) -> Cast | None:
    """Of this process's pipeline: with its stages, those of the same place among the replicas. None where no rehearsal is
    possible: backwards begin at a loss, and every process has a stage."""
    mine = {stage.number: sorted(stage.replicas.processes) or [_rank()] for stage in stages}
    begins = all(stage.loss or stage.number < len(owners) - 1 for stage in stages)
    every = _gathered({_rank(): (mine, begins, any(stage.replicas.is_sharded for stage in stages))})
    if not all(homes and can_begin for homes, can_begin, _ in every.values()):
        return None
    places = {process: {home.index(process) for home in homes.values()} for process, (homes, _, _) in every.items()}
    members = [process for process in every if places[process] == places[_rank()]]
    processes = tuple(sorted(members, key=lambda process: min(every[process][0])))
    placed = {number: rank for rank, process in enumerate(processes) for number in every[process][0]}
    if sorted(placed) != sorted(owners) or sum(len(every[process][0]) for process in processes) != len(owners):
        return None
    return Cast(processes, placed, any(sharded for _, _, sharded in every.values()))


def _newest(rows: Iterable[Row], newer: Iterable[Row]) -> list[Row]:
    """The later row of each key."""
    keys = ("kind", "tensor", "stage", "block", "peer")
    found = {tuple(row.get(key) for key in keys): row for row in [*rows, *newer]}
    return list(found.values())


def _overlapped(rows: Iterable[Row]) -> list[Row]:
    """A pair takes as long as its halves one after the other."""
    ns = {(row["kind"], row["stage"]): row["ns"] for row in rows if "stage" in row}
    stages = sorted(stage for kind, stage in ns if kind == "F")
    return [{"kind": "OVERLAP_F_B", "stage": stage, "ns": ns["F", stage] + ns["B", stage]} for stage in stages]


def _rank() -> int:
    return int(dist.get_rank())


def _gathered(mine: dict[int, Any]) -> dict[int, Any]:
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return {key: value for one in every for key, value in one.items()}


def _merged(rows: list[Row]) -> list[Row]:
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, rows)
    return [row for one in every for row in one]


class _Shapes:
    """Of the outputs of every stage, found without data, stage after stage."""

    def __init__(self, owners: dict[int, int], stages: Mapping[int, Any], inputs: Any, together: bool) -> None:
        self.outputs: dict[int, tuple[Any, ...]] = {}
        for number in range(len(owners)):
            mine: dict[int, Any] = {}
            if number in stages:
                stage = Stage(number, stages[number], is_first=number == 0, loss=None, trains=True)
                given = shapes_of(tensors_of(inputs, "inputs")) if number == 0 else self.outputs[number - 1]
                mine = {number: shapes_behind(stage, given)[0]}
            self.outputs.update(_gathered(mine) if together else mine)

    def example(self, number: int, device: Any) -> Tensors:
        """Inputs of a stage with values as activations have them."""
        result = []
        for shape in self.outputs[number - 1]:
            tensor = shape.empty(device)
            result.append(tensor.normal_() if shape.has_gradient else tensor.zero_())
        return tuple(result)


def _measure(stage: Stage, inputs: Tensors, target: Any, wanted: _Wanted) -> _Samples:
    samples = _Samples(stage.number)
    clock, host_memory = _Clock(stage.device), HostMemory()
    optimizer = wanted.optimizer(stage.parameters(0)) if wanted.optimizer and stage.parameters(0) else None
    with unchanged(stage), _opened(stage):
        for number in range(-wanted.warmup, wanted.repeats):
            found = _pass(stage, inputs, target, clock, host_memory)
            if wanted.optimizer:
                found["OPT"] = clock.time(optimizer.step if optimizer else lambda: None)  # of a stage that trains nothing
            if number >= 0:
                for kind, ns in found.items():
                    samples.times.setdefault(kind, []).append(ns)
        stage.replicas.gather()
        samples.sizes = _sizes(stage, inputs, target, optimizer)
        stage.replicas.release()
    return samples


@contextlib.contextmanager
def _opened(stage: Stage) -> Iterator[None]:
    """A wrapper communicates when it is told to, as under a Program."""
    stage.replicas.open(lambda _: stage.replicas.own_group)
    try:
        yield
    finally:
        stage.replicas.close()


def _pass(stage: Stage, inputs: Tensors, target: Any, clock: _Clock, host_memory: HostMemory) -> dict[str, int]:
    """One of each action but OPT, as a runtime does them. Microbatch 0: B; 1: I and W; -2: R; -1: copies."""
    times: dict[str, int] = {}
    times["UNSHARD"] = clock.time(stage.replicas.gather)
    times["F"] = clock.time(lambda: stage.forward(0, inputs, target, 0))
    gradients = tuple(torch.ones_like(t) if t.is_floating_point() else None for t in stage.cells[0].outputs)
    times["B"] = clock.time(lambda: stage.backward(0, gradients))
    stage.forward(1, inputs, target, 0)
    times["I"] = clock.time(lambda: stage.backward_input(1, gradients))
    times["W"] = clock.time(lambda: stage.backward_weight(1))
    stage.forward(-2, inputs, target, 0)
    times["R"] = clock.time(lambda: stage.recompute(-2))
    stage.backward(-2, gradients)
    if not stage.replicas.is_sharded:  # whose activations are not moved
        shelf = stage.forward(-1, inputs, target, 0).shelf
        assert shelf is not None
        host = host_memory.take(shelf.bytes, shelf.on_gpu)
        times["OFFLOAD"] = clock.time(lambda: shelf.to_host(host))
        times["RELOAD"] = clock.time(lambda: shelf.from_host(host))
        host_memory.give(host, shelf.on_gpu)
        stage.backward(-1, gradients)
    times["REDUCE_GRAD"] = clock.time(lambda: _reduce(stage))
    times["RESHARD"] = clock.time(stage.replicas.release)
    return times


def _reduce(stage: Stage) -> None:
    """A block that no other rank of the pipeline has is added up over its replicas alone; then gradients are divided."""
    sharded = stage.replicas.is_sharded
    stage.replicas.reduce([] if sharded else [w.grad for w in stage.parameters(0) if w.grad is not None])
    for weight in stage.parameters(0):
        if weight.grad is not None:
            weight.grad.div_(2)


class _Clock:
    """Events on a GPU, the clock on the wall elsewhere."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def time(self, work: Callable[[], Any]) -> int:
        if self._device.type != "cuda":
            begin = time.perf_counter_ns()
            work()
            return time.perf_counter_ns() - begin
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        return int(begin.elapsed_time(end) * 1e6)


def _sizes(stage: Stage, inputs: Tensors, target: Any, optimizer: Any) -> dict[str, int]:
    """Autograd frees nothing at I, so all that is saved lives to W."""
    cell = stage.forward(-1, inputs, target, 0)
    assert cell.shelf is not None
    saved, outputs = cell.shelf.bytes, _bytes(cell.outputs)
    del stage.cells[-1]
    inner = _inner_bytes(stage, inputs, target)
    weights = stage.parameters(0)
    states = [] if optimizer is None else [t for state in optimizer.state.values() for t in state.values()]
    return {
        "parameters": _bytes(stage.module.parameters()) + _bytes(stage.module.buffers()),
        "gradients": _bytes(weights),
        "optimizer_state": _bytes(t for t in states if isinstance(t, torch.Tensor)),
        "boundary_input": _bytes(inputs),
        "boundary_output": outputs,
        "incoming_gradient": outputs,
        "outgoing_gradient": 0 if stage.is_first else _bytes(inputs),
        "saved_for_input": 0,
        "saved_for_weight": saved,
        "inner_gradients": inner,
        "workspace": 0,
    }


def _inner_bytes(stage: Stage, inputs: Tensors, target: Any) -> int:
    """Tensors that I leaves for W, other than the graph."""
    cell = stage.forward(2, inputs, target, 0)
    stage.backward_input(2, tuple(torch.ones_like(t) if t.is_floating_point() else None for t in cell.outputs))
    kept = [g for group in cell.groups for grads in group.get("grads") or () for g in grads or ()]
    size = _bytes({g.untyped_storage()._cdata: g for g in kept if g is not None}.values())
    del stage.cells[2]
    return size


def _bytes(tensors: Iterable[Any]) -> int:
    return sum(int(tensor.numel()) * int(tensor.element_size()) for tensor in tensors)


def _tables(samples: Iterable[_Samples]) -> tuple[list[Row], list[Row]]:
    rows, sizes = list[Row](), list[Row]()
    for one in samples:
        for kind, times in sorted(one.times.items()):
            rows.append({"kind": kind, "block" if kind in ("OPT", "REDUCE_GRAD") else "stage": one.stage, **_spread(times)})
        for tensor, size in one.sizes.items():
            key = "block" if tensor in ("parameters", "gradients", "optimizer_state") else "stage"
            sizes.append({"tensor": tensor, key: one.stage, "bytes": size})
    return rows, sizes


def _spread(times: list[int]) -> Row:
    ordered = sorted(times)
    quarters = statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else [float(ordered[0])] * 3
    return {
        "ns": _mean(ordered),
        "samples": len(ordered),
        "lower_quartile_ns": int(quarters[0]),
        "median_ns": int(quarters[1]),
        "upper_quartile_ns": int(quarters[2]),
    }


def _mean(times: list[int]) -> int:
    ordered = sorted(times)
    left_out = int(len(ordered) * _OUTLIERS)
    return int(statistics.fmean(ordered[left_out : len(ordered) - left_out]))


class _Transfers:
    """Sends each boundary's tensors there and back between the processes that have its two sides."""

    def __init__(self, owners: dict[int, int], shapes: _Shapes, device: Any, wanted: _Wanted) -> None:
        self._owners, self._shapes, self._device, self._wanted = owners, shapes, device, wanted

    def rows(self) -> list[Row]:
        """Those of this process, which prices what it sends."""
        rows = []
        for number in range(len(self._owners) - 1):
            pair = self._owners[number], self._owners[number + 1]
            dist.barrier()
            if pair[0] == pair[1] or _rank() not in pair:
                continue
            warmup, count = self._wanted.warmup, self._wanted.warmup + self._wanted.repeats
            times = [self._there_and_back(number, pair) for _ in range(count)][warmup:]
            if _rank() == pair[0]:
                rows.append({"kind": "SEND_F", "stage": number, "peer": number + 1, **_spread(times)})
                rows.append({"kind": "SEND_B", "stage": number + 1, "peer": number, **_spread(times)})
        return rows

    def _there_and_back(self, number: int, pair: tuple[int, int]) -> int:
        """Half the time of both ways."""
        tensors = [shape.empty(self._device) for shape in self._shapes.outputs[number]]
        here, there = pair if _rank() == pair[0] else (pair[1], pair[0])
        calls = [dist.isend, dist.irecv] if here == pair[0] else [dist.irecv, dist.isend]

        def exchange() -> None:
            for call in calls:
                for work in dist.batch_isend_irecv([dist.P2POp(call, tensor, there) for tensor in tensors]):
                    work.wait()

        return _Clock(self._device).time(exchange) // 2
