"""Functions under Programs on CPU devices: the gradients and parameters of the same function without a pipeline."""

import json
import subprocess
import sys

import numpy as np
import pytest

import ppsim
from ppsim._native import _core

from jax_runs.needed import jax_or_skip

jax_or_skip()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax_runs import models  # noqa: E402
from jax_runs.models import (  # noqa: E402
    ADDED, OUTPUTS, REFUSED, Momentum, batch, chain, differences, layers, parts_of, program_of, proved, sgd,
)

import ppsim.jax  # noqa: E402
from ppsim.jax import TRANSPORT, Runtime, enter_stage, plain_step  # noqa: E402

#: Those that accumulate in ascending order and sum nothing across ranks, on two ranks with four microbatches.
ASCENDING = (
    "gpipe", "1f1b", "eager-1f1b", "interleaved-1f1b", "kimi-k2", "group-interleaved", "zb-h1", "zb-h2", "zb-greedy",
    "interleaved-zb", "zb-v", "dualpipe-v", "hanayo", "v-half", "v-min", "1f1b-v", "building-block", "v-adaptive",
    "bpipe", "seq-1f1b", "terapipe",
)
OTHERS = ("looped-bfs", "chimera", "dualpipe", "bitpipe")
ASYNCHRONOUS = ("pipedream", "pipedream-2bw")
NO_GRADIENTS = ("forward-only",)
CLOSE = 1e-12

MORE = (
    ("1f1b", 4, 5, {"recompute": "full", "with_": [*ADDED, "load", "unshard"]}),
    ("zb-v", 4, 6, {"offload": "all", "with_": ADDED}),
    ("interleaved-1f1b", 4, 6, {"communicators": "per-rank", "grouping": "paired", "with_": ADDED}),
    ("bpipe", 4, 6, {}),
    ("v-half", 3, 6, {"order": "just-in-time", "with_": ADDED}),
    ("zb-h1", 3, 4, {"recompute": "stages=1", "order": "global", "with_": ADDED}),
)


def gradients_of(program, function=chain, params=None, dtype=np.float64):
    """Of the runtime, and of the function without it; and the runtime's last step."""
    params = layers(parts_of(program), dtype) if params is None else params
    data, count = batch(program.microbatches, dtype=dtype), program.microbatches
    with Runtime(program, function, params, data, proved(program), outputs=OUTPUTS) as runtime:
        runtime.step(data)
        step = runtime.step(data)
        errors = _core.Execution(program, TRANSPORT).trace_errors(runtime.trace())
        assert errors == []
        assert runtime._data.empty and not any(stage.cells for stage in runtime._stages.values())
    loss, gradients, outputs = plain_step(function, params, data, microbatches=count, outputs=OUTPUTS)
    assert differences([step.loss, step.outputs], [loss, outputs])[1] <= (CLOSE if dtype is np.float64 else 1e-6)
    return step, step.gradients, gradients


def test_every_schedule_is_run_or_named():
    assert set(ppsim.schedules()) == {*ASCENDING, *OTHERS, *ASYNCHRONOUS, *REFUSED, *NO_GRADIENTS}


@pytest.mark.parametrize("name", [*ASCENDING, *OTHERS])
def test_gradients_are_those_of_jax(name):
    _, found, expected = gradients_of(program_of(name, 2, 4))
    equal, worst = differences(found, expected)
    assert worst <= CLOSE
    assert equal == (name in ASCENDING)


@pytest.mark.parametrize("name, ranks, microbatches, lowering", MORE, ids=[f"{n}-{r}" for n, r, *_ in MORE])
def test_more_ranks_and_other_lowerings(name, ranks, microbatches, lowering):
    _, found, expected = gradients_of(program_of(name, ranks, microbatches, lowering))
    assert differences(found, expected)[0]


def test_float32_is_equal_bit_by_bit_too():
    _, found, expected = gradients_of(program_of("zb-h1", 2, 4), dtype=np.float32)
    assert differences(found, expected)[0]


@pytest.mark.parametrize("name", ["zb-h1", "chimera", *ASYNCHRONOUS])
@pytest.mark.parametrize("optimizer", [sgd, Momentum()], ids=["function", "optax-like"])
def test_updates_are_those_of_plain_training(name, optimizer):
    program = program_of(name, 2, 4, {} if name in ASYNCHRONOUS else {"with_": [*ADDED, "opt"]})
    with Runtime(program, chain, layers(parts_of(program)), batch(4), proved(program), outputs=OUTPUTS,
                 optimizer=optimizer) as runtime:
        for number in range(3):
            step = runtime.step(batch(4, number))
            assert step.gradients is None
        found = runtime.params
    assert differences(found, models.trained(program, 3, optimizer))[1] <= CLOSE


