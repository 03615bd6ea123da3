"""One rank of a program; the others are processes like this one. Prints what it found as JSON."""

import json
import os
import signal
import sys
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import ppsim  # noqa: E402
import ppsim.jax  # noqa: E402
from jax_runs import models  # noqa: E402
from ppsim._native import _core  # noqa: E402


def main(name: str, ranks: int, what: str, folder: str) -> dict[str, Any]:
    """what: gradients, opt, tied or each (tied weights, summed once or for every microbatch), or a fault of rank 1:
    raise, die, other (a program)"""
    added = ("reduce-grad", "opt", "clip") if what == "opt" else ("reduce-grad",)
    program = shared(name, ranks, what) if what in ("tied", "each") else models.program_of(name, ranks, 4, {"with_": added})
    rank = ppsim.jax.prepare(program)
    if what == "other" and rank == 1:
        program = models.program_of("gpipe", ranks, 4)
    function = faulty(what, rank) if what in ("raise", "die") else models.chain
    params, data = models.layers(models.parts_of(program)), models.batch(4)
    if what in ("tied", "each"):
        function, params = models.tied, models.tied_params(ranks)
    proof = ppsim.check(program, transport=ppsim.jax.TRANSPORT)
    updated: dict[str, Any] = {"optimizer": models.sgd, "clip_norm": 1e9} if what == "opt" else {}
    with ppsim.jax.Runtime(program, function, params, data, proof, outputs=models.OUTPUTS, **updated) as runtime:
        steps = [runtime.step(data) for _ in range(2)]
        errors = _core.Execution(program, ppsim.jax.TRANSPORT).trace_errors(runtime.trace())
        runtime.write_trace(f"{folder}/measured.csv")
        found = runtime.params if what == "opt" else steps[-1].gradients
    pairs = [(a, b) for a, b in zip(_leaves(found), jax.tree.leaves(expected(params, what)), strict=True) if a is not None]
    equal, worst = models.differences([a for a, _ in pairs], [b for _, b in pairs])
    loss = None if steps[0].loss is None else float(steps[0].loss)
    return {"rank": rank, "pairs": len(pairs), "equal": equal, "worst": worst, "loss": loss, "errors": errors, "norm": steps[0].norm}


def shared(name: str, ranks: int, what: str) -> ppsim.Program:
    """With a block for the first and the last stage, which share a matrix."""
    added = "reduce-grad" if what == "tied" else "reduce-grad-each-microbatch"
    return ppsim.lower(ppsim.generate(name, ranks=ranks, microbatches=4), tied=True, with_=added)


def expected(params: Any, what: str) -> Any:
    if what in ("tied", "each"):
        return ppsim.jax.plain_step(models.tied, params, models.batch(4), microbatches=4, outputs=models.OUTPUTS)[1]
    if what != "opt":
        return models.plain_gradients(params, 4)
    for _ in range(2):
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, models.plain_gradients(params, 4))
    return params


def faulty(what: str, rank: int) -> Any:
    """The chain, whose last stage fails in its third microbatch."""
    calls = []

    def fail(x: Any) -> Any:
        calls.append(1)
        if rank == 1 and len(calls) == 3:
            if what == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("no such value")
        return x

    def function(params: Any, data: Any) -> Any:
        target = jax.pure_callback(fail, jax.ShapeDtypeStruct(data["target"].shape, data["target"].dtype), data["target"])
        return models.chain(params, {"x": data["x"], "target": target})

    return function


def _leaves(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree, is_leaf=lambda leaf: leaf is None)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4])))
