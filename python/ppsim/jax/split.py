"""A loss function as stages: what each computes, from which parameters, and what crosses their boundaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from ppsim.errors import Error
from ppsim.jax.equations import Atom, Equation, Trace, Var, ancestors, describe, evaluate, is_inside, refuse_effects, traced, value_of
from ppsim.jax.marker import enter_stage_p

#: (params, batch of one microbatch) -> its loss, or (loss, outputs)
LossFunction = Callable[[Any, Any], Any]
_PARAMETERS, _BATCH = 1, 2
_ACTIVATION = _PARAMETERS | _BATCH


@dataclass
class Part:
    """The computation of one stage for a microbatch.

    parameters, batch: numbers of the leaves that it reads; inputs: (stage, number among its outputs) of what it
    reads of earlier stages; outputs: what later stages read; results: numbers of the function's results
    """

    number: int
    parameters: list[int] = field(default_factory=list)
    batch: list[int] = field(default_factory=list)
    inputs: list[tuple[int, int]] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)  #: shapes
    results: list[int] = field(default_factory=list)
    compute: Callable[..., tuple[list[Any], list[Any]]] = field(default=lambda *_: ([], []))

    def producers(self) -> list[int]:
        return sorted({stage for stage, _ in self.inputs})

    def reads(self, producer: int) -> list[int]:
        """Numbers among a stage's outputs that this one reads."""
        return sorted(number for stage, number in self.inputs if stage == producer)


@dataclass
class Split:
    """A loss function in parts.

    parameters, batch, results: shapes of the flat values; results: the loss first; names: of the parameters
    """

    parts: list[Part]
    parameters: list[Any]
    names: list[str]
    batch: list[Any]
    results: list[Any]
    parameter_tree: Any
    batch_tree: Any
    output_tree: Any

    def users(self, parameter: int) -> list[int]:
        """Stages that read a parameter."""
        return [part.number for part in self.parts if parameter in part.parameters]


def split(function: LossFunction, params: Any, microbatch: Any) -> Split:
    """Traces a loss function once and cuts it at its markers.

    params, microbatch: arrays or their shapes. Raises Error for what is no such function, for parameters without
    gradients, and for markers inside of loops.
    """
    parameters, parameter_tree = jax.tree.flatten(params)
    batch, batch_tree = jax.tree.flatten(microbatch)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
    parameters, batch = [shape_of(leaf) for leaf in parameters], [shape_of(leaf) for leaf in batch]
    _check_parameters(parameters, names)
    trees: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        given = jax.tree.unflatten(parameter_tree, values[: len(parameters)])
        found = function(given, jax.tree.unflatten(batch_tree, values[len(parameters) :]))
        loss, outputs = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        _check_loss(loss)
        leaves, tree = jax.tree.flatten(outputs)
        trees.append(tree)
        return [jnp.asarray(loss), *(jnp.asarray(leaf) for leaf in leaves)]

    trace = traced(flat, [*parameters, *batch])
    parts = _Cut(trace, len(parameters)).parts()
    results = [shape_of(atom.aval) for atom in trace.outputs]
    return Split(parts, parameters, names, batch, results, parameter_tree, batch_tree, trees[0])


def shape_of(value: Any) -> Any:
    """Shape and dtype of an array, a number or a shape, as JAX computes with it: in 32 bits where 64 are not enabled."""
    try:
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            value = jnp.asarray(value)
        return jax.ShapeDtypeStruct(value.shape, jax.dtypes.canonicalize_dtype(value.dtype, allow_extended_dtype=True))
    except TypeError as wrong:
        raise _no_array(value) from wrong


def arrays_of(values: Any) -> Any:
    """A pytree with every leaf as an array of JAX. Raises Error for a leaf that cannot be one."""

    def array(value: Any) -> Any:
        try:
            return jnp.asarray(value)
        except TypeError as wrong:
            raise _no_array(value) from wrong

    return jax.tree.map(array, values)


def _no_array(value: Any) -> Error:
    return Error("a value that JAX has no array for", found=f"{type(value).__name__} {value!r:.60}", expected="numbers, or an array of them")


def has_gradient(shape: Any) -> bool:
    return bool(jnp.issubdtype(shape.dtype, jnp.inexact))


def _check_parameters(parameters: Sequence[Any], names: Sequence[str]) -> None:
    for shape, name in zip(parameters, names, strict=True):
        if not has_gradient(shape):
            raise Error(f"parameter {name} has no gradient", found=describe(shape),
                        expected="floating point; what is not trained belongs to the batch or to the function")


def _check_loss(loss: Any) -> None:
    found = shape_of(loss) if jax.tree.structure(loss) == jax.tree.structure(0) else None
    if found is None or found.shape != () or not has_gradient(found):
        text = str(jax.tree.structure(loss)) if found is None else describe(found)
        raise Error("the function returns no loss", found=text, expected="a number of floating point, or (loss, outputs)")


