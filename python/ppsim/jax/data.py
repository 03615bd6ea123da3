"""Data between stages: batches, activations, gradients, and the function's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ppsim.errors import Error
from ppsim.jax.equations import describe
from ppsim.jax.layout import Layout
from ppsim.jax.split import Split, shape_of
from ppsim.jax.stage import Arrays, Stage

#: (stage, microbatch, stage at the other end)
Edge = tuple[int, int, int]
#: Values by their number among the outputs of the stage that made them.
Numbered = dict[int, Any]


class Data:
    """Arrays that wait for their readers. What depends on whom is the Program's business: nothing here waits."""

    def __init__(self, layout: Layout, stages: dict[int, Stage], devices: list[Any]) -> None:
        self._layout, self._stages, self._devices = layout, stages, devices
        self._execution = layout.plan.execution
        self._microbatches: list[Arrays] = []
        self._loaded: dict[tuple[int, int], Arrays] = {}
        self._activations: dict[Edge, Numbered] = {}  #: by reader, microbatch and producer
        self._gradients: dict[Edge, Numbered] = {}  #: by producer, microbatch and reader
        self._sent: dict[Edge, Numbered] = {}  #: for other ranks, by producer, microbatch and reader
        self._returned: dict[Edge, Numbered] = {}  #: gradients for other ranks, by reader, microbatch and producer
        self.lent: dict[tuple[int, int], Arrays] = {}  #: of other ranks' stages
        self.host: dict[tuple[int, int], list[Any]] = {}
        self.results: dict[int, dict[int, Any]] = {}  #: of the function, by number and microbatch

    def begin(self, microbatches: list[Arrays]) -> None:
        """Of a step."""
        self.clear()
        self._microbatches = microbatches
        self.results = {}

    def clear(self) -> None:
        """Removes the data of a step that failed."""
        for flow in (self._loaded, self._activations, self._gradients, self._sent, self._returned, self.lent, self.host):
            flow.clear()

    @property
    def empty(self) -> bool:
        """Whether every value has found its reader."""
        flows = (self._loaded, self._activations, self._gradients, self._sent, self._returned, self.lent, self.host)
        return not any(flows)

    def load(self, stage: int, microbatch: int) -> Arrays:
        """LOAD."""
        self._loaded[stage, microbatch] = self._on_device(stage, microbatch)
        return self._loaded[stage, microbatch]

    def batch(self, stage: int, microbatch: int) -> Arrays:
        loaded = self._loaded.pop((stage, microbatch), None)
        return self._on_device(stage, microbatch) if loaded is None else loaded

    def inputs(self, stage: int, microbatch: int) -> Arrays:
        parts = self._layout.parts
        found = {
            (parts[producer], number): value
            for producer in self._feeders(stage, microbatch)
            for number, value in self._activations.pop((stage, microbatch, producer)).items()
        }
        return [found[source] for source in self._layout.split.parts[parts[stage]].inputs]

    def _feeders(self, stage: int, microbatch: int) -> list[int]:
        """Along edges and side edges."""
        return [*self._execution.producers(stage, microbatch), *self._layout.plan.side_feeders(stage)]

    def hand_over(self, stage: int, microbatch: int, outputs: Arrays, results: Arrays) -> None:
        """After F."""
        parts, every = self._layout.parts, self._layout.split.parts
        beside = self._layout.plan.side_readers(stage)
        for reader in [*self._execution.consumers(stage, microbatch), *beside]:
            values = {number: outputs[number] for number in every[parts[reader]].reads(parts[stage])}
            if self._layout.rank(reader) == self._layout.rank(stage):
                self._activations[reader, microbatch, stage] = values
            else:
                receiver = reader if reader in beside else self._layout.plan.receiver(stage, reader, microbatch)
                self._sent.setdefault((stage, microbatch, receiver), {}).update(values)
        for number, value in zip(every[parts[stage]].results, results, strict=True):
            self.results.setdefault(number, {})[microbatch] = value

    def hand_back(self, stage: int, microbatch: int, gradients: Arrays) -> None:
        """After B or I: each producer gets those of what it gave."""
        parts = self._layout.parts
        sources = self._layout.split.parts[parts[stage]].inputs
        trained = self._stages[stage].pieces.trained_inputs
        by_source = {sources[place]: value for place, value in zip(trained, gradients, strict=True)}
        for producer in self._execution.producers(stage, microbatch):
            values = {number: value for (part, number), value in by_source.items() if part == parts[producer]}
            if self._layout.rank(producer) == self._layout.rank(stage):
                self._gradients[producer, microbatch, stage] = values
            else:
                self._returned[stage, microbatch, producer] = values

    def output_gradients(self, stage: int, microbatch: int) -> Arrays:
        """Of each output that has one: the sum over its readers, the lowest first."""
        total: Numbered = {}
        for reader in self._execution.consumers(stage, microbatch):
            for number, value in self._gradients.pop((stage, microbatch, reader)).items():
                total[number] = total[number] + value if number in total else value
        return [total[number] for number in self._stages[stage].pieces.differentiable]

    def outgoing(self, kind: str, stage: int, microbatch: int, peer: int) -> Arrays:
        """The data that a SEND_F takes to a reader, or a SEND_B to a producer."""
        flow = self._sent if kind == "SEND_F" else self._returned
        values = flow.pop((stage, microbatch, peer))
        return [values[number] for number in sorted(values)]

    def incoming(self, kind: str, stage: int, microbatch: int, peer: int, values: Arrays) -> None:
        """The other end, RECV_F or RECV_B."""
        numbers = self._layout.crossing(*((peer, stage) if kind == "RECV_F" else (stage, peer)), kind == "RECV_B")
        received = dict(zip(numbers, values, strict=True))
        if kind == "RECV_B":
            self._gradients[stage, microbatch, peer] = received
            return
        parts, every = self._layout.parts, self._layout.split.parts
        for reader in self._layout.readers(peer, stage):
            wanted = every[parts[reader]].reads(parts[peer])
            self._activations[reader, microbatch, peer] = {number: received[number] for number in wanted}

    def _on_device(self, stage: int, microbatch: int) -> Arrays:
        numbers = self._layout.split.parts[self._layout.parts[stage]].batch
        device = self._devices[self._layout.rank(stage)]
        return [jax.device_put(self._microbatches[microbatch][number], device) for number in numbers]


