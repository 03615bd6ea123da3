"""A stage of the model: a module, and its results for one microbatch after another."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ppsim.errors import Error
from ppsim.torch.replicas import replicas_of
from ppsim.torch.shelf import Shelf

Tensors = tuple[Any, ...]
#: (output of the last stage, target) -> the loss of a microbatch, a mean over its samples
Loss = Callable[[Any, Any], Any]


def tensors_of(value: Any, what: str) -> Tensors:
    """Inputs or outputs of a module as a tuple of tensors."""
    if isinstance(value, torch.Tensor):
        return (value,)
    if isinstance(value, tuple | list) and value and all(isinstance(item, torch.Tensor) for item in value):
        return tuple(value)
    raise Error(f"{what} is no tensor", found=type(value).__name__, expected="a tensor or a tuple of tensors")


@dataclass
class Cell:
    """One microbatch on one stage, from its forward to the last of its backward."""

    inputs: Tensors
    target: Any = None
    version: int = 0
    outputs: Tensors = ()  #: with their graph, where a backward follows
    side: Tensors = ()  #: outputs of side edges
    loss: Any = None
    shelf: Shelf | None = None
    random: Any = None  #: state of the generators before F, where R repeats it
    gradients: Tensors = ()  #: of the outputs, from I to W of a first stage
    groups: list[dict[str, Any]] = field(default_factory=list)  #: from I to W


class Stage:
    """module: the user's; where `weights` asks for it, a version's parameters replace the module's.

    is_first: its inputs need no gradient; loss: of a last stage; trains: whether backwards follow; splits: as I and W
    recomputed and moved: microbatches whose forward is repeated, and whose saved activations are moved
    side_inputs, side_outputs: how many of the last inputs and outputs are those of side edges, without gradient
    device: that the rank computes on; default: that of the parameters
    """

    def __init__(
        self,
        number: int,
        module: Any,
        *,
        is_first: bool,
        loss: Loss | None,
        trains: bool,
        splits: bool = False,
        recomputed: frozenset[int] = frozenset(),
        moved: frozenset[int] = frozenset(),
        side_inputs: int = 0,
        side_outputs: int = 0,
        device: Any = None,
    ) -> None:
        self.replicas = replicas_of(number, module)
        self.number, self.module, self.loss = number, self.replicas.module, loss
        self.is_first, self.trains, self.splits = is_first, trains, splits
        self.recomputed, self.moved = recomputed, moved
        self.side_inputs, self.side_outputs = side_inputs, side_outputs
        # Imported here: it brings much of the compiler along, which a program with whole backwards does not need.
        self._halves: Any = importlib.import_module("torch.distributed.pipelining._backward") if splits else None
        self.versions: dict[int, dict[str, Any]] = {}  #: of the parameters; empty: those of the module
        self.cells: dict[int, Cell] = {}
        parameter = next(module.parameters(), None)
        self.device = device or (torch.device("cpu") if parameter is None else parameter.device)

    def parameters(self, version: int) -> list[Any]:
        """Those that gradients go to."""
        source = self.versions[version].values() if self.versions else self.module.parameters()
        return [parameter for parameter in source if parameter.requires_grad]

    def forward(self, microbatch: int, inputs: Tensors, target: Any, version: int) -> Cell:
        """F."""
        cell = self.cells[microbatch] = Cell(self._leaves(inputs), target, version)
        if microbatch in self.recomputed:
            cell.random = _random_state(self.device)
            with torch.no_grad():
                self._compute(cell)
            return cell
        if microbatch in self.moved:
            cell.shelf = Shelf(self._kept(cell), self.device)
        with contextlib.nullcontext() if self.trains else torch.no_grad():
            self._compute(cell)
        return cell

    def recompute(self, microbatch: int) -> None:
        """R: the forward once more, with the same random numbers, and this time with a graph."""
        cell = self.cells[microbatch]
        now = _random_state(self.device)
        _set_random_state(cell.random, self.device)
        self._compute(cell)
        cell.side = ()  # F has handed them over
        _set_random_state(now, self.device)

    def backward(self, microbatch: int, gradients: Tensors) -> Tensors:
        """B. gradients: of the outputs. Returns those of the inputs."""
        cell = self.cells.pop(microbatch)
        return self._whole_backward(cell, gradients)

    def backward_input(self, microbatch: int, gradients: Tensors) -> Tensors:
        """I. A first stage has no gradient to give: its W does all, as in PyTorch."""
        cell = self.cells[microbatch]
        if self.is_first:
            cell.gradients = gradients
            return ()
        roots, output_gradients = _roots(cell, gradients)
        found, cell.groups = self._halves.stage_backward_input(
            roots, output_gradients, list(cell.inputs), iter(self.parameters(cell.version))
        )
        for tensor in cell.inputs:
            tensor.grad = None
        given = tuple(_given(gradient, tensor) for gradient, tensor in zip(found, cell.inputs, strict=True))
        cell.outputs, cell.loss = (), None
        return given

    def backward_weight(self, microbatch: int) -> None:
        """W."""
        cell = self.cells.pop(microbatch)
        if self.is_first:
            self._whole_backward(cell, cell.gradients)
            return
        self._halves.stage_backward_weight(iter(self.parameters(cell.version)), cell.groups)

    def _whole_backward(self, cell: Cell, gradients: Tensors) -> Tensors:
        roots, output_gradients = _roots(cell, gradients)
        with_graph = [number for number, root in enumerate(roots) if root.requires_grad]
        if with_graph:
            torch.autograd.backward(
                [roots[number] for number in with_graph],
                None if output_gradients is None else [output_gradients[number] for number in with_graph],
            )
        if self.is_first:
            return ()
        return tuple(_given(tensor.grad, tensor) for tensor in cell.inputs)

    def _leaves(self, inputs: Tensors) -> Tensors:
        """Inputs that gradients are taken of, cut off from whatever made them."""
        return tuple(
            tensor.detach().requires_grad_(self.trains and wanted and tensor.is_floating_point())
            for tensor, wanted in zip(inputs, self.with_gradient(len(inputs)), strict=True)
        )

    def with_gradient(self, count: int) -> list[bool]:
        """Which of so many inputs may have gradients."""
        return [not self.is_first and place < count - self.side_inputs for place in range(count)]

    def _kept(self, cell: Cell) -> list[Any]:
        return [*self.module.parameters(), *self.module.buffers(), *self._leaf_versions(cell), *cell.inputs]

    def _leaf_versions(self, cell: Cell) -> list[Any]:
        return list(self.versions[cell.version].values()) if self.versions else []

    def _compute(self, cell: Cell) -> None:
        with contextlib.nullcontext() if cell.shelf is None else cell.shelf.hooks():
            value = self._call(cell)
            cell.outputs, side = self.outputs_of(value)
            cell.side = tuple(tensor.detach() for tensor in side)
            if self.loss is not None:
                cell.loss = self.loss(self._without_side(value, cell.outputs), cell.target)

    def outputs_of(self, value: Any) -> tuple[Tensors, Tensors]:
        """Returns the outputs of the module, and those after them for side edges. Raises Error where there are too few."""
        found = tensors_of(value, f"the output of stage {self.number}")
        if len(found) <= self.side_outputs:
            raise Error(f"the module of stage {self.number} returns too little", found=f"{len(found)} tensors",
                        expected=f"its output and {self.side_outputs} more, one for each side edge")
        end = len(found) - self.side_outputs
        return found[:end], found[end:]

    def _without_side(self, value: Any, outputs: Tensors) -> Any:
        if not self.side_outputs:
            return value
        return outputs[0] if len(outputs) == 1 else outputs

    def _call(self, cell: Cell) -> Any:
        if self.versions:
            return torch.func.functional_call(self.module, self.versions[cell.version], cell.inputs)
        return self.module(*cell.inputs)


def _roots(cell: Cell, gradients: Tensors) -> tuple[list[Any], list[Any] | None]:
    """The tensors that a backward starts from, and their gradients; a loss has none."""
    if cell.loss is not None:
        return [cell.loss], None
    return list(cell.outputs), list(gradients)


def _given(gradient: Any, tensor: Any) -> Any:
    """A gradient that can be sent: an input that has no part in the output has one of zeros."""
    if not tensor.is_floating_point():
        return None
    return torch.zeros_like(tensor) if gradient is None else gradient


def summed(parts: Sequence[Tensors]) -> Tensors:
    """The gradients of outputs that several stages read, added up in the order of these stages."""
    total = parts[0]
    for part in parts[1:]:
        total = tuple(None if a is None else a + b for a, b in zip(total, part, strict=True))
    return total


def _random_state(device: Any) -> tuple[Any, Any]:
    on_device = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return torch.get_rng_state(), on_device


def _set_random_state(state: tuple[Any, Any], device: Any) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)


@dataclass(frozen=True)
class Shape:
    """Shape and type of a tensor before it exists."""

    size: tuple[int, ...]
    dtype: Any

    @property
    def has_gradient(self) -> bool:
        return bool(self.dtype.is_floating_point)

    def empty(self, device: Any) -> Any:
        return torch.empty(self.size, dtype=self.dtype, device=device)


def shapes_of(tensors: Tensors) -> tuple[Shape, ...]:
    return tuple(Shape(tuple(tensor.shape), tensor.dtype) for tensor in tensors)


def shapes_behind(stage: Stage, inputs: Sequence[Shape]) -> tuple[tuple[Shape, ...], int]:
    """Of the outputs of a stage, and how many bytes it saves for a backward, by running it without data.

    One that is sharded runs once on zeros instead, without a graph: FSDP gathers parameters, which need data.
    Raises Error where the module cannot run on PyTorch's meta device.
    """
    if stage.replicas.is_sharded:
        return _run_on_zeros(stage, inputs), 0
    try:
        return _meta_run(stage, inputs)
    except Exception as wrong:
        raise Error(
            f"stage {stage.number} cannot run without data, which is how shapes are found: {wrong}",
            expected="a module whose operations depend on shapes alone",
        ) from wrong


def _run_on_zeros(stage: Stage, inputs: Sequence[Shape]) -> tuple[Shape, ...]:
    """Buffers and random numbers are as before."""
    random, buffers = _random_state(stage.device), [buffer.clone() for buffer in stage.module.buffers()]
    zeros = [torch.zeros(shape.size, dtype=shape.dtype, device=stage.device) for shape in inputs]
    stage.replicas.gather()
    with torch.no_grad():
        value = stage.module(*zeros)
    stage.replicas.release()
    for buffer, before in zip(stage.module.buffers(), buffers, strict=True):
        buffer.copy_(before)
    _set_random_state(random, stage.device)
    return shapes_of(tuple(t for tensors in stage.outputs_of(value) for t in tensors))


def _meta_run(stage: Stage, inputs: Sequence[Shape]) -> tuple[tuple[Shape, ...], int]:
    meta = torch.device("meta")
    state = {**dict(stage.module.named_parameters()), **dict(stage.module.named_buffers())}
    weights = {name: tensor.detach().to(meta).requires_grad_(tensor.requires_grad) for name, tensor in state.items()}
    arguments = [
        shape.empty(meta).requires_grad_(shape.has_gradient and wanted)
        for shape, wanted in zip(inputs, stage.with_gradient(len(inputs)), strict=True)
    ]
    shelf = Shelf([*weights.values(), *arguments], meta)
    with meta, shelf.hooks() if stage.trains else torch.no_grad():
        value = torch.func.functional_call(stage.module, weights, tuple(arguments))
    return shapes_of(tuple(t for tensors in stage.outputs_of(value) for t in tensors)), shelf.bytes
