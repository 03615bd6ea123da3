"""Pipeline-parallel schedules: what they cost, what memory they need, and that they cannot hang.

    import ppsim

    schedule = ppsim.generate("zb-v", ranks=4, microbatches=8)
    run = ppsim.simulate(schedule, unit={"F": 1, "I": 1, "W": 1})
    ppsim.check(schedule)

Units are in names: `_ns` nanoseconds, `_bytes` bytes. Whatever a call refuses is a ppsim.Error, which is a
ValueError. Guide and reference: docs/python.md.
"""

from ppsim import _native as _native  # first: it finds Z3
from ppsim._core import Program, Schedule, StepTimes
from ppsim.builder import ScheduleBuilder
from ppsim.calibration import Calibration, CalibrationGroup, Replay, ReplayedStep, calibrate, replay
from ppsim.comparison import Comparison, compare
from ppsim.cost_models import register_costs, unregister_costs
from ppsim.costs import Costs
from ppsim.effects import BreakEven, Jitter, Sensitivity, break_even, jitter, sensitivity
from ppsim.errors import (
    CheckFailed,
    Deadlock,
    DoesNotFit,
    Error,
    FileError,
    IllFormed,
    JobError,
    Mismatch,
    Unknown,
)
from ppsim.files import read, read_text, write
from ppsim.lowering import lower
from ppsim.planning import Plan, PlanRow, plan
from ppsim.registry import generate, register, schedules, unregister
from ppsim.search import Repair, Synthesis, repair, synthesize
from ppsim.simulation import Point, RankRun, Run, Slowdowns, simulate, simulate_many
from ppsim.studying import StudyResults, study
from ppsim.sweeping import sweep
from ppsim.targets import targets
from ppsim.verification import Certificate, PropertyVerdict, RankMemory, Verdict, check, verify

__version__: str = _native._core.version
#: Texts of the kinds of actions, by the number that Program.actions has.
op_kinds: tuple[str, ...] = tuple(_native._core.op_kinds())

__all__ = [
    "BreakEven",
    "Calibration",
    "CalibrationGroup",
    "Certificate",
    "CheckFailed",
    "Comparison",
    "Costs",
    "Deadlock",
    "DoesNotFit",
    "Error",
    "FileError",
    "IllFormed",
    "JobError",
    "Jitter",
    "Mismatch",
    "Plan",
    "PlanRow",
    "Point",
    "Program",
    "PropertyVerdict",
    "RankMemory",
    "RankRun",
    "Repair",
    "Replay",
    "ReplayedStep",
    "Run",
    "Schedule",
    "ScheduleBuilder",
    "Sensitivity",
    "Slowdowns",
    "StepTimes",
    "StudyResults",
    "Synthesis",
    "Unknown",
    "Verdict",
    "__version__",
    "break_even",
    "calibrate",
    "check",
    "compare",
    "generate",
    "jitter",
    "lower",
    "op_kinds",
    "plan",
    "read",
    "read_text",
    "register",
    "register_costs",
    "repair",
    "replay",
    "schedules",
    "sensitivity",
    "simulate",
    "simulate_many",
    "study",
    "sweep",
    "synthesize",
    "targets",
    "unregister",
    "unregister_costs",
    "verify",
    "write",
]
