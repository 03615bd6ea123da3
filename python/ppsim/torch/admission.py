"""Refusals before any process is met: Programs that the runtime cannot compute."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ppsim._native import _core
from ppsim.admission import not_computed
from ppsim.errors import Error
from ppsim.execution import Plan
from ppsim.torch.replicas import Whole


def transport_of(backend: str) -> str:
    """The transport that a backend of torch.distributed is for proofs.

    gloo: a thread for each queue, so queues are independent. nccl: launches are ordered, and all
    instructions in one chain where the devices have one hardware queue.
    """
    if backend == "gloo":
        return "in-process"
    if backend == "nccl":
        one = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS") == "1"
        return "nccl-one-queue" if one else "nccl"
    raise Error("no such backend", found=backend, expected="gloo or nccl")


def check_features(plan: Plan) -> None:
    """Raises Error naming what a runtime for modules cannot compute."""
    problems = [*not_computed(plan, "module"), *_of_blocks(plan), *_of_actions(plan)]
    if problems:
        raise Error("modules cannot run this program: " + "; ".join(problems), code="refused")


def check_replicas(plan: Plan, stages: Mapping[int, Whole]) -> None:
    """Raises Error where the program lacks a collective for modules in wrappers, or does what they cannot follow."""
    wrapped = {number: stage for number, stage in stages.items() if stage.processes}
    problems = [problem for number, stage in wrapped.items() for problem in _of_wrapper(plan, number, stage)]
    if len({stage.processes for stage in stages.values()}) > 1:
        problems.append("the stages of a rank have replicas on different processes, or only some have any")
    if problems:
        raise Error("modules in wrappers cannot run this program: " + "; ".join(problems), code="refused")


def _of_wrapper(plan: Plan, number: int, stage: Whole) -> Iterable[str]:
    found = {action.kind for action in plan.collectives() if number in plan.stages_of(action)}
    trains = any(subject == number for kind in "BI" for subject, _ in plan.cells(kind))
    for kind in stage.collectives:
        if kind not in found and (trains or kind != "REDUCE_GRAD"):
            option = kind.lower().replace("_", "-")
            yield f"there is no {kind} of stage {number}: lower it with {option}"
    if not stage.is_sharded:
        return
    for block in plan.blocks_of[number]:
        if len(plan.execution.blocks[block]) > 1:
            yield f"stages {plan.execution.blocks[block]} share a block of stage {number}, which is sharded"
    if plan.execution.asynchronous:
        yield f"it keeps versions of the weights of stage {number}, which are sharded"
    moved = {cell for kind in ("OFFLOAD", "SEND_A") for cell in plan.cells(kind) if cell[0] == number}
    if moved:
        yield f"it moves activations of stage {number}, whose parameters are sharded"


def _of_blocks(plan: Plan) -> Iterable[str]:
    reduced = {block for block, _ in _cells_everywhere(plan, "REDUCE_GRAD")}
    trained = bool(_cells_everywhere(plan, "B") or _cells_everywhere(plan, "W"))
    for block in range(len(plan.execution.blocks)):
        if trained and len(plan.owners(block)) > 1 and block not in reduced:
            shared = f"ranks {plan.owners(block)} share parameter block {block}"
            yield f"{shared} without a REDUCE_GRAD: lower it with reduce-grad"


def _of_actions(plan: Plan) -> Iterable[str]:
    for instruction in plan.instructions:
        for action in instruction.actions:
            if action.kind == "UNSHARD" and len(plan.members[action.communicator]) > 1:
                yield f"{instruction.text} gathers parameters over ranks of the program"


def _cells_everywhere(plan: Plan, kind: str) -> set[tuple[int, int]]:
    number = _core.op_kinds().index(kind)
    actions = plan.program.actions
    chosen = actions[actions["kind"] == number]
    return {(int(a["subject"]), int(a["microbatch"])) for a in chosen}