class _Cut:
    """Equations belong to the stage in which they were written. Those that need parameters alone, or the batch
    alone, are part of every stage that uses them, so that nothing has to be sent for them."""

    def __init__(self, trace: Trace, parameters: int) -> None:
        self._trace = trace
        self._leaves = {var: number for number, var in enumerate(trace.inputs)}
        self._parameters = parameters
        self._sources = {var: _PARAMETERS if number < parameters else _BATCH for var, number in self._leaves.items()}
        self._stage: dict[Var, int] = {}  #: of activations
        self._before: dict[Var, Atom] = {}  #: what a marker was given, by what it gave
        self._equations: list[tuple[Equation, int]] = []
        self._stages = 1
        for equation in trace.equations:
            self._place(equation)
        self._outputs: list[dict[Var, None]] = [{} for _ in range(self._stages)]

    def parts(self) -> list[Part]:
        """From the last one on: what a stage gives depends on what later ones read."""
        results = self._results()
        made = [self._part(stage, results[stage]) for stage in reversed(range(self._stages))][::-1]
        places = [{var: place for place, var in enumerate(outputs)} for outputs in self._outputs]
        for part, sources in made:
            part.inputs = [(stage, places[stage][var]) for stage, var in sources]
        return [part for part, _ in made]

    def _place(self, equation: Equation) -> None:
        if equation.primitive is enter_stage_p:
            for before, after in zip(equation.invars, equation.outvars, strict=True):
                self._before[after], self._stage[after], self._sources[after] = before, self._stages, _ACTIVATION
            self._stages += 1
            return
        if is_inside(enter_stage_p, equation):
            raise Error(f"enter_stage stands inside of {equation.primitive.name}, which cannot be cut",
                        expected="enter_stage between the layers, which a Python loop calls one after another")
        refuse_effects([equation], self._stages - 1)
        sources = 0
        for atom in equation.invars:
            sources |= 0 if isinstance(atom, Literal) else self._sources.get(atom, 0)
        self._equations.append((equation, self._stages - 1))
        for var in equation.outvars:
            self._sources[var] = sources
            if sources == _ACTIVATION:
                self._stage[var] = self._stages - 1

    def _results(self) -> list[list[int]]:
        """Numbers of the function's results, by stage."""
        found: list[list[int]] = [[] for _ in range(self._stages)]
        for number, atom in enumerate(self._trace.outputs):
            last = self._stages - 1
            found[last if isinstance(atom, Literal) else self._stage.get(atom, last)].append(number)
        if 0 not in found[-1]:
            stage = next(stage for stage, numbers in enumerate(found) if 0 in numbers)
            raise Error("the loss does not come from the last stage", found=f"stage {stage} of {self._stages}",
                        expected="no enter_stage after the loss is computed")
        return found

    def _part(self, stage: int, results: list[int]) -> tuple[Part, list[tuple[int, Var]]]:
        outputs = list(self._outputs[stage])
        atoms = [self._trace.outputs[number] for number in results]
        here = [equation for equation, placed in self._equations if self._is_of(equation, placed, stage)]
        chosen, read = ancestors(here, [*outputs, *atoms], lambda _: True)
        part = Part(stage, results=results, outputs=[shape_of(var.aval) for var in outputs])
        leaves, bound, sources = list[Var](), dict[Var, Atom](), list[tuple[int, Var]]()
        for var in read:
            if var in self._leaves:
                leaves.append(var)
            elif var not in self._trace.constants:
                self._bind(var, stage, bound, sources)
        leaves.sort(key=lambda var: self._leaves[var])
        part.parameters = [self._leaves[var] for var in leaves if self._leaves[var] < self._parameters]
        part.batch = [self._leaves[var] - self._parameters for var in leaves if self._leaves[var] >= self._parameters]
        sources.sort(key=lambda source: source[0])
        for producer, var in sources:
            self._outputs[producer][var] = None
        part.compute = self._function(chosen, leaves, bound, sources, [*outputs, *atoms], len(outputs))
        return part, sources

    def _is_of(self, equation: Equation, placed: int, stage: int) -> bool:
        return placed == stage or all(var not in self._stage for var in equation.outvars)

    def _bind(self, var: Var, stage: int, bound: dict[Var, Atom], sources: list[tuple[int, Var]]) -> None:
        """Where an activation comes from: through this stage's marker, or past others' from an earlier stage."""
        through = self._stage[var] == stage
        value = self._before[var] if through else var
        bound[var] = value
        source = (stage - 1 if through else self._stage[var], value)
        if not isinstance(value, Literal) and source not in sources:
            sources.append(source)

    def _function(
        self, equations: list[Equation], leaves: list[Var], bound: dict[Var, Atom], sources: list[tuple[int, Var]],
        wanted: list[Atom], outputs: int,
    ) -> Callable[..., tuple[list[Any], list[Any]]]:
        def compute(parameters: Sequence[Any], inputs: Sequence[Any], batch: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            environment = dict(self._trace.constants)
            environment.update(zip(leaves, [*parameters, *batch], strict=True))
            received = {var: value for (_, var), value in zip(sources, inputs, strict=True)}
            environment.update({var: value_of(value, received) for var, value in bound.items()})
            evaluate(equations, environment)
            found = [jnp.asarray(value_of(atom, environment)) for atom in wanted]
            return found[:outputs], found[outputs:]

        return compute
