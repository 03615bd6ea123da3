"""The best parallelism and schedule for a model, a batch and a cluster."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ppsim._native import _core
from ppsim.arguments import Long, checked
from ppsim.errors import DoesNotFit, Error, FileError
from ppsim.values import Value


@dataclass(frozen=True)
class PlanRow(Value):
    """A plan, and what the simulator says of it.

    name: all of it as text; microbatch_size: sequences; recompute, layout: as `ppsim simulate` takes them
    layers_ns, bubble_ns, communication_ns, step_end_ns: parts of step_ns, in the mean over ranks
    peak_bytes: of the fullest rank, with what its communicators take
    why_slower: than the first of its list
    """

    name: str
    schedule: str
    chunks: int | None
    nodes: int
    tp: int
    pp: int
    dp: int
    cp: int
    ep: int
    microbatch_size: int
    microbatches: int
    dtype: str
    fsdp: bool
    recompute: str
    layout: str
    step_ns: int
    layers_ns: int
    bubble_ns: int
    communication_ns: int
    step_end_ns: int
    peak_bytes: int
    memory_limit_bytes: int
    tokens_per_second: float
    model_flops_utilization: float
    why_slower: str = ""


@dataclass(frozen=True)
class Plan:
    """The best plans of all that there are.

    plans: the best first; pareto: those that need less memory for a little more time
    verified: what is proved of the best, by the name of the property
    fastest_misfit: which would be faster, and does not fit
    unused: numbers that were asked for and that no plan can have, beside others: "tp=64" on 16 GPUs
    not_modelled: what the costs leave out; known_error: of simulations of the nearest measured runs
    bounded, simulated: how many plans were looked at; what was left out is slower, by its bound, or does not fit
    """

    plans: list[PlanRow] = field(hash=False)
    pareto: list[PlanRow] = field(hash=False)
    verified: dict[str, str] = field(hash=False)
    not_modelled: str
    known_error: str
    bounded: int
    simulated: int
    unused: list[str] = field(default_factory=list, hash=False)
    fastest_misfit: PlanRow | None = None

    @property
    def best(self) -> PlanRow:
        return self.plans[0]

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a plan, for a DataFrame."""
        return [asdict(row) for row in self.plans]

    def __str__(self) -> str:
        lines = [f"{'step':>10}  {'bubble':>10}  {'peak memory':>11}  {'tokens/s':>10}  MFU     plan"]
        for row in self.plans:
            lines.append(
                f"{row.step_ns / 1e9:8.3f} s  {row.bubble_ns / 1e9:8.3f} s  {row.peak_bytes / 1e9:8.2f} GB  "
                f"{row.tokens_per_second:10.0f}  {row.model_flops_utilization:6.1%}  {row.name}"
            )
        if self.unused:
            lines.append(f"no plan can have {', '.join(self.unused)}")
        return "\n".join([*lines, f"not modelled: {self.not_modelled}", f"known error: {self.known_error}"])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The inverse of to_json. Raises FileError."""
        try:
            return _plan(json.loads(text))
        except (TypeError, KeyError, AttributeError, json.JSONDecodeError) as wrong:
            raise FileError(f"no plan: {wrong}", code="bad_file", expected="the text of Plan.to_json") from wrong


@checked
def plan(
    *,
    model: str | os.PathLike[str],
    cluster: str | os.PathLike[str],
    nodes: int | Sequence[int],
    global_batch_size: int,
    fixed: Mapping[str, object] | None = None,
    objective: str = "time",
    min_spare_memory: str | Long = "",
    top: int = 10,
    front: float = 1.02,
    transport: str = "",
    sequence_length: int = 0,
    stack: str | os.PathLike[str] = "megatron-core",
    rank_order: str = "tp-cp-dp-pp",
    pipeline_only: bool = False,
) -> Plan:
    """The fastest plans, by a search that leaves nothing better out (docs/plan.md); the best is verified.

    model, cluster, stack, rank_order, sequence_length (0: the model's): as in Costs.from_model
    nodes: of the cluster, or several numbers of them; global_batch_size: sequences
    fixed: values of tp, pp, dp, cp, ep, microbatch-size, schedule, chunks, layout, recompute, dtype and fsdp, one or
    a list; what is not there is searched
    objective: time, tokens-per-dollar or memory; front: how much worse plans with less memory may be
    transport: what the best is verified for, "" for any; pipeline_only: without what follows the pipeline
    Ctrl-C ends it. Raises DoesNotFit with the plan that misses the memory by least; Error for values that are none.
    """
    words = _core.PlanWords()
    words.model, words.cluster, words.stack, words.rank_order = str(model), str(cluster), str(stack), rank_order
    words.nodes = [nodes] if isinstance(nodes, int) else list(nodes)
    if not words.nodes or min(words.nodes) < 1 or global_batch_size < 1 or top < 1 or not 1 <= front <= 100:
        raise Error(
            "a count is out of range",
            found=f"nodes={nodes}, global_batch_size={global_batch_size}, top={top}, front={front}",
            expected="1 or more of each, and front up to 100",
        )
    words.global_batch_size, words.sequence_length = global_batch_size, sequence_length
    words.fixed = {key.replace("_", "-"): _texts(value) for key, value in (fixed or {}).items()}
    if empty := [key for key, values in words.fixed.items() if not values]:
        raise Error(f"no value is given for {empty[0]}", found="an empty list", expected="one or more values, or no such key")
    words.objective, words.transport, words.min_spare = objective, transport, str(min_spare_memory)
    words.top, words.front, words.pipeline_only = top, front, pipeline_only
    data = dict(_core.plan(words))
    if not data["plans"]:
        tightest = data.get("tightest")
        least = f": the least is {tightest['peak_bytes']} bytes, of {tightest['name']}" if tightest else ""
        unused = f"; no plan can have {', '.join(data['unused'])}" if data["unused"] else ""
        raise DoesNotFit(f"no plan fits{least}{unused}", code="does_not_fit", property="memory", counterexample=tightest)
    data.pop("tightest", None)
    return _plan(data)


def _plan(data: dict[str, Any]) -> Plan:
    misfit = data.get("fastest_misfit")
    return Plan(
        **{
            **data,
            "plans": [PlanRow(**row) for row in data["plans"]],
            "pareto": [PlanRow(**row) for row in data["pareto"]],
            "fastest_misfit": misfit and PlanRow(**misfit),
        }
    )


def _texts(value: object) -> list[str]:
    several = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return [("on" if item else "off") if isinstance(item, bool) else str(item) for item in several]
