"""Several stages on each rank: interleaved 1F1B with two, and a V, where the last stage is on the first rank.

The function has a stage for each; where they are is the schedule's business.

    python examples/jax/interleaved.py
"""

from typing import Any

import jax
import jax.numpy as jnp

import ppsim
import ppsim.jax

RANKS, STAGES, MICROBATCHES, ROWS, WIDTH = 2, 4, 4, 8, 32

jax.config.update("jax_num_cpu_devices", RANKS)  # before JAX is used first


def loss_function(params: Any, batch: Any) -> Any:
    x, target = batch
    for number, layer in enumerate(params):
        if number:
            x = ppsim.jax.enter_stage(x)
        x = x + jax.nn.silu(x @ layer)
    return ((x - target) ** 2).mean()


def main() -> None:
    params = [jax.random.normal(key, (WIDTH, WIDTH)) / 8 for key in jax.random.split(jax.random.key(0), STAGES)]
    data = jax.random.normal(jax.random.key(1), (2, MICROBATCHES * ROWS, WIDTH))
    batch = (data[0], data[1])
    _, expected, _ = ppsim.jax.plain_step(loss_function, params, batch, microbatches=MICROBATCHES)
    for name in ("interleaved-1f1b", "zb-v"):
        schedule = ppsim.generate(name, ranks=RANKS, microbatches=MICROBATCHES)
        program = ppsim.lower(schedule, with_="reduce-grad")
        verdict = ppsim.check(program, transport=ppsim.jax.TRANSPORT)
        with ppsim.jax.Runtime(program, loss_function, params, batch, verdict) as runtime:
            step = runtime.step(batch)
        equal = all((jax.device_get(a) == jax.device_get(b)).all() for a, b in zip(step.gradients, expected, strict=True))
        print(f"{name}: stages on ranks {list(program.placement)}, loss {step.loss:.4f}, bits equal to jax.grad: {equal}")
        print(f"  gradients are on {[jnp.asarray(g).devices().pop().id for g in step.gradients]}")


if __name__ == "__main__":
    main()
