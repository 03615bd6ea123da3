"""Values without gradient on side edges, and tied weights that are summed for every microbatch."""

import json

import numpy as np
import pytest

import ppsim
from ppsim._native import _core

from jax_runs.needed import jax_or_skip

jax_or_skip()

import jax.numpy as jnp  # noqa: E402
from jax_runs import models  # noqa: E402
from jax_runs.models import ADDED, OUTPUTS, batch, differences, layers, proved, sgd  # noqa: E402

from ppsim.jax import TRANSPORT, Runtime, enter_stage, plain_step, tied  # noqa: E402

EACH = "reduce-grad-each-microbatch"
CLOSE = 1e-12


def with_side_edge(schedule, edge):
    text = json.loads(schedule.to_json())
    text["pipeline"]["side_edges"] = [list(edge)]
    return ppsim.read_text(json.dumps(text))


def one_microbatch():
    return {name: value[: models.ROWS] for name, value in batch(4).items()}


def reaching(reader, dtype=jnp.int32):
    """Which rows of the first stage's output are large counts in a later stage."""
    def function(params, data):
        x, chosen = data["x"], None
        for number, one in enumerate(params):
            x = models.layer(one, enter_stage(x) if number else x)
            if number == 0:
                chosen = (x.sum(axis=1, keepdims=True) > 0).astype(dtype)
            if number == reader:
                x = x * (1 + chosen.astype(x.dtype))
        return models.finish(x, data["target"])

    return function


def gradients_of(program, function, params):
    with Runtime(program, function, params, batch(4), proved(program), outputs=OUTPUTS) as runtime:
        step = runtime.step(batch(4))
        assert _core.Execution(program, TRANSPORT).trace_errors(runtime.trace()) == []
        assert runtime._data.empty
    return step.gradients


@pytest.mark.parametrize("name, ranks, chunks, reader, lowering", [
    ("1f1b", 3, None, 2, {}),
    ("interleaved-1f1b", 2, 2, 3, {"recompute": "full"}),
    ("interleaved-zb", 2, 2, 3, {}),
    ("interleaved-1f1b", 2, 2, 2, {"offload": "all"}),  # on one rank
], ids=["across", "recomputed", "halves", "within"])
def test_values_without_gradient_take_a_side_edge(name, ranks, chunks, reader, lowering):
    schedule = with_side_edge(ppsim.generate(name, ranks=ranks, microbatches=4, chunks=chunks), (0, reader))
    program = ppsim.lower(schedule, with_=ADDED, **lowering)
    params = layers(program.stages)
    expected = plain_step(reaching(reader), params, batch(4), microbatches=4, outputs=OUTPUTS)[1]
    assert differences(gradients_of(program, reaching(reader), params), expected)[0]


def test_the_number_of_the_microbatch_comes_with_the_batch():
    """The side edge of graph=index: a function has the batch at hand everywhere, and nothing is sent on it."""
    program = ppsim.lower(ppsim.generate("1f1b", ranks=3, microbatches=4, graph="index"), with_=ADDED)
    params = layers(3)
    expected = plain_step(models.chain, params, batch(4), microbatches=4, outputs=OUTPUTS)[1]
    assert differences(gradients_of(program, models.chain, params), expected)[0]


def test_values_that_a_side_edge_cannot_take_are_named():
    schedule = ppsim.generate("1f1b", ranks=3, microbatches=4)
    beside = ppsim.lower(with_side_edge(schedule, (0, 2)), with_=ADDED)
    with pytest.raises(ppsim.Error, match="takes no gradient back.*integers or booleans"):
        Runtime(beside, reaching(2, jnp.float64), layers(3), batch(4), proved(beside))
    plain = ppsim.lower(schedule, with_=ADDED)
    with pytest.raises(ppsim.Error, match=r"int32\[3,1\].*the program has no edge for it"):
        Runtime(plain, reaching(2), layers(3), batch(4), proved(plain))


@pytest.mark.parametrize("name", ["1f1b", "zb-h1"])
def test_sums_for_every_microbatch_have_the_bits_of_jax(name):
    """JAX adds up what both uses of a weight give in each microbatch; one sum behind the loop adds in another order."""
    params, schedule = models.tied_params(3), ppsim.generate(name, ranks=3, microbatches=4)
    known = tied(schedule, models.tied, params, one_microbatch())
    expected = plain_step(models.tied, params, batch(4), microbatches=4, outputs=OUTPUTS)[1]
    each = ppsim.lower(known, with_=EACH)
    assert differences(gradients_of(each, models.tied, params), expected)[0]
    equal, worst = differences(gradients_of(ppsim.lower(known, with_=ADDED), models.tied, params), expected)
    assert not equal and worst <= CLOSE


def test_sums_for_every_microbatch_are_updated_alike_on_both_ranks():
    params, schedule = models.tied_params(3), ppsim.generate("1f1b", ranks=3, microbatches=4)
    program = ppsim.lower(tied(schedule, models.tied, params, one_microbatch()), with_=[EACH, "opt", "clip"])
    gradients = plain_step(models.tied, params, batch(4), microbatches=4, outputs=OUTPUTS)[1]
    norm = float(jnp.sqrt(sum(jnp.sum(g * g) for g in [gradients["table"], *(g for one in gradients["layers"] for g in one.values())])))
    with Runtime(program, models.tied, params, batch(4), proved(program), outputs=OUTPUTS, optimizer=sgd, clip_norm=1e9) as runtime:
        step = runtime.step(batch(4))
        table = runtime._split.names.index("['table']")
        copies = [np.asarray(runtime._weights._newest(table, rank)) for rank in (0, 2)]
        assert (copies[0] == copies[1]).all()
        assert differences(runtime.params["table"], params["table"] - 0.1 * gradients["table"])[1] <= CLOSE
        assert step.norm == pytest.approx(norm, rel=CLOSE)
