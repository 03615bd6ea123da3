"""1F1B and two zero-bubble schedules: backwards in halves, the second of which fills the bubble.

I computes the gradients of a stage's inputs, which the stage before waits for; W computes those of its weights, later.
Gradients have the same bits whatever the order.

    python examples/jax/zero_bubble.py
"""

from typing import Any

import jax
import jax.numpy as jnp

import ppsim
import ppsim.jax

RANKS, MICROBATCHES, ROWS, WIDTH = 4, 8, 32, 64

jax.config.update("jax_num_cpu_devices", RANKS)  # before JAX is used first


def loss_function(params: Any, batch: Any) -> Any:
    x = batch
    for number, layer in enumerate(params):
        if number:
            x = ppsim.jax.enter_stage(x)
        x = x + jnp.tanh(x @ layer["up"]) @ layer["down"]
    return (x * x).mean()


def main() -> None:
    keys = jax.random.split(jax.random.key(0), (RANKS, 2))
    params = [{"up": jax.random.normal(up, (WIDTH, 2 * WIDTH)) / 8, "down": jax.random.normal(down, (2 * WIDTH, WIDTH)) / 16}
              for up, down in keys]
    batch = jax.random.normal(jax.random.key(1), (MICROBATCHES * ROWS, WIDTH))
    costs = ppsim.jax.profile(loss_function, params, batch[:ROWS])
    found = {}
    for name in ("1f1b", "zb-h1", "zb-h2"):
        schedule = ppsim.generate(name, ranks=RANKS, microbatches=MICROBATCHES)
        program = ppsim.lower(schedule, costs=costs, with_="reduce-grad")
        verdict = ppsim.check(program, transport=ppsim.jax.TRANSPORT)
        with ppsim.jax.Runtime(program, loss_function, params, batch, verdict) as runtime:
            found[name] = jax.device_get(runtime.step(batch).gradients)
        run = ppsim.simulate(program, unit={"F": 1, "I": 1, "W": 1})
        print(f"{name:6} bubble {100 * run.bubble_fraction:4.1f} % with unit costs, {len(program)} instructions")
    for name in ("zb-h1", "zb-h2"):
        pairs = zip(jax.tree.leaves(found[name]), jax.tree.leaves(found["1f1b"]), strict=True)
        print(f"{name}: bits equal to those of 1f1b: {all((a == b).all() for a, b in pairs)}")


if __name__ == "__main__":
    main()
