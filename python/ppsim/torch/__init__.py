"""PyTorch's pipeline schedules proved where they are made, and modules of your own run under a verified Program.

`check` and `program` import no torch; the rest does, when it is used first.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ppsim.torch.checks import check, program

if TYPE_CHECKING:
    from ppsim.torch.runtime import Runtime as Runtime
    from ppsim.torch.runtime import Step as Step
    from ppsim.torch.watch import StepFailed as StepFailed

_LATE = {
    "Runtime": "ppsim.torch.runtime",
    "Step": "ppsim.torch.runtime",
    "StepFailed": "ppsim.torch.watch",
}

__all__ = ["Runtime", "Step", "StepFailed", "check", "program"]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'ppsim.torch' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)
