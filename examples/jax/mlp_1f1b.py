"""A multilayer perceptron on four ranks under 1F1B: gradients of a step, and an update outside of the pipeline.

    python examples/jax/mlp_1f1b.py
"""

from typing import Any

import jax
import jax.numpy as jnp

import ppsim
import ppsim.jax

RANKS, MICROBATCHES, ROWS, WIDTH, STEPS = 4, 8, 16, 64, 5

jax.config.update("jax_num_cpu_devices", RANKS)  # before JAX is used first


def loss_function(params: Any, batch: Any) -> Any:
    """The mean loss of one microbatch, and what else is wanted of it."""
    x = batch["x"]
    for number, layer in enumerate(params):
        if number:
            x = ppsim.jax.enter_stage(x)  # what follows is the next stage
        x = jax.nn.relu(x @ layer["matrix"] + layer["bias"])
    error = x.sum(-1) - batch["target"]
    return (error**2).mean(), {"predictions": x.sum(-1), "worst": jnp.abs(error).max()}


def main() -> None:
    keys = jax.random.split(jax.random.key(0), RANKS)
    params: Any = [{"matrix": jax.random.normal(key, (WIDTH, WIDTH)) / 8, "bias": jnp.zeros(WIDTH)} for key in keys]
    x = jax.random.normal(jax.random.key(1), (MICROBATCHES * ROWS, WIDTH))
    batch = {"x": x, "target": jnp.abs(x).sum(-1)}

    schedule = ppsim.generate("1f1b", ranks=RANKS, microbatches=MICROBATCHES)
    program = ppsim.lower(schedule, with_="reduce-grad")
    verdict = ppsim.check(program, transport=ppsim.jax.TRANSPORT)  # raises where it can hang
    ways = {"predictions": "concat", "worst": "max"}
    with ppsim.jax.Runtime(program, loss_function, params, batch, verdict, outputs=ways) as runtime:
        for number in range(STEPS):
            step = runtime.step(batch)
            if number == 0:
                _, expected, _ = ppsim.jax.plain_step(loss_function, params, batch, microbatches=MICROBATCHES, outputs=ways)
                pairs = zip(jax.tree.leaves(step.gradients), jax.tree.leaves(expected), strict=True)
                print("bits equal to jax.grad:", all((jax.device_get(a) == jax.device_get(b)).all() for a, b in pairs))
            print(f"step {number}: loss {step.loss:.3f}, worst {step.outputs['worst']:.3f}")
            runtime.params = jax.tree.map(lambda p, g: p - 1e-5 * g, runtime.params, step.gradients)


if __name__ == "__main__":
    main()
