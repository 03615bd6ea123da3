"""Two pipelines of two ranks each whose stages are copies or shards of each other, against one plain model."""

import json
import os
import signal
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import ppsim
import ppsim.torch
from torch_runs.models import ROWS, Block, Plain, batch, loss, modules
from torch_runs.schedules import compared, makes_updates, program_of, sgd

WRAPPERS = ("fsdp", "ddp")


def everything(cases: list[dict[str, Any]]) -> list[Any]:
    mesh = opened()
    return [trained(program_of(case), case, mesh) for case in cases] + [profiled(mesh), evaluated(mesh), refused(mesh)]


def opened() -> Any:
    """Dimensions: rank of the pipeline, replica."""
    dist.init_process_group("gloo")
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("pipeline", "replica"))


def profiled(mesh: Any) -> dict[str, Any]:
    """Costs of wrapped stages, twice, as the rehearsal of a pipeline found them; by wrapper."""
    found = {}
    rank = mesh["pipeline"].get_local_rank()
    for how in WRAPPERS:
        module = Block(rank)
        before = [parameter.detach().clone() for parameter in module.parameters()]
        stages = {rank: wrapped(module, how, mesh)}
        inputs, targets = (part[:ROWS] for part in batch(1))
        for _ in range(2):
            costs = ppsim.torch.profile(stages, inputs, loss=loss, targets=targets, optimizer=sgd, repeats=2, warmup=1)
        program = ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=4), costs=costs,
                              with_=("unshard", "reduce-grad", "opt"), recompute="full")
        table = json.loads(costs.bound(program.compute_only()))["costs"]
        found[how] = {
            "kinds": sorted({row["kind"] for row in table if row["ns"]}),
            "samples": sorted({row["samples"] for row in table if row["kind"] == "UNSHARD"}),
            "makespan_ns": ppsim.simulate(program, costs=costs).makespan_ns,
            "unchanged": all(map(torch.equal, before, map(collected_one, module.parameters()))),
        }
    return found


def collected_one(parameter: Any) -> Any:
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter.detach()


def wrapped(module: Any, how: str, mesh: Any) -> Any:
    if how == "ddp":
        return DistributedDataParallel(module, process_group=mesh["replica"].get_group())
    fully_shard(module.up, mesh=mesh["replica"])
    return fully_shard(module, mesh=mesh["replica"])


def trained(program: ppsim.Program, case: dict[str, Any], mesh: Any) -> dict[str, Any]:
    pipeline, replica = mesh["pipeline"], mesh["replica"].get_local_rank()
    stages = {number: module for number, module in modules(program).items()
              if program.placement[number] == pipeline.get_local_rank()}
    mine = {number: wrapped(module, case["wrapper"], mesh) for number, module in stages.items()}
    optimizer = sgd if makes_updates(program) else None
    losses = []
    with ppsim.torch.Runtime(
        program, mine, ppsim.check(program), loss=loss, optimizer=optimizer, clip_norm=case.get("clip"),
        processes=pipeline.mesh.tolist(),
    ) as runtime:
        for step in range(case.get("steps", 1)):
            found = runtime.step(*batch(program.microbatches, 2 * step + replica))
            losses.append({number: float(value) for number, value in found.losses.items()})
    plain = Plain(program, None)
    expected = [averaged(plain, step, replica, case, optimizer is not None) for step in range(case.get("steps", 1))]
    whole = {number: collected(module) for number, module in stages.items()}
    return compared(program, whole, plain, losses, expected)


def averaged(plain: Plain, step: int, replica: int, case: dict[str, Any], updates: bool) -> list[float]:
    """A step of the plain model on the batches of both replicas. Returns the losses of one."""
    parameters = [p for module in plain.modules.values() for p in module.parameters()]
    gradients, losses = [], []
    for other in range(2):
        losses.append(plain.step(2 * step + other))
        gradients.append([p.grad.clone() for p in parameters])
    for parameter, first, second in zip(parameters, *gradients, strict=True):
        parameter.grad = (first + second) / 2
    if case.get("clip") is not None:
        torch.nn.utils.clip_grad_norm_(parameters, case["clip"])
    if updates:
        plain.kept = getattr(plain, "kept", None) or sgd(parameters)
        plain.kept.step()
    return losses[replica]


