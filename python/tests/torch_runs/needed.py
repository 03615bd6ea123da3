"""Whether PyTorch is there; tests of the runtime are left out, and say so, where it is not."""

import importlib.util
import warnings

import pytest


def torch_or_skip() -> None:
    """For the head of a module of tests."""
    if importlib.util.find_spec("torch") is None:
        text = "PyTorch is missing: the runtime for modules is NOT tested; `scripts/test --torch` does"
        warnings.warn(text, stacklevel=2)
        pytest.skip(text, allow_module_level=True)
