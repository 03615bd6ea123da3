"""Costs from measurements of your own, and measured steps with one thing changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.arguments import path as path_of
from ppsim.costs import Costs, sources_of
from ppsim.errors import Error
from ppsim.simulation import Run
from ppsim.values import Value

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


@dataclass(frozen=True)
class CalibrationGroup(Value):
    """How far costs are off for a kind of action, for communication or for the step, as shares.

    before: of the costs of the run; None: there are none
    after: of the calibrated ones
    other_half: of costs from every other observation, on those between them; None: there are too few
    """

    name: str
    observations: int
    measured_ns: float
    before: float | None
    after: float
    other_half: float | None


@dataclass(frozen=True)
class Calibration(Value):
    """Costs from measurements.

    factors: on the model's times of actions, by kind; empty without a model
    costs: the means of the measured times, of the Program that ran
    hash: as results name it
    left_out_steps: how many, because their durations are outliers
    varied: steps put together of ranks of different measured ones, with their gaps; None: of fewer than four steps, or of no time
    """

    groups: tuple[CalibrationGroup, ...]
    factors: Mapping[str, float] = field(hash=False)
    costs: Costs
    hash: str
    text: str
    left_out_steps: int = 0
    varied: CalibrationGroup | None = None

    def group(self, name: str) -> CalibrationGroup:
        """Raises KeyError."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(name)

    def write(self, path: str | os.PathLike[str]) -> None:
        """For Costs.from_model(calibration=path) and --calibration. Raises FileError."""
        _core.write_text(path_of("path", path), self.text)


@dataclass(frozen=True)
class ReplayedStep(Value):
    """The time of one of several steps, as measured and with a change."""

    measured_ns: int
    step_ns: int


@dataclass(frozen=True)
class Replay(Value):
    """A measured step, as its replay takes it, and with something changed.

    steps: all measured steps; the first one is the step above
    """

    measured_ns: int
    unchanged_ns: int
    step_ns: int
    steps: tuple[ReplayedStep, ...] = ()


@checked
def calibrate(
    run: Run | None = None,
    traces: Paths = (),
    *,
    nccl_tests: Mapping[str, str | os.PathLike[str]] | Paths = (),
    fit: str = "factors",
    all_steps: bool = False,
) -> Calibration:
    """Costs from traces of a run's Program and from output of nccl-tests.

    run: a simulation of what was traced; with the costs of a model, factors of that are found
    traces: `.csv` of ours, a step each, or a folder of them; or `.json` of torch.profiler, or `.sqlite` of nsys, of one step, all ranks
    nccl_tests: files, or {"all_reduce": file} where they do not say what they are of
    fit: factors, constants or both
    all_steps: keep steps whose durations are outliers; from eight steps on, these are left out
    Raises FileError for what is no such file, Error for traces of another model and where nothing is given.
    """
    words = _core.CalibrationWords()
    words.traces = _paths(traces)
    if words.traces and run is None:
        raise Error("traces are those of a run", expected="run=ppsim.simulate(...)")
    if all_steps and not words.traces:
        raise Error("steps are those of traces", expected="traces=")
    named = nccl_tests.items() if isinstance(nccl_tests, Mapping) else [("", path) for path in _paths(nccl_tests)]
    words.nccl_tests = [(operation, os.fspath(path)) for operation, path in named]
    words.fit = fit
    words.all_steps = all_steps
    step = run._step if run is not None and words.traces else None
    found = _core.calibrate(step, sources_of(run.costs if run is not None else None), words)
    return Calibration(
        groups=tuple(CalibrationGroup(**group) for group in found["groups"]),
        factors=dict(found["factors"]),
        costs=Costs.table(found["table"]),
        hash=found["hash"],
        text=found["text"],
        left_out_steps=found["left_out_steps"],
        varied=CalibrationGroup(**found["varied"]) if found["varied"] is not None else None,
    )


@checked
def replay(run: Run, traces: Paths, *, change: Mapping[str, float] | None = None, other: Run | None = None) -> Replay:
    """A measured step again, with costs times factors, such as {"rank:2": 1.3, "transfers": 0.5}, or in another order.

    run: a simulation of what was traced
    traces: as of calibrate; each step is replayed
    other: a simulation of the same actions in another order
    Raises FileError for what is no trace of the run, Error for a cost group or an action that it does not have.
    """
    found = _core.replay(run._step, _paths(traces), dict(change or {}), other._step if other else None)
    steps = tuple(ReplayedStep(*step) for step in found.pop("steps_ns"))
    return Replay(**found, steps=steps)


def _paths(paths: Paths) -> list[str]:
    """A text is a path and not one for each of its characters."""
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    return [path_of("a path", path) for path in several]
