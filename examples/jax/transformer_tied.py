"""A transformer that predicts the next token, its embedding tied to its head: the first and the last stage share a table.

`ppsim.jax.tied` tells the schedule, so that the sum of its gradients is an action of the proved Program, and the
update, too: each of the two ranks updates its copy.

    python examples/jax/transformer_tied.py
"""

from typing import Any

import jax
import jax.numpy as jnp

import ppsim
import ppsim.jax

RANKS, MICROBATCHES, SEQUENCES, TOKENS, STEPS = 3, 6, 2, 16, 6
VOCABULARY, WIDTH, HEADS = 32, 32, 4

jax.config.update("jax_num_cpu_devices", RANKS)  # before JAX is used first


def normed(x: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def block(params: Any, x: Any) -> Any:
    heads = (*x.shape[:2], HEADS, WIDTH // HEADS)
    query, key, value = (part.reshape(heads) for part in jnp.split(normed(x) @ params["qkv"], 3, axis=-1))
    x = x + jax.nn.dot_product_attention(query, key, value, is_causal=True).reshape(x.shape) @ params["out"]
    return x + jax.nn.gelu(normed(x) @ params["up"]) @ params["down"]


def loss_function(params: Any, batch: Any) -> Any:
    """batch: tokens, and the tokens after them."""
    tokens, following = batch
    x = params["table"][tokens]
    for number, layer in enumerate(params["blocks"]):
        if number:
            x = ppsim.jax.enter_stage(x)
        x = block(layer, x)
    logits = normed(x) @ params["table"].T
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), following[..., None], -1).mean()


class Adam:
    """As optax has them: `optimizer=optax.adam(1e-2)` does the same."""

    def init(self, params: Any) -> Any:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return {"count": jnp.zeros(()), "mean": zeros, "square": zeros}

    def update(self, gradients: Any, state: Any, params: Any) -> Any:
        count = state["count"] + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], gradients)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, state["square"], gradients)
        steps = jax.tree.map(
            lambda m, s: -1e-2 * (m / (1 - 0.9**count)) / (jnp.sqrt(s / (1 - 0.99**count)) + 1e-8), mean, square
        )
        return steps, {"count": count, "mean": mean, "square": square}


def random_params() -> Any:
    keys = iter(jax.random.split(jax.random.key(0), 1 + 4 * RANKS))
    shapes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    blocks = [{name: jax.random.normal(next(keys), shape) / shape[0] ** 0.5 for name, shape in shapes.items()} for _ in range(RANKS)]
    return {"table": jax.random.normal(next(keys), (VOCABULARY, WIDTH)) / WIDTH**0.5, "blocks": blocks}


def batch_of(step: int) -> Any:
    """The next token is the last one plus one."""
    first = jax.random.randint(jax.random.key(step), (MICROBATCHES * SEQUENCES, 1), 0, VOCABULARY)
    tokens = (first + jnp.arange(TOKENS + 1)) % VOCABULARY
    return tokens[:, :-1], tokens[:, 1:]


def main() -> None:
    params, one = random_params(), tuple(part[:SEQUENCES] for part in batch_of(0))
    schedule = ppsim.generate("1f1b", ranks=RANKS, microbatches=MICROBATCHES)
    schedule = ppsim.jax.tied(schedule, loss_function, params, one)
    program = ppsim.lower(schedule, with_=("reduce-grad", "opt"))
    verdict = ppsim.check(program, transport=ppsim.jax.TRANSPORT)
    with ppsim.jax.Runtime(program, loss_function, params, batch_of(0), verdict, optimizer=Adam()) as runtime:
        losses = [float(runtime.step(batch_of(step)).loss) for step in range(STEPS)]
    print("blocks:", program.compute_only().to_json().split('"blocks": ')[1].split("rows")[0].split("}")[0].split())
    print("losses:", " ".join(f"{loss:.3f}" for loss in losses))


if __name__ == "__main__":
    main()
