"""Arguments that ppsim.jax does not ignore: unused ones, effects, wide numbers in half precision, NumPy's default types."""

import threading

import numpy as np
import pytest

import ppsim

from jax_runs.needed import jax_or_skip

jax_or_skip()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.experimental import io_callback  # noqa: E402
from jax_runs import models  # noqa: E402
from jax_runs.models import OUTPUTS, batch, chain, differences, layers, program_of, sgd  # noqa: E402

import ppsim.jax  # noqa: E402
from ppsim.jax import TRANSPORT, Runtime, enter_stage, plain_step  # noqa: E402

ADDED = ["reduce-grad"]


def runtime_of(with_=ADDED, function=chain, params=None, data=None, **options):
    """Of two ranks and four microbatches."""
    program = program_of("1f1b", 2, 4, {"with_": list(with_)})
    params, data = layers(2) if params is None else params, batch(4) if data is None else data
    return Runtime(program, function, params, data, ppsim.check(program, transport=TRANSPORT), outputs=OUTPUTS, **options)


def test_an_optimizer_or_a_norm_without_use_is_refused():
    with pytest.raises(ppsim.Error, match=r"updates no parameters.*found a function, expected with_=\('reduce-grad', 'opt'\)"):
        runtime_of(optimizer=sgd)
    for with_, options in ((ADDED, {}), ([*ADDED, "opt"], {"optimizer": sgd})):
        with pytest.raises(ppsim.Error, match=r"found clip_norm=0.5, expected with_=\('reduce-grad', 'opt', 'clip'\)"):
            runtime_of(with_, clip_norm=0.5, **options)


def with_effect(effect, place):
    """The chain with an effect in its first or its second stage."""
    def function(params, data):
        x = models.layer(params[0], effect(data["x"]) if place == 0 else data["x"])
        x = enter_stage(x)
        return models.finish(models.layer(params[1], effect(x) if place == 1 else x), data["target"])

    return function


def printed(x):
    jax.debug.print("largest {}", x.max())
    return x


def sent(x):
    io_callback(lambda value: None, None, x, ordered=True)
    return x


def written(x):
    kept = jax.new_ref(x)
    kept[...] = 2 * x
    return kept[...]


@jax.custom_vjp
def printed_back(x):
    return x


def _back(_, gradient):
    jax.debug.print("gradient {}", gradient.max())
    return (gradient,)


printed_back.defvjp(lambda x: (x, None), _back)


@pytest.mark.parametrize("effect, place, primitive", [
    (printed, 1, "debug_print"), (sent, 0, "io_callback"), (written, 0, "new_ref"), (printed_back, 1, "debug_print"),
    (jax.jit(printed), 0, "debug_print"), (jax.remat(printed), 1, "remat"),
])
def test_effects_are_refused_with_their_stage(effect, place, primitive):
    with pytest.raises(ppsim.Error, match=rf"stage {place} has an effect.*found {primitive}") as raised:
        runtime_of(function=with_effect(effect, place))
    assert raised.value.code == "refused"


def test_the_norm_and_the_clipping_of_half_precision_are_computed_in_wider_numbers():
    def function(params, data):
        x = enter_stage(data["x"] * params[0])
        return (x * params[1]).sum(), {"values": x, "largest": x.max(), "squares": x.sum()}

    params = [jnp.asarray(1, jnp.float16), jnp.asarray(1, jnp.float16)]
    data = {"x": np.full((4, 1), 300, np.float16)}
    with runtime_of([*ADDED, "opt", "clip"], function, params, data, optimizer=lambda _, g: g, clip_norm=1e-6) as runtime:
        step, found = runtime.step(data), runtime.params
    assert step.norm == pytest.approx(300 * 2**0.5)
    expected = np.float16(300 * 1e-6 / step.norm)
    assert expected > 0 and [float(value) for value in found] == [float(expected)] * 2


@pytest.fixture
def narrow():
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


def test_tokens_of_numpy_run_without_64_bits(narrow):
    def function(params, data):
        x = enter_stage(params[0][data["tokens"]] * data["weights"][:, None])
        return ((x @ params[1]) ** 2).mean(), {"values": x, "largest": x.max(), "squares": (x * x).sum()}

    params = [np.ones((8, 4), np.float32), np.ones((4, 4), np.float32)]
    data = {"tokens": np.arange(8), "weights": np.linspace(0.0, 1.0, 8)}
    assert data["tokens"].dtype == np.int64 and data["weights"].dtype == np.float64
    shapes = {name: jax.ShapeDtypeStruct(value.shape, value.dtype) for name, value in data.items()}
    expected = plain_step(function, params, data, microbatches=4, outputs=OUTPUTS)[1]
    for example in (data, shapes, {name: jnp.asarray(value) for name, value in data.items()}):
        with runtime_of(function=function, params=params, data=example) as runtime:
            assert differences(runtime.step(data).gradients, expected)[0]
            with pytest.raises(ppsim.Error, match=r"found float32\[2\], expected int32\[2\]"):
                runtime.step({**data, "tokens": data["weights"]})
    one = {name: value[:2] for name, value in data.items()}
    ppsim.jax.profile(function, params, one, repeats=1, warmup=0)


def test_a_second_thread_is_refused_while_a_step_runs():
    begun, goes_on = threading.Event(), threading.Event()

    def waits(x):
        begun.set()
        goes_on.wait(60)
        return x

    def function(params, data):
        x = jax.pure_callback(waits, jax.ShapeDtypeStruct(data["x"].shape, data["x"].dtype), data["x"])
        return models.finish(models.layer(params[1], enter_stage(models.layer(params[0], x))), data["target"])

    with runtime_of(function=function) as runtime:
        losses = []
        first = threading.Thread(target=lambda: losses.append(runtime.step(batch(4)).loss))
        first.start()
        try:
            assert begun.wait(60)
            with pytest.raises(ppsim.Error, match="a step of this runtime runs already"):
                runtime.step(batch(4))
            with pytest.raises(ppsim.Error, match="a step of this runtime runs already"):
                runtime.params = layers(2)
        finally:
            goes_on.set()
            first.join()
        assert losses == [runtime.step(batch(4)).loss]


def test_a_profile_needs_repeats():
    one = {name: value[: models.ROWS] for name, value in batch(4).items()}
    with pytest.raises(ppsim.Error, match="found repeats=0, warmup=3, expected repeats of 1 or more, warmup of 0 or more"):
        ppsim.jax.profile(chain, layers(2), one, repeats=0)
    with pytest.raises(ppsim.Error, match="found repeats=2, warmup=-3"):
        ppsim.jax.profile(chain, layers(2), one, repeats=2, warmup=-3)


class Listing:
    """As optax has them, but with a list of changes."""

    def init(self, params):
        return ()

    def update(self, gradients, state, params):
        return list(gradients.values()), state


@pytest.mark.parametrize("optimizer", [lambda p, g: list(p.values()), Listing()], ids=["function", "optax-like"])
def test_an_optimizer_returns_dictionaries(optimizer):
    with pytest.raises(ppsim.Error, match=r"other parameters than it was given \(found a list, expected .*\['bias'\]"):
        runtime_of([*ADDED, "opt"], optimizer=optimizer)
