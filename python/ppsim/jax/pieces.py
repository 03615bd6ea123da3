"""A stage's forward and backward as separate computations, and what each leaves for the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jax.sharding import SingleDeviceSharding

from ppsim.jax.equations import Atom, Equation, Trace, Var, ancestors, evaluate, refuse_effects, traced, value_of
from ppsim.jax.split import Part, Split, has_gradient, shape_of


@dataclass
class Piece:
    """Equations with the values that they read and give."""

    equations: list[Equation]
    reads: list[Var]
    writes: list[Var]


class Pieces:
    """Forward and backward of a stage in one list of equations, sliced by what depends on what.

    forward: reads parameters, inputs and batch; backward: what it needs of them, what `forward` has saved, and the
    gradients of outputs; backward_input and backward_weight: its halves. The second has all that the first does not
    need, and reads what both do from the first. What depends on parameters alone is computed where it is needed.
    """

    def __init__(self, part: Part, split: Split) -> None:
        self.part = part
        parameters = [split.parameters[number] for number in part.parameters]
        inputs = [split.parts[stage].outputs[number] for stage, number in part.inputs]
        batch = [split.batch[number] for number in part.batch]
        results = [split.results[number] for number in part.results]
        self.has_loss = 0 in part.results
        #: Places of the outputs, and of the inputs, that have gradients.
        self.differentiable = [place for place, shape in enumerate(part.outputs) if has_gradient(shape)]
        self.trained_inputs = [place for place, shape in enumerate(inputs) if has_gradient(shape)]
        cotangents = [part.outputs[place] for place in self.differentiable]
        cotangents += [results[part.results.index(0)]] if self.has_loss else []
        counts = [len(parameters), len(inputs), len(batch), len(cotangents)]
        self._trace = traced(self._joint(counts), [*parameters, *inputs, *batch, *cotangents])
        refuse_effects(self._trace.equations, part.number)  # of gradients that the function defines
        groups = _cut(self._trace.inputs, counts)
        self.parameters, self.inputs, self.batch, self.cotangents = groups
        counts = [len(part.outputs), len(results), len(parameters), len(self.trained_inputs)]
        self.outputs, self.results, self.weight_gradients, self.input_gradients = _cut(self._trace.outputs, counts)
        self._slice()

    def _joint(self, counts: Sequence[int]) -> Any:
        """(parameters, inputs, batch, gradients of outputs) -> outputs, results and all gradients."""
        compute = self.part.compute

        def joint(*values: Any) -> list[Any]:
            parameters, inputs, batch, cotangents = _cut(values, counts)

            def forward(parameters: Any, trained: Any) -> Any:
                given = list(inputs)
                for place, value in zip(self.trained_inputs, trained, strict=True):
                    given[place] = value
                outputs, results = compute(parameters, given, batch)
                roots = [outputs[place] for place in self.differentiable]
                roots += [results[self.part.results.index(0)]] if self.has_loss else []
                return roots, (outputs, results)

            trained = [inputs[place] for place in self.trained_inputs]
            _, back, (outputs, results) = jax.vjp(forward, parameters, trained, has_aux=True)
            of_parameters, of_inputs = back(list(cotangents))
            return [*outputs, *results, *of_parameters, *of_inputs]

        return joint

    def _slice(self) -> None:
        equations = self._trace.equations
        backwards = _reached(equations, self.cotangents)
        data = _reached(equations, [*self.inputs, *self.batch])

        def is_backward(equation: Equation) -> bool:
            return any(var in backwards for var in equation.outvars)

        def is_free(equation: Equation) -> bool:
            return not any(var in data or var in backwards for var in equation.outvars)

        def is_late(equation: Equation) -> bool:
            return is_backward(equation) or is_free(equation)

        gradients = [*self.weight_gradients, *self.input_gradients]
        self.backward = self._piece(*ancestors(equations, gradients, is_late), gradients)
        of_inputs, read = ancestors(equations, self.input_gradients, is_late)
        first = {id(equation) for equation in of_inputs if is_backward(equation)}
        of_weights, left = ancestors(
            equations, self.weight_gradients, lambda e: is_late(e) and id(e) not in first
        )
        made = {var for equation in of_inputs if id(equation) in first for var in equation.outvars}
        self.between = [var for var in left if var in made]
        self.backward_input = self._piece(of_inputs, read, [*self.input_gradients, *self.between])
        self.backward_weight = self._piece(of_weights, left, self.weight_gradients)
        forward = {var for equation in equations if not is_late(equation) for var in equation.outvars}
        needed = dict.fromkeys([*self.backward.reads, *self.backward_input.reads, *self.backward_weight.reads])
        self.saved = [var for var in needed if var in forward]
        outputs = [*self.outputs, *self.results]
        self.forward_alone = self._forward(outputs)
        self.forward = self._forward([*outputs, *self.saved])
        self.recompute = self._forward(self.saved)

    def _forward(self, wanted: list[Atom]) -> Piece:
        return self._piece(*ancestors(self._trace.equations, wanted, lambda _: True), wanted)

    def _piece(self, equations: list[Equation], reads: list[Var], wanted: Sequence[Atom]) -> Piece:
        """Variables that are used and not made here are inputs."""
        made = {var for equation in equations for var in equation.outvars}
        variables = dict.fromkeys(atom for atom in wanted if not isinstance(atom, Literal))
        reads = [var for var in reads if var not in self._trace.constants]
        return Piece(equations, reads, [var for var in variables if var in made])

    def compiled(self, piece: Piece, device: Any) -> Any:
        """A function of what the piece reads, on a device. It does nothing where there is nothing to compute."""
        if not piece.writes:
            return lambda *_: ()

        def run(*values: Any) -> list[Any]:
            environment = dict(self._trace.constants)
            environment.update(zip(piece.reads, values, strict=True))
            evaluate(piece.equations, environment)
            return [environment[var] for var in piece.writes]

        sharding = SingleDeviceSharding(device)
        shapes = [shape_of(var.aval) for var in piece.reads]
        return jax.jit(run, in_shardings=sharding, out_shardings=sharding).lower(*shapes).compile()

    def fetch(self, atom: Atom, values: dict[Var, Any], device: Any) -> Any:
        """A value of a cell, or what the trace knows of it."""
        if isinstance(atom, Literal):
            return jax.device_put(jnp.asarray(atom.val, atom.aval.dtype), device)
        found = values.get(atom)
        return jax.device_put(value_of(atom, self._trace.constants), device) if found is None else found

    @property
    def trace(self) -> Trace:
        return self._trace


def _cut(values: Sequence[Any], counts: Sequence[int]) -> list[list[Any]]:
    groups, at = [], 0
    for count in counts:
        groups.append(list(values[at : at + count]))
        at += count
    return groups


def _reached(equations: Sequence[Equation], sources: Sequence[Var]) -> set[Var]:
    """The sources and all that is computed from them."""
    found = set(sources)
    for equation in equations:
        if any(not isinstance(atom, Literal) and atom in found for atom in equation.invars):
            found.update(equation.outvars)
    return found
