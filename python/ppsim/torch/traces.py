"""Times of the steps, in the format of the simulator."""

from __future__ import annotations

import json
import time
from collections import deque
from typing import Any

from ppsim.errors import Error
from ppsim.execution import Plan
from ppsim.torch.watch import Look, get, own_place


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
        return self._plan.trace([(start + by, end + by) for spans, by in ranks for start, end in spans])


def _clock() -> dict[str, Any]:
    """Processes of one host share a clock; others compare by the time of day, which NTP keeps."""
    return {"boot": own_place()["boot"], "difference": time.time_ns() - time.monotonic_ns()}


def _offset(mine: dict[str, Any], reference: dict[str, Any]) -> int:
    return 0 if mine["boot"] == reference["boot"] else int(mine["difference"]) - int(reference["difference"])
