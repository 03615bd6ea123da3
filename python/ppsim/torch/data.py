"""Data between the stages of a rank: inputs, activations, gradients, and their shapes."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from typing import Any

import torch

from ppsim.errors import Error
from ppsim.execution import Plan
from ppsim.torch.shelf import used_here
from ppsim.torch.stage import Shape, Stage, Tensors, shapes_behind, shapes_of, summed, tensors_of
from ppsim.torch.watch import Look, get

#: (stage, microbatch, stage at the other end)
Edge = tuple[int, int, int]


class Data:
    """Tensors that wait for their readers. What depends on whom is the Program's business: nothing here waits."""

    def __init__(self, plan: Plan, stages: dict[int, Stage], device: Any) -> None:
        self._plan, self._stages, self._device = plan, stages, device
        self._inputs: list[Tensors] | None = None
        self._targets: list[Any] | None = None
        self._outputs: dict[int, tuple[Shape, ...]] = {}  #: shapes, by stage
        self._side_outputs: dict[tuple[int, int], Shape] = {}  #: of side edges
        self._first_inputs: tuple[Shape, ...] | None = None  #: of a microbatch of the first step
        self._saved: dict[int, int] = {}  #: bytes that a backward needs, by stage
        self._loaded: dict[tuple[int, int], Tensors] = {}
        self._activations: dict[Edge, Tensors] = {}  #: by reader, microbatch and producer
        self._gradients: dict[Edge, Tensors] = {}  #: by producer, microbatch and reader
        self._sent: dict[Edge, Tensors] = {}  #: outputs for other ranks, by producer, microbatch and reader
        self.lent: dict[tuple[int, int], Any] = {}  #: of other ranks' stages
        self._losses: dict[int, Any] = {}
        self._results: dict[int, Any] = {}

    def begin(self, inputs: Any, targets: Any) -> None:
        """Of a step."""
        for flow in (self._loaded, self._activations, self._gradients, self._sent, self.lent):
            flow.clear()
        self._losses.clear()
        self._results.clear()
        first = [stage for stage in self._plan.stages if not self._plan.feeders(stage)]
        last = [stage for stage in self._plan.stages if not self._plan.readers(stage)]
        self._inputs = self._cut(inputs, "inputs", bool(first))
        self._targets = self._cut(targets, "targets", any(self._stages[stage].loss for stage in last))
        if self._inputs is not None:
            self._check_alike(self._inputs)
            self._check_as_before(shapes_of(self._inputs[0]))

    def find_shapes(self, store: Any, look: Look) -> None:
        """Of everything that crosses ranks: each rank runs its stages without data and tells the others."""
        # Running without data brings much along. All ranks load it at the same time, and then take turns.
        importlib.import_module("torch._meta_registrations")
        known: dict[int, tuple[Shape, ...]] = {}
        for stage in self._plan.order:
            if self._plan.is_local(stage):
                known[stage], self._saved[stage] = self._shapes_of(stage, known)
                store.set(f"shapes/{stage}", _to_json(known[stage], self._saved[stage]))
            else:
                known[stage], self._saved[stage] = _from_json(get(store, f"shapes/{stage}", look))
        for stage, shapes in known.items():
            self._outputs[stage] = self._main(stage, known)
            of_sides = shapes[len(self._outputs[stage]) :]
            for reader, shape in zip(self._plan.side_readers(stage), of_sides, strict=True):
                self._side_outputs[stage, reader] = shape

    def example(self, stage: int) -> tuple[Tensors, Any]:
        """Inputs of a stage, zeros where they are other stages', and the target; shapes are known."""
        microbatch = self._plan.example(stage) or 0
        shapes = [shape for feeder in self._plan.feeders(stage) for shape in self._outputs[feeder]]
        of_sides = [self._side_outputs[feeder, stage] for feeder in self._plan.side_feeders(stage)]
        zeros, side = ([shape.empty(self._device).zero_() for shape in some] for some in (shapes, of_sides))
        return (*(zeros or self._on_device(microbatch)), *side), self.target(stage, microbatch)

    def load(self, stage: int, microbatch: int) -> None:
        """LOAD."""
        self._loaded[stage, microbatch] = self._on_device(microbatch)

    def inputs(self, stage: int, microbatch: int) -> Tensors:
        """All inputs of a stage, those of the lowest producer first, and behind them those of side edges."""
        producers = self._plan.execution.producers(stage, microbatch)
        found: Tensors | None = self._loaded.pop((stage, microbatch), None)
        if producers:
            found = tuple(t for producer in producers for t in self._activations.pop((stage, microbatch, producer)))
        found = found or self._on_device(microbatch)
        for producer in self._plan.side_feeders(stage):
            found += self._activations.pop((stage, microbatch, producer))
        used_here(found)
        return found

    def target(self, stage: int, microbatch: int) -> Any:
        if self._targets is None or self._stages[stage].loss is None:
            return None
        items = self._targets[microbatch]
        moved = tuple(item.to(self._device) for item in items)
        return moved[0] if len(moved) == 1 else moved

    def hand_over(self, stage: int, microbatch: int, outputs: Tensors, side: Tensors, loss: Any) -> None:
        """After F. side: outputs of side edges, the lowest reader first."""
        for reader, tensor in zip(self._plan.side_readers(stage), side, strict=True):
            if self._plan.is_local(reader):
                self._activations[reader, microbatch, stage] = (tensor,)
            else:
                self._sent[stage, microbatch, reader] = (tensor,)
        readers = self._plan.execution.consumers(stage, microbatch)
        free = tuple(tensor.detach() for tensor in outputs)
        for reader in readers:
            if self._plan.is_local(reader):
                self._activations[reader, microbatch, stage] = free
            elif reader == self._plan.receiver(stage, reader, microbatch):
                self._sent[stage, microbatch, reader] = free
        if not readers and loss is not None:
            self._losses[microbatch] = loss.detach()
        elif not readers:
            self._results[microbatch] = free[0] if len(free) == 1 else free

    def hand_back(self, stage: int, microbatch: int, gradients: Tensors) -> None:
        """After B or I: each producer gets those of what it gave."""
        at = 0
        for producer in self._plan.execution.producers(stage, microbatch):
            count = len(self._outputs[producer])
            self._gradients[producer, microbatch, stage] = gradients[at : at + count]
            at += count

    def output_gradients(self, stage: int, microbatch: int) -> Tensors:
        """The sum over the readers; nothing on a last stage."""
        readers = self._plan.execution.consumers(stage, microbatch)
        if not readers:
            return ()
        parts = [self._gradients.pop((stage, microbatch, reader)) for reader in readers]
        used_here(tensor for part in parts for tensor in part)
        return summed(parts)

    def activations_to_send(self, stage: int, microbatch: int, reader: int) -> Tensors:
        found = self._sent.pop((stage, microbatch, reader))
        used_here(found)
        return tuple(tensor.contiguous() for tensor in found)

    def gradients_to_send(self, stage: int, microbatch: int, producer: int) -> Tensors:
        found = self._gradients.pop((producer, microbatch, stage))
        used_here(found)
        return tuple(None if tensor is None else tensor.contiguous() for tensor in found)

    def receive_activations(self, stage: int, microbatch: int, producer: int) -> Tensors:
        """Empty ones, which the message fills."""
        if (producer, stage) in self._side_outputs:
            found = self._activations[stage, microbatch, producer] = (self._side_outputs[producer, stage].empty(self._device),)
            return found
        tensors = tuple(shape.empty(self._device) for shape in self._outputs[producer])
        for reader in self._plan.execution.consumers(producer, microbatch):
            if self._plan.receiver(producer, reader, microbatch) == stage:
                self._activations[reader, microbatch, producer] = tensors
        return tensors

    def receive_gradients(self, stage: int, microbatch: int, reader: int) -> Tensors:
        shapes = self._outputs[stage]
        tensors = tuple(shape.empty(self._device) if shape.has_gradient else None for shape in shapes)
        self._gradients[stage, microbatch, reader] = tensors
        return tensors

    def receive_saved(self, stage: int) -> Any:
        """For activations that another rank lends, or gives back."""
        return torch.empty(self._saved[stage], dtype=torch.uint8, device=self._device)

    def check_saved(self, stage: int, flat: Any) -> Any:
        """Raises Error where a forward saves more or less with data than without."""
        if flat.numel() != self._saved[stage]:
            raise Error(f"stage {stage} saves another number of bytes with data than without, so it cannot be lent",
                        found=str(flat.numel()), expected=str(self._saved[stage]))
        return flat

    def losses(self) -> dict[int, Any]:
        return dict(sorted(self._losses.items()))

    def results(self) -> dict[int, Any]:
        return dict(sorted(self._results.items()))

    def _on_device(self, microbatch: int) -> Tensors:
        assert self._inputs is not None
        return tuple(item.to(self._device, non_blocking=True) for item in self._inputs[microbatch])

    def _cut(self, value: Any, name: str, needed: bool) -> list[Tensors] | None:
        count = self._plan.program.microbatches
        if value is None or not needed:
            if needed:
                raise Error(f"step needs {name} on rank {self._plan.rank}", expected=f"{count} microbatches")
            return None
        if isinstance(value, torch.Tensor):
            if not value.dim() or not value.shape[0] or value.shape[0] % count:
                raise Error(f"{name} cannot be cut into microbatches of one size", found=f"shape {tuple(value.shape)}",
                            expected=f"a multiple of {count} rows")
            return [(piece,) for piece in value.chunk(count)]
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise Error(f"{name} is no batch", found=type(value).__name__,
                        expected=f"a tensor, or a list of {count} microbatches")
        if len(value) != count:
            raise Error(f"{name} of another number of microbatches", found=str(len(value)), expected=str(count))
        return [tensors_of(item, f"{name}[{number}]") for number, item in enumerate(value)]

    def _check_alike(self, inputs: Sequence[Tensors]) -> None:
        for number, item in enumerate(inputs):
            if shapes_of(item) != shapes_of(inputs[0]):
                raise Error(f"microbatch {number} has other shapes than microbatch 0", found=str(shapes_of(item)),
                            expected=str(shapes_of(inputs[0])))

    def _check_as_before(self, shapes: tuple[Shape, ...]) -> None:
        """Other ranks know the shapes of the first step."""
        self._first_inputs = self._first_inputs or shapes
        if shapes != self._first_inputs:
            raise Error("microbatches have other shapes than in the first step", found=str(shapes),
                        expected=f"{self._first_inputs}, or drop_last=True where a last batch is smaller")

    def _shapes_of(self, stage: int, known: dict[int, tuple[Shape, ...]]) -> tuple[tuple[Shape, ...], int]:
        inputs = [shape for feeder in self._plan.feeders(stage) for shape in self._main(feeder, known)]
        if not self._plan.feeders(stage):
            assert self._inputs is not None
            inputs += shapes_of(self._inputs[0])
        for feeder in self._plan.side_feeders(stage):
            place = self._plan.side_readers(feeder).index(stage)
            inputs.append(known[feeder][len(self._main(feeder, known)) + place])
        return shapes_behind(self._stages[stage], inputs)

    def _main(self, stage: int, known: dict[int, tuple[Shape, ...]]) -> tuple[Shape, ...]:
        """Shapes of the outputs that are no side edge's."""
        return known[stage][: len(known[stage]) - len(self._plan.side_readers(stage))]


def _to_json(shapes: Sequence[Shape], saved: int) -> str:
    return json.dumps([[[list(shape.size), str(shape.dtype).removeprefix("torch.")] for shape in shapes], saved])


def _from_json(text: bytes) -> tuple[tuple[Shape, ...], int]:
    shapes, saved = json.loads(text)
    return tuple(Shape(tuple(size), getattr(torch, dtype)) for size, dtype in shapes), int(saved)
