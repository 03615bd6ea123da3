"""Refusals of a runtime for functions, and its message for a step that fails."""

import numpy as np
import pytest

import ppsim

from jax_runs.needed import jax_or_skip

jax_or_skip()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax_runs import models  # noqa: E402
from jax_runs.models import ADDED, OUTPUTS, REFUSED, batch, chain, differences, layers, program_of, proved, sgd  # noqa: E402

import ppsim.jax  # noqa: E402
from ppsim.jax import Runtime, enter_stage, plain_step  # noqa: E402


def test_without_proof_nothing_is_traced():
    program, calls = program_of("1f1b", 2, 4), []

    def function(params, data):
        calls.append(1)
        return chain(params, data)

    other = program_of("gpipe", 2, 4)
    for proof, message in ((None, "no certificate"), (proved(other), "another program")):
        with pytest.raises(ppsim.Error, match=message) as raised:
            Runtime(program, function, layers(2), batch(4), proof)
        assert raised.value.code == "refused"
    assert not calls
    with Runtime(program, function, layers(2), batch(4), unverified=True) as runtime:
        assert runtime.step(batch(4)).loss > 0


def test_a_program_that_hangs_says_who_waits_for_whom(hanging):
    params = layers(hanging.stages)
    with Runtime(hanging, chain, params, batch(hanging.microbatches), unverified=True) as runtime:
        for _ in range(2):
            with pytest.raises(ppsim.Deadlock, match="these wait for each other"):
                runtime.step(batch(hanging.microbatches))
            assert differences(runtime.params, params)[0]


def test_what_a_function_raises_names_the_action_and_changes_nothing():
    def function(params, data):
        x = jax.pure_callback(fails, jax.ShapeDtypeStruct(data["x"].shape, data["x"].dtype), data["x"])
        return models.finish(models.layer(params[1], enter_stage(models.layer(params[0], x))), data["target"])

    def fails(x):
        if (x == 99.0).any():
            raise RuntimeError("no such value")
        return x

    program = program_of("1f1b", 2, 4, {"with_": [*ADDED, "opt"]})
    with Runtime(program, function, layers(2), batch(4), proved(program), optimizer=sgd, outputs=OUTPUTS) as runtime:
        wrong = batch(4)
        wrong["x"][-1] = 99.0
        with pytest.raises(Exception, match="no such value") as raised:
            runtime.step(wrong)
        assert raised.value.__notes__ == ["ppsim: in 0F3 on rank 0"]
        assert differences(runtime.params, layers(2))[0]
        runtime.step(batch(4))
    with pytest.raises(ValueError, match="closed"):
        runtime.step(batch(4))


@pytest.mark.parametrize("name", REFUSED)
def test_programs_that_functions_cannot_run_are_named(name):
    program = program_of(name, 2, 4)
    reason = "2 of its microbatches are padding" if name.startswith("spmd") else "shards of a vocabulary"
    with pytest.raises(ppsim.Error, match=reason):
        Runtime(program, chain, layers(2), batch(4), unverified=True)
    sliced = ppsim.lower(ppsim.generate("terapipe", ranks=2, microbatches=4, slices=2))
    with pytest.raises(ppsim.Error, match="2 slices"):
        Runtime(sliced, chain, layers(2), batch(4), unverified=True)


def refusal(function=chain, params=None, data=None, **options):
    """Returns the message that refuses a function for a program of two ranks and four microbatches."""
    program = program_of("1f1b", 2, 4)
    with pytest.raises(ValueError) as raised:
        Runtime(program, function, params or layers(2), batch(4) if data is None else data, proved(program), **options)
    assert isinstance(raised.value, ppsim.Error)
    return str(raised.value)


