"""Whether JAX is there; tests of the runtime are left out, and say so, where it is not."""

import importlib.util
import tempfile
import warnings

import pytest

DEVICES = 4
_COMPILED = tempfile.TemporaryDirectory(prefix="ppsim-jax-")


def jax_or_skip() -> None:
    """For the head of a module of tests: JAX with a device for each rank, and with float64."""
    if importlib.util.find_spec("jax") is None:
        text = "JAX is missing: the runtime for functions is NOT tested; `scripts/test --jax` does"
        warnings.warn(text, stacklevel=2)
        pytest.skip(text, allow_module_level=True)
    import jax

    jax.config.update("jax_num_cpu_devices", DEVICES)
    jax.config.update("jax_enable_x64", True)
    # The same stages are compiled for one schedule after another.
    jax.config.update("jax_compilation_cache_dir", _COMPILED.name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
