"""Cost models that are written in Python, for `ppsim --plugin FILE.py --costs NAME`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.costs import Costs, sources_of
from ppsim.errors import Error
from ppsim.registry import check_name


@dataclass(frozen=True)
class PipelineShape:
    """The pipeline that a cost model prices."""

    ranks: int
    microbatches: int
    slices: int
    rank_of_stage: tuple[int, ...]

    @property
    def stages(self) -> int:
        return len(self.rank_of_stage)


#: (pipeline, settings of `--costs NAME:key=value`, which are texts) -> costs, or what Costs.table takes
CostFunction = Callable[..., Costs | Mapping[str, Any] | str]


@dataclass(frozen=True)
class RegisteredCosts:
    """A cost model that is written in Python."""

    name: str
    function: CostFunction


_registered: dict[str, RegisteredCosts] = {}


@checked
def register_costs(name: str, function: CostFunction) -> None:
    """Makes a function known to the program as a cost model: `ppsim ... --plugin FILE.py --costs NAME:key=value`.

    function(pipeline, **settings) is told ranks, stages, microbatches, slices and rank_of_stage of a pipeline, and returns
    a Costs made by `unit`, `table` or `read`, or the contents of a `--costs` file. Settings are texts. It raises
    ValueError for what it has no costs for. Raises Error for a name that is not of letters, digits and dashes.
    """
    check_name(name)
    _registered[name] = RegisteredCosts(name, function)


@checked
def unregister_costs(name: str) -> None:
    """Forgets a cost model again."""
    _registered.pop(name, None)


def registered_costs() -> dict[str, RegisteredCosts]:
    """The cost models by name."""
    return dict(_registered)


def table_text(name: str, pipeline: PipelineShape, settings: Mapping[str, str]) -> str:
    """The table that a cost model gives for a pipeline, as JSON text."""
    costs = _registered[name].function(pipeline, **settings)
    if isinstance(costs, str):
        return costs
    if not isinstance(costs, Costs):
        return json.dumps(costs)
    if any(kind == "model" or (kind == "unit" and value[1]) for kind, value in costs._parts):
        raise Error(
            "these costs need the whole schedule",
            found=repr(costs),
            expected="Costs.unit without tokens, Costs.table or Costs.read",
        )
    # Units and tables are the same for every schedule.
    words = _core.GenerateWords()
    words.ranks = words.microbatches = 1
    return _core.bound_json(sources_of(costs), _core.generate("gpipe", words))
