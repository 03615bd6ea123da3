"""Where one stage of a function ends and the next one begins."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ppsim.errors import Error

enter_stage_p = Primitive("ppsim_enter_stage")
enter_stage_p.multiple_results = True


def enter_stage(values: Any) -> Any:
    """The same values; what is computed after this call belongs to the next stage.

    values: what crosses the boundary, an array or a pytree of arrays
    `jax.grad`, `jax.jit`, `jax.vmap` and `jax.remat` of a function with markers give what they give without; XLA
    fuses nothing across a marker. Raises Error for a pytree without arrays.
    """
    leaves, tree = jax.tree.flatten(values)
    if not leaves:
        raise Error("enter_stage needs what crosses the boundary", found="a pytree without arrays", expected="an array")
    arrays = [leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf) for leaf in leaves]
    return jax.tree.unflatten(tree, enter_stage_p.bind(*arrays))


def _only_some(function: Any, values: list[Any], nothing: type) -> list[Any]:
    """Applied to those that are something; the others stay as they are."""
    some = [value for value in values if type(value) is not nothing]
    found = iter(function(*some) if some else [])
    return [value if type(value) is nothing else next(found) for value in values]


def _jvp(primals: list[Any], tangents: list[Any]) -> tuple[list[Any], list[Any]]:
    return enter_stage_p.bind(*primals), _only_some(enter_stage_p.bind, list(tangents), ad.Zero)


def _transpose(cotangents: list[Any], *_: Any) -> list[Any]:
    return _only_some(enter_stage_p.bind, list(cotangents), ad.Zero)


def _batch(values: list[Any], dimensions: list[Any]) -> tuple[list[Any], list[Any]]:
    return enter_stage_p.bind(*values), dimensions


enter_stage_p.def_impl(lambda *values: list(values))
enter_stage_p.def_abstract_eval(lambda *avals: list(avals))
ad.primitive_jvps[enter_stage_p] = _jvp
ad.primitive_transposes[enter_stage_p] = _transpose
batching.primitive_batchers[enter_stage_p] = _batch
mlir.register_lowering(
    enter_stage_p, mlir.lower_fun(lambda *values: jax.lax.optimization_barrier(values), multiple_results=True)
)
