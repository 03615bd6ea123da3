"""How results of microbatches become those of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ppsim.errors import Error

#: "concat", "add", "mean" or "max", or a pytree of these that begins like the function's outputs
Outputs = Any
WAYS = ("concat", "add", "mean", "max")


def ways_of(outputs: Outputs, tree: Any) -> list[str]:
    """One for each result but the loss. Raises Error."""
    try:
        found: list[str] = jax.tree.leaves(jax.tree.map(lambda way, part: jax.tree.map(lambda _: way, part), outputs, _example(tree)))
    except (ValueError, TypeError) as wrong:
        raise Error("outputs= has another structure than what the function returns beside the loss",
                    found=str(jax.tree.structure(outputs)), expected=str(tree)) from wrong
    for way in found:
        if way not in WAYS:
            raise Error("no way to combine outputs", found=repr(way), expected=", ".join(WAYS))
    return found


def _example(tree: Any) -> Any:
    return jax.tree.unflatten(tree, [0] * tree.num_leaves)


def combined(way: str, values: Mapping[int, Any]) -> Any:
    """values: by microbatch. Concatenated along the first dimension; numbers become an array."""
    every = [values[number] for number in sorted(values)]
    every = [jax.device_put(value, next(iter(every[0].devices()))) for value in every]
    if way == "concat":
        return jnp.concatenate(every) if every[0].ndim else jnp.stack(every)
    total = every[0]
    for value in every[1:]:
        total = jnp.maximum(total, value) if way == "max" else total + value
    return total / len(every) if way == "mean" else total
