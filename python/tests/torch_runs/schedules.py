"""Runs schedules one after another on the same processes and compares gradients with the plain model's."""

import contextlib
import csv
import json
import os
import time
from typing import Any

import torch

import ppsim
import ppsim.torch
from ppsim._native import _core
from ppsim.execution import Plan
from ppsim.torch.queues import StreamQueues
from torch_runs.models import Block, Plain, batch, loss, modules

#: Of training: an update that keeps a state.
RATE, MOMENTUM = 0.05, 0.9


def sgd(parameters: list[Any]) -> Any:
    return torch.optim.SGD(parameters, lr=RATE, momentum=MOMENTUM)


def program_of(case: dict[str, Any]) -> ppsim.Program:
    """name, ranks, microbatches; settings of the schedule; lowering: arguments of ppsim.lower; or the path of a file"""
    if "file" in case:
        return ppsim.read(case["file"])
    settings = case.get("settings", {})
    schedule = ppsim.generate(case["name"], ranks=case["ranks"], microbatches=case["microbatches"], **settings)
    options = {"with_": ["reduce-grad"], **case.get("lowering", {})}
    return ppsim.lower(schedule, **options)


def makes_updates(program: ppsim.Program) -> bool:
    return any(ppsim.op_kinds[kind] == "OPT" for kind in program.actions["kind"])


def everything(cases: list[dict[str, Any]], names: list[str]) -> list[Any]:
    """All cases, then all functions of these names."""
    return [trained(program_of(case), case) for case in cases] + [globals()[name]() for name in names]


def own_orders() -> list[dict[str, Any]]:
    """A schedule that is written here, the shortest one that is found, and a CSV that PyTorch would run."""
    builder = ppsim.ScheduleBuilder(ranks=2, stages=2, microbatches=3)
    for stage in range(2):
        for microbatch in range(3):
            builder.forward(stage, microbatch)
        for microbatch in range(3):
            builder.backward_input(stage, microbatch)
        for microbatch in range(3):
            builder.backward_weight(stage, microbatch)
    found = ppsim.synthesize(ranks=2, microbatches=3, activation_limit=3, unit={"F": 1, "I": 1, "W": 1}).schedule
    csv = ppsim.read_text(ppsim.generate("zb-v", ranks=2, microbatches=4).to_csv())
    programs = [ppsim.lower(schedule, with_="reduce-grad") for schedule in (builder.build(), found, csv)]
    return [trained(program, {}) for program in programs]


def outputs() -> dict[str, Any]:
    """A program without backwards."""
    program = ppsim.lower(ppsim.generate("forward-only", ranks=2, microbatches=4))
    every = modules(program)
    mine = {stage: module for stage, module in every.items() if program.placement[stage] == own_rank()}
    proof = ppsim.check(program, transport="in-process")
    with ppsim.torch.Runtime(program, mine, proof) as runtime:
        found = runtime.step(batch(4)[0]).outputs
    worst = 0.0
    for number, x in enumerate(batch(4)[0].chunk(4)):
        for stage in range(program.stages):
            x = every[stage](x)
        worst = max(worst, float((found[number] - x).detach().abs().max())) if found else 0.0
    return {"outputs": len(found), "worst": worst}


def dropout() -> dict[str, Any]:
    """Gradients with recompute and without are the same, random numbers or not."""
    def make(block: int) -> Any:
        return torch.nn.Sequential(Block(block), torch.nn.Dropout(0.5))

    gradients = []
    for recompute in ("none", "full"):
        schedule = ppsim.generate("gpipe", ranks=2, microbatches=2)
        program = ppsim.lower(schedule, recompute=recompute, with_="reduce-grad")
        mine = {own_rank(): make(own_rank())}
        torch.manual_seed(7 + own_rank())
        with ppsim.torch.Runtime(program, mine, ppsim.check(program), loss=loss) as runtime:
            runtime.step(*batch(2))
        gradients.append([p.grad for p in mine[own_rank()].parameters()])
    return {"same": all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))}


