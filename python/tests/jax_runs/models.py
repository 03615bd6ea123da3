"""Small functions cut into stages, and programs for them."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ppsim
import ppsim.jax
from ppsim._native import _core
from ppsim.execution import Plan
from ppsim.jax import TRANSPORT, enter_stage
from ppsim.jax.layout import _places

WIDTH, ROWS = 4, 3
#: Of the functions below, beside their loss.
OUTPUTS = {"values": "concat", "largest": "max", "squares": "add"}
#: Passes that every lowering here adds.
ADDED = ["reduce-grad"]
#: Schedules that functions cannot run.
REFUSED = ("vocab-1", "vocab-2", "spmd-gpipe", "spmd-circular")


def program_of(name: str, ranks: int, microbatches: int, lowering: Any = None, **settings: Any) -> ppsim.Program:
    schedule = ppsim.generate(name, ranks=ranks, microbatches=microbatches, **settings)
    return ppsim.lower(schedule, **{"with_": ADDED, **(lowering or {})})


def proved(program: ppsim.Program) -> Any:
    return ppsim.check(program, transport=TRANSPORT)


def parts_of(program: ppsim.Program) -> int:
    """How many stages a function needs."""
    return max(_places(Plan(program, 0, "in-process"))) + 1


def layers(count: int, dtype: Any = np.float64) -> list[dict[str, Any]]:
    rng = np.random.default_rng(count)
    shapes = {"matrix": (WIDTH, WIDTH), "bias": (WIDTH,)}
    return [{name: jnp.asarray(rng.normal(size=shape) / 2, dtype) for name, shape in shapes.items()} for _ in range(count)]


def batch(microbatches: int, step: int = 0, dtype: Any = np.float64) -> dict[str, Any]:
    rng = np.random.default_rng(step)
    return {name: rng.normal(size=(microbatches * ROWS, WIDTH)).astype(dtype) for name in ("x", "target")}


def layer(params: Any, x: Any) -> Any:
    return x + jnp.tanh(x @ params["matrix"] + params["bias"])


def finish(x: Any, target: Any) -> Any:
    error = x - target
    return (error * error).mean(), {"values": x, "largest": jnp.abs(x).max(), "squares": (x * x).sum()}


def chain(params: Any, batch: Any) -> Any:
    """A stage for each layer."""
    x = batch["x"]
    for number, one in enumerate(params):
        x = layer(one, enter_stage(x) if number else x)
    return finish(x, batch["target"])


def tied(params: Any, batch: Any) -> Any:
    """The first matrix is used in the last stage, too."""
    x = batch["x"] @ params["table"]
    for number, one in enumerate(params["layers"]):
        x = layer(one, enter_stage(x) if number else x)
    return finish(x @ params["table"].T, batch["target"])


def tied_params(count: int) -> Any:
    return {"table": jnp.asarray(np.random.default_rng(9).normal(size=(WIDTH, WIDTH))), "layers": layers(count)}


def skipping(params: Any, batch: Any, edges: Any) -> Any:
    """edges: (from, to) beside the chain; what several stages give is added up."""
    x, given = batch["x"], {}
    for number, one in enumerate(params):
        x = enter_stage(x) if number else x
        for source, target in edges:
            x = x + given[source] if target == number else x
        given[number] = x = layer(one, x)
    return finish(x, batch["target"])


def skip_of(edges: Any) -> Any:
    return functools.partial(skipping, edges=edges)


def sgd(params: Any, gradients: Any) -> Any:
    return {name: params[name] - 0.1 * gradients[name] for name in params}


class Momentum:
    """As optax has them."""

    def init(self, params: Any) -> Any:
        return jax.tree.map(jnp.zeros_like, params)

    def update(self, gradients: Any, state: Any, params: Any) -> Any:
        state = jax.tree.map(lambda s, g: 0.9 * s + g, state, gradients)
        return jax.tree.map(lambda s: -0.1 * s, state), state


def plain_gradients(params: Any, microbatches: int) -> Any:
    return ppsim.jax.plain_step(chain, params, batch(microbatches), microbatches=microbatches, outputs=OUTPUTS)[1]


def differences(found: Any, expected: Any) -> tuple[bool, float]:
    """Whether all bits are equal, and the largest difference relative to the largest value of an array."""
    equal, worst = True, 0.0
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype
        equal &= bool((a == b).all())
        worst = max(worst, float(np.abs(a - b).max()) / max(float(np.abs(b).max()), 1e-30))
    return equal, worst


def trained(program: ppsim.Program, steps: int, optimizer: Any) -> list[Any]:
    """The parameters after some steps without a pipeline, by the versions that the program says."""
    execution = _core.Execution(program, "in-process")
    places, params = _places(Plan(program, 0, "in-process")), layers(parts_of(program))
    part_stage = {part: stage for stage, part in reversed(list(enumerate(places)))}
    gradient = jax.jit(jax.grad(lambda p, b: chain(p, b)[0]))
    state = [optimizer.init(one) for one in params] if hasattr(optimizer, "init") else None
    for step in range(steps):
        data, versions, sums = batch(program.microbatches, step), [params], {}
        for microbatch in range(program.microbatches):
            rows = slice(microbatch * ROWS, (microbatch + 1) * ROWS)
            wanted = [execution.version(part_stage[p], microbatch) if execution.asynchronous else 0
                      for p in range(len(params))]
            while len(versions) <= max(wanted):
                versions.append(_updated(versions[-1], sums[len(versions) - 1], execution.updates, len(versions) - 1, optimizer, state))
            used = [versions[version][part] for part, version in enumerate(wanted)]
            found = gradient(used, {name: value[rows] for name, value in data.items()})
            update = execution.updates[microbatch]
            sums[update] = found if update not in sums else jax.tree.map(jnp.add, sums[update], found)
        while len(versions) <= max(execution.updates) + 1:
            last = len(versions) - 1
            versions.append(_updated(versions[-1], sums[last], execution.updates, last, optimizer, state))
        params = versions[-1]
    return params


def _updated(params: Any, total: Any, updates: Any, number: int, optimizer: Any, state: Any) -> Any:
    result = []
    for place, (one, gradients) in enumerate(zip(params, total, strict=True)):
        gradients = {name: value / updates.count(number) for name, value in gradients.items()}
        if state is None:
            result.append(jax.jit(optimizer)(one, gradients))
            continue
        changes, state[place] = jax.jit(optimizer.update)(gradients, state[place], one)
        result.append({name: one[name] + changes[name] for name in one})
    return result
