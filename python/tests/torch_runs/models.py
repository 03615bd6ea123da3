"""A small model cut into stages, and what it computes without a pipeline."""

from collections.abc import Callable
from typing import Any

import torch

import ppsim
from ppsim._native import _core

WIDTH, ROWS = 8, 3
Optimizer = Callable[[list[Any]], Any]


class Block(torch.nn.Module):
    """Several inputs are added up, as a decoder reads its encoder's."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.norm = torch.nn.LayerNorm(WIDTH, dtype=torch.float64)
        self.up = torch.nn.Linear(WIDTH, 2 * WIDTH, dtype=torch.float64)
        self.down = torch.nn.Linear(2 * WIDTH, WIDTH, dtype=torch.float64)

    def forward(self, *inputs: Any) -> Any:
        x = inputs[0] if len(inputs) == 1 else torch.stack(inputs).sum(0)
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def loss(output: Any, target: Any) -> Any:
    return torch.nn.functional.mse_loss(output, target)


def batch(microbatches: int, step: int = 0) -> tuple[Any, Any]:
    torch.manual_seed(1000 + step)
    shape = (microbatches * ROWS, WIDTH)
    return torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)


def modules(program: ppsim.Program, make: Callable[[int], Any] = Block) -> dict[int, Any]:
    """Of all stages; those of one block begin alike."""
    blocks = _core.Execution(program, "in-process").blocks
    return {stage: make(block) for block, stages in enumerate(blocks) for stage in stages}


class Plain:
    """The same model without a pipeline: microbatch after microbatch, a module for each block."""

    def __init__(self, program: ppsim.Program, optimizer: Optimizer | None, make: Callable[[int], Any] = Block) -> None:
        self.execution = _core.Execution(program, "in-process")
        self.program = program
        self.block_of = {s: b for b, stages in enumerate(self.execution.blocks) for s in stages}
        self.modules = {block: make(block) for block in range(len(self.execution.blocks))}
        self.optimizers = {b: optimizer(list(m.parameters())) for b, m in self.modules.items()} if optimizer else {}
        self.updates = self.execution.updates

    def step(self, step: int = 0, clip: float | None = None) -> list[float]:
        """Gradients are in `.grad` where there is no optimizer. Returns the losses."""
        inputs, targets = (tensor.chunk(self.program.microbatches) for tensor in batch(self.program.microbatches, step))
        self.versions = {b: [_copy(m)] for b, m in self.modules.items()}
        self.sums: dict[tuple[int, int], dict[str, Any]] = {}
        losses = [self._microbatch(number, inputs[number], targets[number]) for number in range(self.program.microbatches)]
        if clip is not None or not self.optimizers:
            for block in self.modules:
                self._give(block, 0)
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([p for m in self.modules.values() for p in m.parameters()], clip)
        for block in self.optimizers:
            while len(self.versions[block]) < max(self.updates) + 2:
                self._update(block, given=clip is not None)
        return losses

    def _microbatch(self, number: int, x: Any, target: Any) -> float:
        outputs: dict[int, Any] = {}
        used: dict[int, dict[str, Any]] = {}
        stages = [s for s in range(self.program.stages) if self.execution.on_route(s, number)]
        while len(outputs) < len(stages):
            for stage in stages:
                producers = self.execution.producers(stage, number)
                if stage in outputs or any(p not in outputs for p in producers):
                    continue
                used[stage] = self._version(stage, number)
                arguments = tuple(outputs[p] for p in producers) or (x,)
                outputs[stage] = torch.func.functional_call(self.modules[self.block_of[stage]], used[stage], arguments)
        last = next(stage for stage in stages if not self.execution.consumers(stage, number))
        value = loss(outputs[last], target)
        value.backward()
        for stage, weights in used.items():
            sums = self.sums.setdefault((self.block_of[stage], self.updates[number]), {})
            for name, weight in weights.items():
                sums[name] = weight.grad if name not in sums else sums[name] + weight.grad
        return float(value.detach())

    def _version(self, stage: int, number: int) -> dict[str, Any]:
        block = self.block_of[stage]
        version = self.execution.version(stage, number)
        while len(self.versions[block]) <= version:
            self._update(block)
        return {name: p.detach().requires_grad_() for name, p in self.versions[block][version].items()}

    def _give(self, block: int, update: int) -> None:
        count = self.updates.count(update)
        for name, parameter in self.modules[block].named_parameters():
            parameter.grad = self.sums[block, update][name] / count

    def _update(self, block: int, given: bool = False) -> None:
        """Makes the next version."""
        if not given:
            self._give(block, len(self.versions[block]) - 1)
        self.optimizers[block].step()
        self.versions[block].append(_copy(self.modules[block]))


def _copy(module: Any) -> dict[str, Any]:
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
