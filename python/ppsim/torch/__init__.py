"""PyTorch's pipeline schedules proved where they are made, and modules of your own run under a verified Program.

`check` and `program` import no torch; the rest does, when it is used first.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ppsim.torch.checks import check, program

if TYPE_CHECKING:
    from ppsim.torch.admission import transport_of as transport_of
    from ppsim.torch.flight_recorder import FlightReport as FlightReport
    from ppsim.torch.flight_recorder import read_dumps as read_dumps
    from ppsim.torch.meeting import prepare as prepare
    from ppsim.torch.profiling import profile as profile
    from ppsim.torch.runtime import Runtime as Runtime
    from ppsim.torch.runtime import Step as Step
    from ppsim.torch.watch import StepFailed as StepFailed

_LATE = {
    "FlightReport": "ppsim.torch.flight_recorder",
    "prepare": "ppsim.torch.meeting",
    "profile": "ppsim.torch.profiling",
    "read_dumps": "ppsim.torch.flight_recorder",
    "transport_of": "ppsim.torch.admission",
    "Runtime": "ppsim.torch.runtime",
    "Step": "ppsim.torch.runtime",
    "StepFailed": "ppsim.torch.watch",
}

__all__ = [
    "FlightReport",
    "Runtime",
    "Step",
    "StepFailed",
    "check",
    "prepare",
    "profile",
    "program",
    "read_dumps",
    "transport_of",
]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'ppsim.torch' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)