def frozen() -> dict[str, Any]:
    """Some stages train nothing, and one has no parameters: their blocks have no optimizer, the others are trained as without
    a pipeline."""

    def make(stage: int) -> Any:
        return torch.nn.GELU() if stage == 2 else Block(stage)

    equal = []
    for name in ("interleaved-1f1b", "interleaved-zb"):
        schedule = ppsim.generate(name, ranks=2, microbatches=4, chunks=2)
        program = ppsim.lower(schedule, with_=("reduce-grad", "opt", "clip"))
        for trained in (3, 1, 0):
            every, alone = ({s: make(s).requires_grad_(s == trained) for s in range(4)} for _ in range(2))
            mine = {s: module for s, module in every.items() if program.placement[s] == own_rank()}
            whole = torch.nn.Sequential(*alone.values())
            optimizer = sgd([p for p in whole.parameters() if p.requires_grad])
            with ppsim.torch.Runtime(program, mine, ppsim.check(program), loss=loss, optimizer=sgd, clip_norm=1e3) as runtime:
                for step in range(3):
                    runtime.step(*batch(4, step))
                    for x, y in zip(*(part.chunk(4) for part in batch(4, step)), strict=True):
                        loss(whole(x), y).backward()
                    for parameter in optimizer.param_groups[0]["params"]:
                        parameter.grad /= 4
                    optimizer.step()
                    optimizer.zero_grad()
            equal += [torch.equal(a, b) for s in mine for a, b in zip(every[s].parameters(), alone[s].parameters(), strict=True)]
    return {"equal": all(equal), "compared": len(equal)}


def traced() -> dict[str, Any]:
    """The runtime's trace is one of the program, and gives costs."""
    program = ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=4), with_="reduce-grad")
    with ppsim.torch.Runtime(program, {own_rank(): Block(own_rank())}, ppsim.check(program), loss=loss) as runtime:
        for step in range(3):
            runtime.step(*batch(4, step))
        trace = runtime.trace()
        costs = runtime.costs()
    errors = _core.Execution(program, "in-process").trace_errors(trace)
    table = json.loads(costs.bound(ppsim.generate("1f1b", ranks=2, microbatches=4)))
    run = ppsim.simulate(program, costs=costs)
    return {
        "errors": errors,
        "gaps": sum(_gaps(program, rank, trace) for rank in range(2)),
        "kinds": sorted({row["kind"] for row in table["costs"]}),
        "makespan_ns": run.makespan_ns,
    }


def _gaps(program: ppsim.Program, rank: int, trace: str) -> int:
    """Instructions that do not begin when the last of what they wait for ends."""
    rows = [row for row in csv.DictReader(trace.splitlines()) if int(row["rank"]) == rank]
    ends = [int(row["end_ns"]) for row in rows]
    instructions = Plan(program, rank, "in-process").instructions
    return sum(
        int(row["start_ns"]) != max(ends[wait] for wait in instruction.waits)
        for row, instruction in zip(rows, instructions, strict=True)
        if instruction.waits
    )


def accumulated() -> dict[str, Any]:
    """Gradients that nobody clears add up over steps. Other shapes, and steps after the end, are refused."""
    program = ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=4), with_="reduce-grad")
    module = Block(own_rank())
    with ppsim.torch.Runtime(program, {own_rank(): module}, ppsim.check(program), loss=loss) as runtime:
        runtime.step(*batch(4))
        once = [parameter.grad.clone() for parameter in module.parameters()]
        for _ in range(2):
            runtime.step(*batch(4))
    thrice = [parameter.grad for parameter in module.parameters()]
    try:
        runtime.step(*batch(4))
        refused = ""
    except ppsim.Error as wrong:
        refused = str(wrong)
    worst = max(float((a - 3 * b).abs().max()) for a, b in zip(thrice, once, strict=True))
    return {"worst": worst, "refused": refused}


def own_rank() -> int:
    return int(os.environ["RANK"])


def trained(program: ppsim.Program, case: dict[str, Any]) -> dict[str, Any]:
    """Some steps, and the same without a pipeline."""
    rank = own_rank()
    mine = {stage: module for stage, module in modules(program).items() if program.placement[stage] == rank}
    optimizer = sgd if makes_updates(program) else None
    proof = ppsim.check(program, transport="any").certificate
    clip = case.get("clip")
    steps = case.get("steps", 1)
    with ppsim.torch.Runtime(program, mine, proof, loss=loss, optimizer=optimizer, clip_norm=clip) as runtime:
        losses = []
        for step in range(steps):
            inputs, targets = batch(program.microbatches, step)
            losses.append({k: float(v) for k, v in runtime.step(inputs, targets).losses.items()})
    plain = Plain(program, optimizer)
    expected = [plain.step(step, clip) for step in range(steps)]
    return compared(program, mine, plain, losses, expected)


