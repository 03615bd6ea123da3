"""Where a rank computes, and what has to be in place there before the first step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ppsim.errors import Error
from ppsim.execution import Plan
from ppsim.torch.stage import Stage, Tensors


def device_of(modules: Iterable[Any], backend: str) -> Any:
    """Of all parameters and buffers; without any the current GPU for nccl, else the CPU. Raises Error for several."""
    found = {tensor.device for module in modules for tensor in (*module.parameters(), *module.buffers())}
    if len(found) > 1:
        raise Error("the modules of a rank are on several devices", found=", ".join(sorted(map(str, found))),
                    expected="one device for each rank")
    if found:
        return found.pop()
    return torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else torch.device("cpu")


def on(device: Any) -> Any:
    """The context in which a GPU is the current one: objects that torch.distributed sends go through that."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


@contextlib.contextmanager
def unchanged(stage: Stage) -> Iterator[None]:
    """Gives a module its parameters, buffers, gradients and the state of random numbers back."""
    tensors = [*stage.module.parameters(), *stage.module.buffers()]
    kept = [(tensor, tensor.detach().clone(), tensor.grad) for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None
    try:
        with torch.random.fork_rng(devices=[stage.device] if stage.device.type == "cuda" else []):
            yield
    finally:
        with torch.no_grad():
            for tensor, value, gradient in kept:
                tensor.copy_(value)
                tensor.grad = gradient


def warm_up(stage: Stage, inputs: Tensors, target: Any) -> int:
    """Computes once and forgets it. CUDA loads a kernel when it is first launched, and may then wait for all that
    runs on the device: for a receive, too, whose sender waits for what this rank launches next.

    Returns: bytes that a moved microbatch saves; on a GPU others may be saved than without data
    """
    if stage.replicas.is_sharded:  # it has run on zeros, which its shapes were found by
        return 0
    kinds = ["B", *(["I"] if stage.splits else [])] if stage.trains else ["F"]
    number, saved = min(stage.moved - stage.recomputed, default=-1), 0
    with unchanged(stage):
        for kind in kinds:
            cell = stage.forward(number, inputs, target, 0)
            saved = cell.shelf.bytes if cell.shelf else 0
            gradients = tuple(torch.ones_like(t) if t.is_floating_point() else None for t in cell.outputs)
            if kind == "F":
                del stage.cells[number]
            elif kind == "B":
                stage.backward(number, gradients)
            else:
                stage.backward_input(number, gradients)
                stage.backward_weight(number)
    return saved


class HostMemory:
    """Host memory that OFFLOAD copies to. RELOAD gives it back, for the next OFFLOAD: both are in the order of one queue, so the
    one has read it before the other writes it."""

    def __init__(self) -> None:
        self._free: dict[tuple[int, bool], list[Any]] = {}

    def take(self, size: int, pinned: bool) -> Any:
        free = self._free.setdefault((size, pinned), [])
        return free.pop() if free else torch.empty(size, dtype=torch.uint8, pin_memory=pinned)

    def give(self, host: Any, pinned: bool) -> None:
        self._free.setdefault((host.numel(), pinned), []).append(host)

    def reserve(self, plan: Plan, sizes: dict[int, int], pinned: bool) -> None:
        """As much as a step needs at once: to pin memory in a step would wait for all that runs on the device.

        sizes: bytes that a microbatch of each stage saves
        """
        taken: dict[tuple[int, int], Any] = {}
        for action in plan.actions():
            if action.kind == "OFFLOAD":
                taken[action.subject, action.number] = self.take(sizes[action.subject], pinned)
            elif action.kind == "RELOAD":
                self.give(taken.pop((action.subject, action.number)), pinned)
        for host in taken.values():
            self.give(host, pinned)
