"""What ppsim.jax does not ignore: arguments without use, effects, wide numbers in half precision, NumPy's default types."""

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