def compared(program: ppsim.Program, mine: Any, plain: Any, losses: Any, expected: Any) -> dict[str, Any]:
    """Weights where the program updates them, else gradients; relative to the largest one."""
    updates = makes_updates(program)
    worst, equal, pairs = 0.0, True, 0
    for stage, module in mine.items():
        for a, b in zip(module.parameters(), plain.modules[plain.block_of[stage]].parameters(), strict=True):
            ours, theirs = (a, b) if updates else (a.grad, b.grad)
            scale = float(theirs.detach().abs().max())
            worst = max(worst, float((ours - theirs).detach().abs().max()) / max(scale, 1e-30))
            equal &= bool(torch.equal(ours, theirs))
            pairs += 1
    off = max((abs(value - expected[step][int(m)]) for step, found in enumerate(losses) for m, value in found.items()), default=0)
    return {"equal": equal, "worst": worst, "pairs": pairs, "losses": off, "blocks": len(plain.modules)}


def profiled() -> dict[str, Any]:
    """Costs of two stages, each on its process, for schedules that split the backward, repeat the forward and move."""
    inputs, targets = (part[: len(part) // 4] for part in batch(4))
    module = Block(own_rank())
    before = [value.clone() for value in module.state_dict().values()]
    costs = ppsim.torch.profile(
        {own_rank(): module}, inputs, loss=loss, targets=targets, optimizer=sgd, repeats=5, warmup=1
    )
    unchanged = all(torch.equal(a, b) for a, b in zip(before, module.state_dict().values(), strict=True))
    runs = {}
    for name, lowering in (("1f1b", {"recompute": "full"}), ("zb-h1", {}), ("gpipe", {"offload": "all"})):
        schedule = ppsim.generate(name, ranks=2, microbatches=4)
        program = ppsim.lower(schedule, costs=costs, with_=("reduce-grad", "opt"), **lowering)
        runs[name] = ppsim.simulate(program, costs=costs)
    table = json.loads(costs.bound(schedule))
    sizes = {row["tensor"]: row["bytes"] for row in table["sizes"] if 0 in row.values()}
    return {
        "samples": sorted({row["samples"] for row in table["costs"] if row["kind"] in ("F", "B", "W", "SEND_B")}),
        "makespans": {name: run.makespan_ns for name, run in runs.items()},
        "parameters": sizes["parameters"],
        "saved": sizes["saved_for_weight"],
        "peak": runs["1f1b"].peak_bytes,
        "unchanged": unchanged,
    }


class FakeEvent:
    """Of a stream on which work is over when it was enqueued."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        self.at = time.monotonic()

    def query(self) -> bool:
        return self.at > 0

    def elapsed_time(self, other: "FakeEvent") -> float:
        return 1e3 * (other.at - self.at)


class FakeStream:
    def __init__(self, device: Any = None) -> None:
        self.waited = 0

    def wait_event(self, event: FakeEvent) -> None:
        assert event.query(), "a stream waits for an event that nobody has recorded"
        self.waited += 1


def streams() -> dict[str, Any]:
    """The queues for GPUs on streams that are none: all is issued in order by one thread, and gloo blocks it."""
    torch.cuda.Stream = torch.cuda.current_stream = FakeStream
    torch.cuda.Event, torch.cuda.synchronize = FakeEvent, lambda *_: None
    torch.cuda.stream = lambda stream: contextlib.nullcontext()
    program = ppsim.lower(ppsim.generate("zb-v", ranks=2, microbatches=4), with_=("reduce-grad", "opt"))
    every = modules(program)
    mine = {stage: module for stage, module in every.items() if program.placement[stage] == own_rank()}
    proof = ppsim.check(program, transport="nccl-one-queue")
    with ppsim.torch.Runtime(program, mine, proof.certificate, loss=loss, optimizer=sgd, unverified=True) as runtime:
        runtime._queues = StreamQueues(runtime._plan, runtime._performer.perform, runtime._watch, None)
        losses = [{k: float(v) for k, v in runtime.step(*batch(4, step)).losses.items()} for step in range(2)]
        trace = runtime.trace()
        errors, gaps = runtime._plan.execution.trace_errors(trace), _gaps(program, own_rank(), trace)
        runtime._performer.prepare(torch.device("cpu"))
        losses.append({k: float(v) for k, v in runtime.step(*batch(4, 2)).losses.items()})
        waited = sum(stream.waited for stream in runtime._queues._streams.values())
    plain = Plain(program, sgd)
    expected = [plain.step(step) for step in range(3)]
    return compared(program, mine, plain, losses, expected) | {"errors": errors, "gaps": gaps, "waited": waited}