def test_clipping_by_the_norm_of_all_gradients():
    program = program_of("1f1b", 2, 4, {"with_": [*ADDED, "opt", "clip"]})
    params = layers(2)
    with Runtime(program, chain, params, batch(4), proved(program), outputs=OUTPUTS, optimizer=sgd, clip_norm=0.01) as runtime:
        step, found = runtime.step(batch(4)), runtime.params
    gradients = plain_step(chain, params, batch(4), microbatches=4, outputs=OUTPUTS)[1]
    norm = float(jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients))))
    assert step.norm == pytest.approx(norm, rel=CLOSE)
    expected = jax.tree.map(lambda p, g: p - 0.1 * g * (0.01 / (norm + 1e-6)), params, gradients)
    assert differences(found, expected)[1] <= CLOSE


def test_losses_are_added_or_averaged_and_parameters_replaced():
    program = program_of("gpipe", 2, 3)
    with Runtime(program, chain, layers(2), batch(3), proved(program), outputs=OUTPUTS, loss="add") as runtime:
        runtime.params = jax.tree.map(lambda value: value * 2, layers(2))
        step = runtime.step(batch(3))
        doubled = jax.tree.map(lambda value: value * 2, layers(2))
        loss, gradients, _ = plain_step(chain, doubled, batch(3), microbatches=3, outputs=OUTPUTS, loss="add")
        assert differences([step.loss, step.gradients], [loss, gradients])[0]
        assert len(step.losses) == 3 and float(sum(step.losses)) == pytest.approx(float(loss))
        with pytest.raises(ValueError, match="other parameters"):
            runtime.params = layers(3)


def test_inference_gives_outputs():
    program = program_of("forward-only", 2, 4, {"with_": ()})
    with Runtime(program, chain, layers(2), batch(4), proved(program), outputs=OUTPUTS) as runtime:
        step = runtime.step(batch(4))
    assert step.gradients is None
    assert differences(step.outputs, plain_step(chain, layers(2), batch(4), microbatches=4, outputs=OUTPUTS)[2])[0]


def test_tied_weights_are_one_gradient():
    """Summed after the step; by a separate REDUCE_GRAD; and updated alike on both ranks."""
    params = models.tied_params(3)
    schedule = ppsim.generate("1f1b", ranks=3, microbatches=4)
    expected = plain_step(models.tied, params, batch(4), microbatches=4, outputs=OUTPUTS)[1]
    one = {name: value[: models.ROWS] for name, value in batch(4).items()}
    known = ppsim.jax.tied(schedule, models.tied, params, one)
    for program in (ppsim.lower(schedule, with_=ADDED), ppsim.lower(known, with_=ADDED)):
        _, found, _ = gradients_of(program, models.tied, params)
        assert differences(found, expected)[1] <= CLOSE
    program = ppsim.lower(known, with_=[*ADDED, "opt"])
    assert [0, 2] in _core.Execution(program, TRANSPORT).blocks
    with Runtime(program, models.tied, params, batch(4), proved(program), outputs=OUTPUTS, optimizer=sgd) as runtime:
        runtime.step(batch(4))
        table = runtime._split.names.index("['table']")
        copies = [np.asarray(runtime._weights._newest(table, rank)) for rank in (0, 2)]
        assert (copies[0] == copies[1]).all()
        assert differences(runtime.params, jax.tree.map(lambda p, g: p - 0.1 * g, params, expected))[1] <= CLOSE
    untied = ppsim.lower(schedule, with_=[*ADDED, "opt"])
    with pytest.raises(ppsim.Error, match=r"\['table'\].*ppsim.jax.tied"):
        Runtime(untied, models.tied, params, batch(4), proved(untied), optimizer=sgd)


@pytest.mark.parametrize("graph, ranks, edges", [("skip", 3, [(0, 2)]), ("encoder-decoder", 4, [(1, 3)])])
def test_skip_connections_follow_the_edges_of_the_program(graph, ranks, edges):
    program = program_of("1f1b", ranks, 4, graph=graph)
    _, found, expected = gradients_of(program, models.skip_of(edges))
    assert differences(found, expected)[1] <= CLOSE