def cut_batch(batch: Any, microbatches: int) -> tuple[list[Arrays], Any]:
    """Leaves of each microbatch, cut along their first dimension, and their tree. Raises Error where that is not
    possible."""
    if microbatches < 1:
        raise Error("a batch has microbatches", found=str(microbatches), expected="1 or more")
    paths, tree = jax.tree_util.tree_flatten_with_path(batch)
    result: list[Arrays] = [[] for _ in range(microbatches)]
    for path, leaf in paths:
        shape = shape_of(leaf).shape
        if not shape or shape[0] % microbatches or not shape[0]:
            where = jax.tree_util.keystr(path) or "the batch"
            raise Error(f"{where} cannot be cut into microbatches of one size along its first dimension",
                        found=f"shape {shape}", expected=f"a multiple of {microbatches} rows, for {microbatches} microbatches")
        rows, cut = shape[0] // microbatches, _slicer(leaf)
        for number in range(microbatches):
            result[number].append(cut(number * rows, (number + 1) * rows))
    return result, tree


def _slicer(leaf: Any) -> Callable[[int, int], Any]:
    """Without a copy where the leaf has values that NumPy knows."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return lambda begin, end: jax.ShapeDtypeStruct((end - begin, *leaf.shape[1:]), leaf.dtype)
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        return lambda begin, end: leaf[begin:end]
    values = np.asarray(leaf)
    return lambda begin, end: values[begin:end]


def check_batch(batch: list[Arrays], tree: Any, split: Split) -> None:
    """Raises Error where a step gets other arrays than the runtime was made for."""
    if tree != split.batch_tree:
        raise Error("the batch has another structure than the example", found=str(tree), expected=str(split.batch_tree))
    for number, (leaf, shape) in enumerate(zip(batch[0], split.batch, strict=True)):
        found = shape_of(leaf)
        if found.shape != shape.shape or found.dtype != shape.dtype:
            raise Error(f"array {number} of a microbatch is another than in the example",
                        found=describe(found), expected=describe(shape))
