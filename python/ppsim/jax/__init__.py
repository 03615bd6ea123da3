"""Functions of JAX, cut into stages by `enter_stage`, run under a verified Program.

`import ppsim` imports no jax; this package does, when one of its names is used first.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ppsim.jax.marker import enter_stage as enter_stage
    from ppsim.jax.plain import plain_step as plain_step
    from ppsim.jax.processes import prepare as prepare
    from ppsim.jax.profiling import profile as profile
    from ppsim.jax.runtime import TRANSPORT as TRANSPORT
    from ppsim.jax.runtime import Runtime as Runtime
    from ppsim.jax.runtime import Step as Step
    from ppsim.jax.ties import tied as tied

_LATE = {
    "TRANSPORT": "ppsim.jax.runtime",
    "Runtime": "ppsim.jax.runtime",
    "Step": "ppsim.jax.runtime",
    "enter_stage": "ppsim.jax.marker",
    "plain_step": "ppsim.jax.plain",
    "prepare": "ppsim.jax.processes",
    "profile": "ppsim.jax.profiling",
    "tied": "ppsim.jax.ties",
}

__all__ = ["TRANSPORT", "Runtime", "Step", "enter_stage", "plain_step", "prepare", "profile", "tied"]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'ppsim.jax' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)
