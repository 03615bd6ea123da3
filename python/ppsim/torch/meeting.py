"""How the processes of a run find each other and agree, before anything is opened."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ppsim.errors import Error
from ppsim.execution import Plan
from ppsim.torch.transfers import NO_TIMEOUT

#: Runtimes of this process so far: each has names of its own in the store.
_count = 0


def default_backend(stages: Mapping[int, Any]) -> str:
    """Of the default process group, else what the modules' device has: a group may have one for each device."""
    name = str(dist.get_backend()) if dist.is_initialized() else ""
    if name in ("gloo", "nccl"):
        return name
    modules = [module for module in stages.values() if isinstance(module, torch.nn.Module)]  # others are refused later
    on_gpu = any(parameter.is_cuda for module in modules for parameter in module.parameters())
    return "nccl" if on_gpu else "gloo"


def own_rank() -> int | None:
    """None outside of torchrun and of a process group."""
    if dist.is_initialized():
        return int(dist.get_rank())
    return int(os.environ["RANK"]) if "RANK" in os.environ else None


@dataclass(frozen=True)
class Pipeline:
    """The processes that run a Program: processes[i] is its rank i; replicas: by stage, those that have it."""

    processes: tuple[int, ...]
    rank: int
    replicas: Mapping[int, tuple[int, ...]]

    def peers(self) -> list[int]:
        """Processes of other pipelines that share stages with this one."""
        return sorted({process for members in self.replicas.values() for process in members} - {*self.processes})


def pipeline_of(ranks: int, chosen: Iterable[int] | None, replicas: Mapping[int, tuple[int, ...]]) -> Pipeline:
    """chosen: the processes, where they are not all. Raises Error where there are more than ranks, or fewer, or where
    a stage is replicated within the pipeline."""
    mine = own_rank()
    if mine is None:
        raise Error("no process group and no RANK in the environment", expected="torchrun --nproc-per-node N")
    size = int(dist.get_world_size() if dist.is_initialized() else os.environ.get("WORLD_SIZE", "1"))
    processes = tuple(int(process) for process in (range(size) if chosen is None else chosen))
    if len(processes) != ranks:
        raise Error("another number of processes than the program has ranks", found=f"{len(processes)} processes",
                    expected=f"{ranks} ranks, or processes= with those of this pipeline")
    if sorted(set(processes) & set(range(size))) != sorted(processes):
        raise Error("processes= names one twice, or one that does not exist", found=str(list(processes)),
                    expected=f"{ranks} different ones below {size}")
    if mine not in processes:
        raise Error(f"process {mine} is not in its pipeline", found=f"processes={list(processes)}",
                    expected=f"a list with {mine} in it")
    for stage, members in replicas.items():
        inside = [process for process in members if process in processes and process != mine]
        if mine not in members or inside:
            raise Error(f"the wrapper of stage {stage} is over processes of its own pipeline", found=str(list(members)),
                        expected=f"process {mine} and those of other pipelines that have this stage")
    return Pipeline(processes, processes.index(mine), replicas)


def prepare(backend: str) -> None:
    """Sets what NCCL and CUDA read once, when the device is first used, where it is not set: a program calls this
    before it uses one. Raises Error where it is too late, or where another value can hang."""
    if backend != "nccl":
        return
    for name, value in (("NCCL_LAUNCH_ORDER_IMPLICIT", "1"), ("CUDA_DEVICE_MAX_CONNECTIONS", "32")):
        if name not in os.environ and torch.cuda.is_initialized():
            raise Error(f"{name} is not set, and the device is in use already",
                        expected=f"{name}={value} before Python starts")
        os.environ.setdefault(name, value)
    for name in ("CUDA_LAUNCH_BLOCKING", "TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT"):
        if os.environ.get(name, "0") != "0":
            raise Error("the thread that issues a rank's work would wait for it, which no proof has considered",
                        found=f"{name}={os.environ[name]}", expected=f"{name} not set")
    if torch.cuda.is_available() and torch.cuda.nccl.version() < (2, 26):
        raise Error("this NCCL does not keep the order of launches", expected="NCCL 2.26 or later",
                    found=".".join(map(str, torch.cuda.nccl.version())))
    if os.environ["NCCL_LAUNCH_ORDER_IMPLICIT"] != "1":
        raise Error("several communicators on a device can hang without the order of launches",
                    found=f"NCCL_LAUNCH_ORDER_IMPLICIT={os.environ['NCCL_LAUNCH_ORDER_IMPLICIT']}",
                    expected="NCCL_LAUNCH_ORDER_IMPLICIT=1")