def collected(module: Any) -> Any:
    """The same module with whole parameters and gradients."""
    if not any(hasattr(parameter, "full_tensor") for parameter in module.parameters()):
        return module
    whole = torch.nn.ParameterList()
    for parameter in module.parameters():
        whole.append(torch.nn.Parameter(parameter.full_tensor().detach()))
        whole[-1].grad = None if parameter.grad is None else parameter.grad.full_tensor()
    return whole


def refused(mesh: Any) -> list[str]:
    """Returns the messages that refuse programs which wrappers cannot follow, before anything is opened."""
    pipeline, rank, process = mesh["pipeline"], mesh["pipeline"].get_local_rank(), dist.get_rank()
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=4)
    program = ppsim.lower(schedule, with_=("reduce-grad", "unshard"))
    members = pipeline.mesh.tolist()

    def said(module: Any, program: ppsim.Program = program, processes: Any = members, **more: Any) -> str:
        try:
            ppsim.torch.Runtime(program, {rank: module}, ppsim.check(program), loss=loss, processes=processes,
                                meeting_s=10, **more)
        except ppsim.Error as wrong:
            return str(wrong)
        return "taken"

    half = wrapped(modules(program)[rank], "ddp", mesh)
    fsdp = wrapped(modules(program)[rank], "fsdp", mesh)
    tensor_parallel = parallelize_module(modules(program)[rank], mesh["replica"], {"up": ColwiseParallel()})
    swapped = [0, 2] if process in (0, 2) else [3, 1]
    return [
        said(fsdp, ppsim.lower(schedule, with_="reduce-grad")),
        said(fsdp, processes=None),
        said(DistributedDataParallel(modules(program)[rank])),
        said({0: fsdp}.get(1)),
        said(tensor_parallel),
        said(fully_shard(torch.nn.Tanh(), mesh=mesh["replica"])),
        said(half if process % 2 == 0 else half.module),
        _said_by(swapped, mesh, program),
        said(fsdp, optimizer=sgd),
        said(fsdp, clip_norm=1.0),
    ]


def _said_by(processes: list[int], mesh: Any, program: ppsim.Program) -> str:
    """Swaps the processes of the second pipeline, so that its stage 0 meets stage 1 of the first."""
    rank = processes.index(dist.get_rank())
    try:
        mine = {rank: wrapped(modules(program)[rank], "ddp", mesh)}
        ppsim.torch.Runtime(program, mine, ppsim.check(program), loss=loss, processes=processes, meeting_s=10)
    except ppsim.Error as wrong:
        return str(wrong)
    return "taken"


def evaluated(mesh: Any) -> float:
    """Sharded stages of a program without backwards. Returns the largest difference."""
    pipeline, replica = mesh["pipeline"], mesh["replica"].get_local_rank()
    program = ppsim.lower(ppsim.generate("forward-only", ranks=2, microbatches=4), with_="unshard")
    every, rank = modules(program), pipeline.get_local_rank()
    x = batch(4, replica)[0]
    mine = {rank: wrapped(modules(program)[rank], "fsdp", mesh)}
    with ppsim.torch.Runtime(program, mine, ppsim.check(program), processes=pipeline.mesh.tolist()) as runtime:
        found = runtime.step(x).outputs
    expected = every[1](every[0](x)).chunk(4)
    return max((float((value - expected[number]).detach().abs().max()) for number, value in found.items()), default=0.0)


def ending(how: str) -> float:
    """A process of one pipeline ends, all of them end or stop, or leave a step early: the other one hears of it."""
    mesh = opened()
    pipeline = mesh["pipeline"]
    program = ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=4), with_=("reduce-grad", "unshard"))
    rank = pipeline.get_local_rank()
    mine = {rank: wrapped(modules(program)[rank], "fsdp", mesh)}
    runtime = ppsim.torch.Runtime(program, mine, ppsim.check(program), loss=loss, processes=pipeline.mesh.tolist(),
                                  silence_s=4)
    runtime.step(*batch(4))
    in_second = dist.get_rank() % 2 == 1
    if how == "leaves" and in_second:
        runtime.close()
        time.sleep(20)
        return 0.0
    if how == "stops" and in_second:
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "all" and in_second or how == "one" and dist.get_rank() == 3:
        os._exit(7)
    runtime.step(*batch(4))
    return 1.0