def test_wrong_functions_and_batches_say_what_was_found_and_expected():
    assert "found 3 stages, 2 calls of enter_stage, expected 2 stages, 1 calls" in refusal(params=layers(3))
    odd = {name: value[:10] for name, value in batch(4).items()}
    assert "['target'] cannot be cut" in refusal(data=odd) and "found shape (10, 4)" in refusal(data=odd)
    assert "no loss" in refusal(lambda p, d: enter_stage(models.layer(p[0], d["x"])))
    assert "found stage 0 of 2" in refusal(lambda p, d: (models.finish(d["x"] * p[0]["bias"], d["target"])[0], enter_stage(d["x"])))
    integers = [{"table": np.arange(3), **one} for one in layers(2)]
    assert "parameter [0]['table'] has no gradient" in refusal(params=integers)
    assert "found 'sum', expected concat, add, mean, max" in refusal(outputs="sum")
    assert "another structure" in refusal(outputs={"values": "concat"})
    assert "expected mean, add" in refusal(loss="max")
    assert "found 1 devices" in refusal(devices=jax.devices()[:1])
    assert "jax_num_cpu_devices" in refusal(devices=jax.devices()[:1])


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"program": "1f1b"}, r"program is of another type \(found '1f1b', expected a Program or a Schedule\)"),
        ({"loss_function": None}, "loss_function is of another type .found None, expected a function"),
        ({"params": ["a", "b"]}, "a value that JAX has no array for .found str 'a'"),
        ({"example_batch": {"x": ["a"] * 8, "target": np.zeros(8)}}, "a value that JAX has no array for .found str 'a'"),
        ({"certificate": "proof.json"}, "certificate is of another type .*expected a Certificate or a Verdict or None"),
        ({"devices": ["cpu:0", "cpu:1"]}, "devices= has something else than devices .found 'cpu:0'"),
        ({"devices": 2}, r"devices is of another type \(found 2, expected a list or None\)"),
        ({"kept_traces": 0}, "the newest step is always kept .found kept_traces=0"),
        ({"loss": 1}, "loss is of another type .found 1, expected a text"),
    ],
)
def test_arguments_of_another_type_are_named(wrong, words):
    program = program_of("1f1b", 2, 4)
    right = {"program": program, "loss_function": chain, "params": layers(2), "example_batch": batch(4), "certificate": proved(program)}
    with pytest.raises(ppsim.Error, match=words):
        Runtime(**{**right, **wrong})


def test_other_calls_name_them_too():
    with pytest.raises(ppsim.Error, match="repeats is of another type .found '2'"):
        ppsim.jax.profile(chain, layers(2), batch(1), repeats="2")
    with pytest.raises(ppsim.Error, match="a batch has microbatches .found 0, expected 1 or more"):
        plain_step(chain, layers(2), batch(4), microbatches=0)
    with pytest.raises(ppsim.Error, match="schedule is of another type .*expected a Schedule"):
        ppsim.jax.tied(program_of("1f1b", 2, 4), chain, layers(2), batch(1))
    with pytest.raises(ppsim.Error, match="program is of another type .found None"):
        ppsim.jax.prepare(None)


def test_a_norm_to_clip_by_is_above_zero():
    program = program_of("1f1b", 2, 4, {"with_": ["reduce-grad", "opt", "clip"]})
    with pytest.raises(ppsim.Error, match="cannot be clipped to this norm .found clip_norm=0, expected a number above 0"):
        Runtime(program, chain, layers(2), batch(4), proved(program), optimizer=lambda p, g: p, clip_norm=0)


def test_a_marker_inside_of_a_loop_is_refused():
    def function(params, data):
        x, _ = jax.lax.scan(lambda x, p: (models.layer(p, enter_stage(x)), None), data["x"],
                            jax.tree.map(lambda *values: jnp.stack(values), *params))
        return models.finish(x, data["target"])

    assert "enter_stage stands inside of scan" in refusal(function)


def test_steps_with_other_batches_are_refused():
    program = program_of("1f1b", 2, 4)
    with Runtime(program, chain, layers(2), batch(4), proved(program), outputs=OUTPUTS) as runtime:
        with pytest.raises(ValueError, match=r"found float64\[6,4\], expected float64\[3,4\]"):
            runtime.step(batch(8))
        with pytest.raises(ValueError, match="another structure"):
            runtime.step({"x": batch(4)["x"]})
        with pytest.raises(ValueError, match="no step was run"):
            runtime.trace()


def test_an_optimizer_is_needed_and_keeps_shapes():
    program = program_of("1f1b", 2, 4, {"with_": [*ADDED, "opt"]})
    with pytest.raises(ValueError, match="no optimizer"):
        Runtime(program, chain, layers(2), batch(4), proved(program))
    with pytest.raises(ValueError, match="expected a function"):
        Runtime(program, chain, layers(2), batch(4), proved(program), optimizer=3)
    with pytest.raises(ValueError, match="other parameters than it was given"):
        Runtime(program, chain, layers(2), batch(4), proved(program), optimizer=lambda p, g: {})
