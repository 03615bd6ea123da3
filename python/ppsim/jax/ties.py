"""Schedules that know of a function's tied weights."""

from __future__ import annotations

import json
from typing import Any

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.execution import Plan
from ppsim.files import read_text
from ppsim.jax.layout import Layout
from ppsim.jax.split import LossFunction, split
from ppsim.lowering import lower


@checked
def tied(schedule: _core.Schedule, loss_function: LossFunction, params: Any, microbatch: Any) -> _core.Schedule:
    """The same schedule with a block for each set of stages that read a parameter together.

    microbatch: arrays or shapes of one. Lowered with reduce-grad, gradients of tied weights are added up across
    their ranks; with opt, each rank updates its copy. Raises Error where the function does not fit the schedule.
    """
    layout = Layout(Plan.of_all_ranks(lower(schedule), "in-process"), split(loss_function, params, microbatch))
    blocks = [sorted(stages) for stages in layout.plan.execution.blocks]
    added = [list(stages) for stages in dict.fromkeys(tuple(layout.stages[number]) for number in layout.loose)]
    if not added:
        return schedule
    text = json.loads(schedule.to_json())
    text["pipeline"]["blocks"] = blocks + added
    result = read_text(json.dumps(text))
    assert isinstance(result, _core.Schedule)
    return result