def test_a_value_that_passes_every_marker_needs_no_edge():
    def function(params, data):
        first = models.layer(params[0], data["x"])
        x, first = enter_stage((2 * first, first))
        x, first = enter_stage((models.layer(params[1], x), first))
        return models.finish(models.layer(params[2], x) + first, data["target"])

    _, found, expected = gradients_of(program_of("zb-h1", 3, 4), function)
    assert differences(found, expected)[1] <= CLOSE


def test_a_value_without_an_edge_is_named():
    program = program_of("1f1b", 3, 4)
    with pytest.raises(ValueError, match=r"a value of stage 0, float64\[3,4\], is used in stage 2") as raised:
        Runtime(program, models.skip_of([(0, 2)]), layers(3), batch(4), proved(program))
    assert raised.value.found == "1 -> 2" and "edge 0 -> 2" in raised.value.expected


def test_integers_keys_and_values_of_the_batch_alone_cross_no_boundary():
    """A mask of the batch, and one of random numbers, are computed where they are used."""
    def function(params, data):
        mask = data["mask"] > 0
        x = models.layer(params[0], data["x"])
        x, count = enter_stage((x, data["mask"].sum()))
        keep = jax.random.bernoulli(data["key"][0], 0.5, x.shape)
        x = models.layer(params[1], jnp.where(mask[:, None] & keep, x, 0.0)) / count
        return models.finish(x, data["target"])

    program = program_of("zb-h1", 2, 4)
    data = {**batch(4), "mask": np.arange(4 * models.ROWS) % 5, "key": jax.random.split(jax.random.key(3), 4)}
    with Runtime(program, function, layers(2), data, proved(program), outputs=OUTPUTS) as runtime:
        found = runtime.step(data).gradients
        crossing = [shape.shape for shape in runtime._split.parts[0].outputs]
    assert sorted(crossing) == [(), (models.ROWS, models.WIDTH)]
    assert differences(found, plain_step(function, layers(2), data, microbatches=4, outputs=OUTPUTS)[1])[1] <= CLOSE


def test_the_undivided_function_is_unchanged_by_its_markers():
    def function(params, x, mark):
        for one in params:
            x = models.layer(one, mark(x))
        return (x * x).sum()

    params, x = layers(3), np.ones((models.ROWS, models.WIDTH))
    for transform in (jax.value_and_grad, lambda f: jax.grad(jax.jit(f)), lambda f: jax.grad(jax.remat(f)),
                      lambda f: jax.vmap(jax.grad(f), (None, 0)), lambda f: jax.jacfwd(f)):
        with_marks = jax.jit(transform(lambda p, x: function(p, x, enter_stage)))(params, x)
        without = jax.jit(transform(lambda p, x: function(p, x, lambda value: value)))(params, x)
        assert differences(with_marks, without)[1] <= CLOSE
    transposed = jax.linear_transpose(lambda value: enter_stage(2 * value), x)(x)[0]
    assert (transposed == 2 * x).all()
    with pytest.raises(ValueError, match="pytree without arrays"):
        enter_stage({})


def test_no_more_is_kept_than_the_simulator_says():
    for name in ("gpipe", "1f1b", "zb-h1", "zb-v"):
        program = program_of(name, 2, 6)
        peaks = [rank.peak_live_activations for rank in ppsim.simulate(program, unit={"F": 1, "I": 1, "W": 1}).ranks]
        with Runtime(program, chain, layers(parts_of(program)), batch(6), proved(program), outputs=OUTPUTS) as runtime:
            seen = [0] * program.ranks
            for number, stage in runtime._stages.items():
                _count_cells(stage, runtime, program.placement[number], seen)
            runtime.step(batch(6))
        assert all(0 < found <= peak for found, peak in zip(seen, peaks, strict=True)), (name, seen, peaks)


def _count_cells(stage, runtime, rank, seen):
    forward = stage.forward

    def counting(*arguments):
        found = forward(*arguments)
        of_rank = [s for n, s in runtime._stages.items() if runtime.program.placement[n] == rank]
        seen[rank] = max(seen[rank], sum(len(one.cells) for one in of_rank))
        return found

    stage.forward = counting


def test_halves_of_a_backward_share_no_work():
    """W reads results of I; both together have as many products as B."""
    from ppsim.jax.pieces import Pieces
    from ppsim.jax.split import split

    found = split(chain, layers(2), {name: value[: models.ROWS] for name, value in batch(4).items()})
    pieces = Pieces(found.parts[1], found)

    def products(piece):
        return sum(equation.primitive.name == "dot_general" for equation in piece.equations)

    assert [products(p) for p in (pieces.backward, pieces.backward_input, pieces.backward_weight)] == [2, 1, 1]
    assert pieces.between and products(pieces.forward) == 1
    first = Pieces(found.parts[0], found)
    assert first.backward_input.equations == [] and products(first.backward_weight) == 1