#: The report of a rank before the first step.
Hello = dict[str, Any]


def meet(store: Any, rank: int, members: Sequence[int], mine: Hello, seconds: float) -> dict[int, Hello]:
    """Compares what all members say of themselves, and returns it. Raises Error naming who did not come, or what
    differs where."""
    store.set(f"hello/{rank}", json.dumps(mine))
    hellos = _hellos(store, members, seconds)
    missing = [str(other) for other in members if other not in hellos]
    if missing:
        raise Error(f"rank {', '.join(missing)} did not come within {seconds:g} s", code="failed")
    for other, hello in sorted(hellos.items()):
        if hello.get("refused"):
            raise Error(f"rank {other} refuses: {hello['refused']}", code="refused")
    first = min(hellos)
    for key, value in hellos[first].items():
        for other, hello in sorted(hellos.items()):
            if key not in ("pipeline", "rank", "replicas") and hello.get(key) != value:
                raise Error(f"rank {other} has another {key} than rank {first}", code="refused",
                            found=str(hello.get(key)), expected=str(value))
    _check_pipelines(hellos)
    _check_replicas(rank, hellos)
    return hellos


def _check_pipelines(hellos: Mapping[int, Hello]) -> None:
    """Each process has a rank in one pipeline."""
    for rank, hello in sorted(hellos.items()):
        for other in hello["pipeline"]:
            if other in hellos and hellos[other]["pipeline"] != hello["pipeline"]:
                raise Error(f"rank {other} has another pipeline than rank {rank}", code="refused",
                            found=str(hellos[other]["pipeline"]), expected=str(hello["pipeline"]))


def _check_replicas(rank: int, hellos: Mapping[int, Hello]) -> None:
    """Those that a stage is shared with have the same place in their pipelines, and the same wrappers."""
    mine = hellos[rank]
    for other in sorted({process for members in mine["replicas"].values() for process in members}):
        theirs = hellos[other]
        if theirs["rank"] != mine["rank"]:
            raise Error(f"rank {rank} shares stages with rank {other}, which has others", code="refused",
                        found=f"rank {theirs['rank']} of pipeline {theirs['pipeline']}",
                        expected=f"rank {mine['rank']} of another pipeline than {mine['pipeline']}")
        if theirs["replicas"] != mine["replicas"]:
            raise Error(f"rank {other} has other wrappers than rank {rank}", code="refused",
                        found=str(theirs["replicas"] or "plain modules"), expected=str(mine["replicas"]))


def compare_shared(store: Any, plan: Plan, shapes: Mapping[int, list[list[int]]], seconds: float) -> None:
    """shapes: by block, of the parameters that this rank trains of it. Raises Error naming the first owner of a block
    that trains others: each would wait for sums that the other never begins."""
    for block, mine in shapes.items():
        store.set(f"trained/{block}/{plan.rank}", json.dumps(mine))
    until = time.monotonic() + seconds
    for block, mine in shapes.items():
        for other in plan.owners(block):
            key = f"trained/{block}/{other}"
            while not store.check([key]):
                if time.monotonic() > until:
                    raise Error(f"rank {other} did not come within {seconds:g} s", code="failed")
                time.sleep(0.02)
            theirs = json.loads(store.get(key))
            if theirs != mine:
                raise Error(f"rank {other} trains other parameters of block {block} than rank {plan.rank}, which owns it too",
                            code="refused", found=_shapes_text(theirs), expected=_shapes_text(mine))


