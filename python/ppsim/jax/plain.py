"""A step without a pipeline, for comparison."""

from __future__ import annotations

from typing import Any

import jax

from ppsim.arguments import checked
from ppsim.errors import Error
from ppsim.jax.data import cut_batch
from ppsim.jax.outputs import Outputs, combined, ways_of
from ppsim.jax.split import LossFunction


@checked
def plain_step(
    loss_function: LossFunction, params: Any, batch: Any, *, microbatches: int, loss: str = "mean", outputs: Outputs = "concat"
) -> tuple[Any, Any, Any]:
    """`jax.grad` of the undivided function, microbatch after microbatch: loss, gradients and outputs of a step.

    The arguments are those of Runtime and its step. Gradients are added up in ascending order.
    """
    check_loss_way(loss)
    pieces, tree = cut_batch(batch, microbatches)
    gradient = jax.jit(jax.value_and_grad(lambda *given: _with_outputs(loss_function(*given)), has_aux=True))
    found = [gradient(params, jax.tree.unflatten(tree, piece)) for piece in pieces]
    total = found[0][1]
    for _, one in found[1:]:
        total = jax.tree.map(lambda a, b: a + b, total, one)
    if loss == "mean":
        total = jax.tree.map(lambda value: value / microbatches, total)
    losses = {number: value for number, ((value, _), _) in enumerate(found)}
    leaves = [jax.tree.leaves(others) for (_, others), _ in found]
    shape = jax.tree.structure(found[0][0][1])
    ways = ways_of(outputs, shape)
    results = [combined(way, {m: one[place] for m, one in enumerate(leaves)}) for place, way in enumerate(ways)]
    return combined(loss, losses), total, jax.tree.unflatten(shape, results)


def check_loss_way(loss: str) -> None:
    if loss not in ("mean", "add"):
        raise Error("no way to combine losses", found=repr(loss), expected="mean, add")


def _with_outputs(found: Any) -> tuple[Any, Any]:
    return found if isinstance(found, tuple) and len(found) == 2 else (found, None)
