"""Jaxprs as lists of equations: how they are evaluated, flattened and sliced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.extend.core import Literal, jaxprs_in_params
from jax.extend.core.primitives import jit_p

from ppsim.errors import Error

#: A variable of a jaxpr, or a literal.
Atom = Any
Var = Any
Equation = Any


def evaluate(equations: Iterable[Equation], environment: dict[Var, Any]) -> None:
    """Adds what the equations give. Functions under jit are evaluated equation by equation, too."""
    for equation in equations:
        values = [value_of(atom, environment) for atom in equation.invars]
        if equation.primitive is jit_p:
            found = _evaluate_closed(equation.params["jaxpr"], values)
        else:
            parameters = equation.primitive.get_bind_params(equation.params)
            functions: Sequence[Any] = ()
            if isinstance(parameters, tuple):  # before JAX 0.10
                functions, parameters = parameters
            with equation.ctx.manager:
                result = equation.primitive.bind(*functions, *values, **parameters)
            found = result if equation.primitive.multiple_results else [result]
        environment.update(zip(equation.outvars, found, strict=True))


def value_of(atom: Atom, environment: Mapping[Var, Any]) -> Any:
    return atom.val if isinstance(atom, Literal) else environment[atom]


def _evaluate_closed(closed: Any, values: Sequence[Any]) -> list[Any]:
    environment = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    environment.update(zip(closed.jaxpr.invars, values, strict=True))
    evaluate(closed.jaxpr.eqns, environment)
    return [value_of(atom, environment) for atom in closed.jaxpr.outvars]


@dataclass
class Trace:
    """A function as equations, in the order in which it was written; nothing in it is under jit."""

    inputs: list[Var]
    outputs: list[Atom]
    equations: list[Equation]
    constants: dict[Var, Any]


def traced(function: Callable[..., Sequence[Any]], shapes: Sequence[Any]) -> Trace:
    """function: of flat arguments; shapes: anything with shape and dtype."""
    specs = [jax.ShapeDtypeStruct(shape.shape, shape.dtype) for shape in shapes]
    closed = jax.make_jaxpr(function)(*specs)
    flat = jax.make_jaxpr(lambda *values: _evaluate_closed(closed, values))(*specs)
    constants = dict(zip(flat.jaxpr.constvars, flat.consts, strict=True))
    return Trace(flat.jaxpr.invars, flat.jaxpr.outvars, flat.jaxpr.eqns, constants)


def is_inside(primitive: Any, equation: Equation) -> bool:
    """Whether a primitive occurs in a function that an equation calls, such as the body of a scan."""
    return any(_occurs(primitive, jaxpr) for jaxpr in jaxprs_in_params(equation.params))


def _occurs(primitive: Any, jaxpr: Any) -> bool:
    return any(one.primitive is primitive or is_inside(primitive, one) for one in jaxpr.eqns)


def refuse_effects(equations: Iterable[Equation], stage: int) -> None:
    """Raises Error for what does more than compute its results: slices of equations would lose or repeat it."""
    for equation in equations:
        if equation.effects:
            raise Error(f"stage {stage} has an effect, which a stage cut into forward and backward would lose or repeat",
                        code="refused", found=equation.primitive.name,
                        expected="no printing, io_callback, checks or references: return the values among the outputs")


def ancestors(
    equations: Sequence[Equation], targets: Iterable[Atom], included: Callable[[Equation], bool]
) -> tuple[list[Equation], list[Var]]:
    """Those of the included equations that the targets need, and the variables that come from elsewhere, in order."""
    needed = {atom: None for atom in targets if not isinstance(atom, Literal)}
    chosen = []
    for equation in reversed(equations):
        if included(equation) and any(var in needed for var in equation.outvars):
            chosen.append(equation)
            needed.update((atom, None) for atom in equation.invars if not isinstance(atom, Literal))
    chosen.reverse()
    made = {var for equation in chosen for var in equation.outvars}
    return chosen, [var for var in needed if var not in made]


def describe(aval: Any) -> str:
    """An array in words: float32[4,8]."""
    return f"{aval.dtype}[{','.join(str(size) for size in aval.shape)}]"
