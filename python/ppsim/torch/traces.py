"""What the steps took, in the format of the simulator."""

from __future__ import annotations

import csv
import io
import json
import time
from collections import deque
from typing import Any

from ppsim.costs import Costs
from ppsim.errors import Error
from ppsim.torch.plan import Plan
from ppsim.torch.watch import Look, get, own_place

_HEADER = ("rank", "queue", "index", "instruction", "start_ns", "end_ns")


class Traces:
    """The newest steps of this rank, and those of all ranks when they are asked for."""

    def __init__(self, plan: Plan, store: Any, kept: int) -> None:
        self._plan, self._store = plan, store
        self._spans: deque[list[tuple[int, int]]] = deque(maxlen=max(kept, 1))
        self._gathered = 0

    def add(self, spans: list[tuple[int, int]]) -> None:
        self._spans.append(spans)

    def gather(self, look: Look) -> list[str]:
        """A CSV for each kept step, on every rank. All call it."""
        if not self._spans:
            raise Error("no step was run yet")
        self._gathered += 1
        prefix = f"trace/{self._gathered}"
        mine = {"clock": _clock(), "steps": [[list(span) for span in spans] for spans in self._spans]}
        self._store.set(f"{prefix}/{self._plan.rank}", json.dumps(mine))
        ranks = range(self._plan.program.ranks)
        all_of = [json.loads(get(self._store, f"{prefix}/{rank}", look)) for rank in ranks]
        offsets = [_offset(one["clock"], all_of[0]["clock"]) for one in all_of]
        steps = min(len(one["steps"]) for one in all_of)
        return [
            self._text([(one["steps"][step - steps], offset) for one, offset in zip(all_of, offsets, strict=True)])
            for step in range(steps)
        ]

    def _text(self, ranks: list[tuple[list[list[int]], int]]) -> str:
        first = min(spans[i][0] + offset for spans, offset in ranks for i in range(len(spans)))
        execution, program = self._plan.execution, self._plan.program
        queues, names, texts = execution.queues, execution.queue_names, execution.texts
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_HEADER)
        for rank, (spans, offset) in enumerate(ranks):
            for index, (start, end) in enumerate(spans):
                number = program.first[rank] + index
                queue = "+".join(names[queue] for queue in queues[number])
                writer.writerow((rank, queue, index, texts[number], start + offset - first, end + offset - first))
        return out.getvalue()


def costs_of_traces(plan: Plan, texts: list[str]) -> Costs:
    """Means and spread over all steps but the first."""
    return Costs.table(plan.execution.measured(texts[1:] or texts))


def _clock() -> dict[str, Any]:
    """Processes of one host share a clock; others compare by the time of day, which NTP keeps."""
    return {"boot": own_place()["boot"], "difference": time.time_ns() - time.monotonic_ns()}


def _offset(mine: dict[str, Any], reference: dict[str, Any]) -> int:
    return 0 if mine["boot"] == reference["boot"] else int(mine["difference"]) - int(reference["difference"])