def test_markers_in_functions_under_jit_are_found():
    function = jax.jit(chain)
    program = program_of("1f1b", 2, 4)
    with Runtime(program, function, layers(2), batch(4), proved(program), outputs=OUTPUTS) as runtime:
        found = runtime.step(batch(4)).gradients
    assert differences(found, plain_step(chain, layers(2), batch(4), microbatches=4, outputs=OUTPUTS)[1])[0]


def test_traces_are_drawn_over_the_simulated_step(tmp_path):
    program = program_of("1f1b", 2, 4)
    with Runtime(program, chain, layers(2), batch(4), proved(program), outputs=OUTPUTS, kept_traces=2) as runtime:
        for number in range(3):
            runtime.step(batch(4, number))
        assert len(runtime.traces()) == 2
        runtime.write_trace(tmp_path / "measured.csv")
        costs = runtime.costs()
    kinds = {row["kind"] for row in json.loads(costs.bound(ppsim.generate("1f1b", ranks=2, microbatches=4)))["costs"]}
    assert {"F", "B", "SEND_F", "SEND_B"} <= kinds
    ppsim.write(program, tmp_path / "program.json")
    (tmp_path / "costs.json").write_text(costs.bound(program.compute_only()))
    words = ["simulate", "program.json", "--costs", "costs.json", "--compare-trace", "measured.csv", "--report", "page.html"]
    done = subprocess.run([sys.executable, "-m", "ppsim", *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert '"overlay":true' in page and '"name":"measured"' in page and '"name":"simulated"' in page


def test_a_profile_prices_all_that_runs():
    one = {name: value[: models.ROWS] for name, value in batch(4).items()}
    costs = ppsim.jax.profile(chain, layers(2), one, optimizer=Momentum(), repeats=5, warmup=1)
    for name, lowering in (("1f1b", {"recompute": "full"}), ("zb-h1", {}), ("gpipe", {"offload": "all"})):
        schedule = ppsim.generate(name, ranks=2, microbatches=4)
        program = ppsim.lower(schedule, costs=costs, with_=(*ADDED, "opt"), **lowering)
        run = ppsim.simulate(program, costs=costs)
        assert run.makespan_ns > 0 and run.peak_bytes > 0
    sizes = {row["tensor"]: row["bytes"] for row in json.loads(costs.bound(schedule))["sizes"] if 1 in row.values()}
    width, number = models.WIDTH, 8
    activation = models.ROWS * width * number
    assert sizes["parameters"] == sizes["gradients"] == sizes["optimizer_state"] == (width + 1) * width * number
    assert sizes["boundary_input"] == sizes["outgoing_gradient"] == activation
    assert sizes["boundary_output"] == sizes["incoming_gradient"] == 0
    assert sizes["saved_for_input"] > 0 and sizes["inner_gradients"] == activation
    with pytest.raises(ValueError, match="found repeats=0"):
        ppsim.jax.profile(chain, layers(2), one, repeats=0)


def test_a_profile_prices_the_blocks_of_tied_weights():
    one = {name: value[: models.ROWS] for name, value in batch(4).items()}
    params = models.tied_params(3)
    costs = ppsim.jax.profile(models.tied, params, one, optimizer=sgd, repeats=2, warmup=0)
    schedule = ppsim.jax.tied(ppsim.generate("1f1b", ranks=3, microbatches=4), models.tied, params, one)
    program = ppsim.lower(schedule, costs=costs, with_=(*ADDED, "opt"))
    assert ppsim.simulate(program, costs=costs).makespan_ns > 0
    blocks = {row["block"]: row["bytes"] for row in json.loads(costs.bound(schedule))["sizes"] if row["tensor"] == "parameters"}
    assert blocks[3] == models.WIDTH**2 * 8 and blocks[0] == blocks[2] == (models.WIDTH + 1) * models.WIDTH * 8


def test_nothing_is_compiled_in_a_step(caplog):
    program = program_of("zb-h1", 2, 4, {"with_": [*ADDED, "opt"]})
    with Runtime(program, chain, layers(2), batch(4), proved(program), outputs=OUTPUTS, optimizer=sgd) as runtime:
        with jax.log_compiles(), caplog.at_level("WARNING"):
            runtime.step(batch(4))
    assert not [record for record in caplog.records if "Compiling" in record.getMessage()]
