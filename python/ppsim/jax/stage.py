"""A stage on its device: compiled forward and backward, and what each microbatch keeps from one to the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ppsim.jax.equations import Atom, Var
from ppsim.jax.pieces import Piece, Pieces

Arrays = list[Any]


class Stage:
    """pieces: what it computes; everything is compiled here, for this device.

    trains: whether backwards follow; recomputed: microbatches whose forward is repeated; halved: those with I and W
    """

    def __init__(
        self, number: int, pieces: Pieces, device: Any, *, trains: bool,
        recomputed: frozenset[int] = frozenset(), halved: frozenset[int] = frozenset(), whole: bool = True,
    ) -> None:
        self.number, self.pieces, self.device, self.trains = number, pieces, device, trains
        self.recomputed, self._halved = recomputed, halved
        self.cells: dict[int, dict[Var, Any]] = {}  #: values that are needed later, by microbatch
        wanted = {"F": pieces.forward if trains else pieces.forward_alone}
        wanted |= {"R": pieces.recompute, "checkpoint": pieces.forward_alone} if recomputed else {}
        wanted |= {"B": pieces.backward} if trains and whole else {}
        wanted |= {"I": pieces.backward_input, "W": pieces.backward_weight} if halved else {}
        self._pieces: dict[str, Piece] = wanted
        self._run = {kind: pieces.compiled(piece, device) for kind, piece in wanted.items()}
        self._one = jax.device_put(jnp.ones((), pieces.cotangents[-1].aval.dtype), device) if pieces.has_loss else None

    def forward(self, microbatch: int, parameters: Arrays, inputs: Arrays, batch: Arrays) -> tuple[Arrays, Arrays]:
        """F. Returns outputs and results of the function."""
        pieces = self.pieces
        values = dict(zip([*pieces.parameters, *pieces.inputs, *pieces.batch], [*parameters, *inputs, *batch], strict=True))
        repeated = microbatch in self.recomputed
        self._compute("checkpoint" if repeated else "F", values)
        outputs, results = self._fetched(pieces.outputs, values), self._fetched(pieces.results, values)
        if self.trains:
            self._keep(microbatch, values, [*self._later(microbatch), *(pieces.recompute.reads if repeated else ())])
        return outputs, results

    def recompute(self, microbatch: int) -> Arrays:
        """R. Returns what it has saved."""
        values = self.cells[microbatch]
        self._compute("R", values)
        self._keep(microbatch, values, self._later(microbatch))
        return [values[var] for var in self.pieces.saved]

    def backward(self, microbatch: int, gradients: Arrays) -> tuple[Arrays, Arrays]:
        """B. gradients: of the differentiable outputs. Returns those of the parameters and of the inputs."""
        values = self._with_gradients(self.cells.pop(microbatch), gradients)
        self._compute("B", values)
        pieces = self.pieces
        return self._fetched(pieces.weight_gradients, values), self._fetched(pieces.input_gradients, values)

    def backward_input(self, microbatch: int, gradients: Arrays) -> Arrays:
        """I. Returns the gradients of the inputs; a first stage has none, and its W does all."""
        values = self._with_gradients(self.cells[microbatch], gradients)
        self._compute("I", values)
        found = self._fetched(self.pieces.input_gradients, values)
        self._keep(microbatch, values, self.pieces.backward_weight.reads)
        return found

    def backward_weight(self, microbatch: int) -> Arrays:
        """W. Returns the gradients of the parameters."""
        values = self.cells.pop(microbatch)
        self._compute("W", values)
        return self._fetched(self.pieces.weight_gradients, values)

    def take_saved(self, microbatch: int) -> Arrays:
        """Takes out the tensors that the forward saved for the backward, for OFFLOAD and SEND_A."""
        values = self.cells[microbatch]
        return [values.pop(var) for var in self.pieces.saved]

    def put_saved(self, microbatch: int, saved: Sequence[Any]) -> None:
        self.cells[microbatch].update(zip(self.pieces.saved, saved, strict=True))

    def _later(self, microbatch: int) -> list[Var]:
        """The tensors that backwards read."""
        if microbatch not in self._halved:
            return self.pieces.backward.reads
        return [*self.pieces.backward_input.reads, *self.pieces.backward_weight.reads]

    def _with_gradients(self, values: dict[Var, Any], gradients: Arrays) -> dict[Var, Any]:
        values.update(zip(self.pieces.cotangents, [*gradients, *([self._one] if self.pieces.has_loss else [])], strict=True))
        return values

    def _compute(self, kind: str, values: dict[Var, Any]) -> None:
        piece = self._pieces[kind]
        found = self._run[kind](*(values[var] for var in piece.reads))
        values.update(zip(piece.writes, found, strict=True))

    def _keep(self, microbatch: int, values: dict[Var, Any], needed: Iterable[Var]) -> None:
        self.cells[microbatch] = {var: values[var] for var in needed if var in values}

    def _fetched(self, atoms: Sequence[Atom], values: dict[Var, Any]) -> Arrays:
        return [self.pieces.fetch(atom, values, self.device) for atom in atoms]