def _shapes_text(shapes: list[list[int]]) -> str:
    return f"shapes {', '.join(map(str, shapes))}" if shapes else "none: all are frozen"


def _hellos(store: Any, members: Sequence[int], seconds: float) -> dict[int, Hello]:
    hellos: dict[int, Hello] = {}
    until = time.monotonic() + seconds
    while len(hellos) < len(members) and time.monotonic() < until:
        for rank in members:
            if rank not in hellos and store.check([f"hello/{rank}"]):
                hellos[rank] = json.loads(store.get(f"hello/{rank}"))
        if any(hello.get("refused") for hello in hellos.values()):
            until = min(until, time.monotonic() + 1.0)
        time.sleep(0.02)
    return hellos


def meet_others(
    checked: Callable[[], tuple[Plan, Pipeline]], says: Hello, seconds: float
) -> tuple[Plan, Pipeline, Stores]:
    """Checks here, and tells the others what was refused: so it is refused everywhere at once."""
    global _count
    _count += 1
    rank = own_rank()
    try:
        plan, pipeline = checked()
    except Exception as refused:
        if rank is not None:
            _tell_refusal(rank, _told(refused))
        raise
    shared = dist.PrefixStore(f"ppsim/{_count}", _store())
    mine = pipeline.processes[pipeline.rank]
    says = says | {"pipeline": pipeline.processes, "rank": pipeline.rank,
                   "replicas": {str(stage): members for stage, members in pipeline.replicas.items()}}
    hellos = meet(shared, mine, [*pipeline.processes, *pipeline.peers()], says, seconds)
    others = {min(hello["pipeline"]) for hello in hellos.values()} - {min(pipeline.processes)}
    return plan, pipeline, Stores(shared, min(pipeline.processes), tuple(sorted(others)))


@dataclass(frozen=True)
class Stores:
    """Where processes leave word for each other. first: the lowest process of this pipeline; others: of replicas."""

    shared: Any
    first: int
    others: tuple[int, ...] = ()

    def own(self) -> Any:
        """Returns the store of this pipeline, over its own connection: one serves one call at a time, and some wait long."""
        return dist.PrefixStore(str(self.first), self.shared.clone())

    def of_replicas(self) -> dict[int, Any]:
        return {first: dist.PrefixStore(str(first), self.shared.clone()) for first in self.others}


def open_default_group(backend: str, stores: Stores, plan: Plan, device: Any) -> None:
    """torch.distributed has one group that all are in; the program's groups are parts of it. It is of use to others,
    and lasts until Python ends."""
    if dist.is_initialized():
        return
    options = {"device_id": device} if device.type == "cuda" else {}
    size = int(os.environ.get("WORLD_SIZE", str(plan.program.ranks)))
    dist.init_process_group(
        backend, store=dist.PrefixStore("group", stores.shared), rank=own_rank(), world_size=size,
        timeout=NO_TIMEOUT, **options,
    )
    atexit.register(_close_default_group)


def _close_default_group() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


_found: Any = None


def _store() -> Any:
    """Returns the store of the default group, or torchrun's."""
    global _found
    if dist.is_initialized():
        return dist.distributed_c10d._get_default_store()
    if _found is None:
        _found, _, _ = next(dist.rendezvous("env://", timeout=NO_TIMEOUT))
    return _found


def _told(refused: Exception) -> str:
    if not isinstance(refused, Error):
        return f"{type(refused).__name__}: {refused}"
    return f"{refused.message} ({refused.found})" if refused.found else refused.message


def _tell_refusal(rank: int, why: str) -> None:
    with contextlib.suppress(Exception):  # the others miss this rank then, and say so
        dist.PrefixStore(f"ppsim/{_count}", _store()).set(f"hello/{rank}", json.dumps({"refused": why}))
