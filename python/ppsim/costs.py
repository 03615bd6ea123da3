"""Where costs and sizes come from."""

from __future__ import annotations

import json
import operator
import os
import pathlib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ppsim._native import _core
from ppsim.arguments import checked, number, text
from ppsim.errors import Error, FileError

#: The defaults of from_model, and the words that its text names first.
_WORDS = {
    "dtype": "bf16", "recompute": "none", "rank_order": "tp-cp-dp-pp", "layout": "even", "stack": "megatron-core",
}
_COUNTS = (
    "nodes",
    "tp",
    "pp",
    "dp",
    "cp",
    "ep",
    "microbatch_size",
    "global_batch_size",
    "sequence_length",
)


class Costs:
    """Durations of actions and sizes of tensors. Make one with `unit`, `table`, `read` or `from_model`.

    `a | b`: what b has a price of costs what b says, everything else what a says. `unit` has one of every action, also
    of those that it does not name: to change some prices of a table or a model, give them as a table.
    """

    __slots__ = ("_parts", "_sources")

    def __init__(self, parts: tuple[tuple[str, Any], ...]) -> None:
        if not parts:
            raise Error("there are no costs", expected="Costs.unit, Costs.table, Costs.read or Costs.from_model")
        self._parts = parts
        self._sources = [_source(kind, value) for kind, value in parts]

    @classmethod
    def unit(cls, *, tokens: str = "", **units: float) -> Costs:
        """Costs of one stage's actions: F, B, I, W, R, FB (overlapped F and B), c (one transfer).

        Units: 1 is 1,000,000 ns. A: bytes of one saved stage activation. B defaults to I + W and, where
        it is given, I and W to its halves or what the other leaves of it; FB to F + B; everything else but F, I,
        W and R, which are 1, to 0. `tokens`: what the slices of a sequence
        cost, as `--token-costs` reads it.
        """
        return cls((("unit", (_unit_text(units), text("tokens", tokens))),))  # not `checked`: sweeps make many

    @classmethod
    @checked
    def table(cls, tables: Mapping[str, Any] | str) -> Costs:
        """A table per stage and kind: the contents of a `--costs` file, as a dictionary or JSON text."""
        text = tables if isinstance(tables, str) else _table_text(tables)
        return cls((("table", text),))

    @classmethod
    @checked
    def read(cls, path: str | os.PathLike[str]) -> Costs:
        """A table of costs and sizes in a JSON file. Raises FileError."""
        return cls((("table", _core.Source.table(_text_of(path), os.fspath(path)).table_json()),))

    @classmethod
    def from_kineto(
        cls, traces: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, transfer_ns: int = 0
    ) -> Costs:
        """Times of F, B, I, W and overlapped pairs of each stage in traces of torch.profiler, one a rank, or in
        one.

        Medians of the ranges `PP:0F0`, of the GPU where it has any. transfer_ns: of one transfer, which its
        range does not say
        Raises FileError for what is no trace of a pipeline.
        """
        from ppsim.kineto import costs_from_kineto  # which makes Costs

        return costs_from_kineto(traces, transfer_ns=transfer_ns)

    @classmethod
    @checked
    def from_model(
        cls,
        model: str | os.PathLike[str],
        cluster: str | os.PathLike[str],
        *,
        dtype: str = "bf16",
        recompute: str = "none",
        rank_order: str = "tp-cp-dp-pp",
        layout: str = "even",
        stack: str | os.PathLike[str] = "megatron-core",
        calibration: str | os.PathLike[str] | None = None,
        fsdp: bool = False,
        **counts: int,
    ) -> Costs:
        """An estimate from measured operators.

        model: a name of `ppsim list models`, with `:layers=42,...` over it, or a Hugging Face config.json
        cluster: a name of `ppsim list clusters`, or a JSON description
        stack: what the software does, a name or a JSON description
        calibration: a file that ppsim.calibrate or `ppsim calibrate` wrote
        fsdp: parameters are sharded over dp and cp
        counts: nodes, tp, pp, dp, cp, ep, microbatch_size, global_batch_size, sequence_length; each 1, the
        model's sequence length
        """
        for name in counts:
            if name not in _COUNTS:
                raise Error(f"unknown argument {name}", found=name, expected=", ".join(_COUNTS))
        texts = {
            "model": str(model),
            "cluster": str(cluster),
            "dtype": dtype,
            "recompute": recompute,
            "rank_order": rank_order,
            "layout": layout,
            "stack": str(stack),
        }
        if calibration is not None:
            texts["calibration"] = os.fspath(calibration)
        if fsdp:
            texts["fsdp"] = "on"
        return cls((("model", (tuple(texts.items()), tuple(sorted(counts.items())))),))

    def __or__(self, other: Costs) -> Costs:
        if not isinstance(other, Costs):
            return NotImplemented
        return Costs(self._parts + other._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Costs) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __repr__(self) -> str:
        return " | ".join(_part_text(kind, value) for kind, value in self._parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return Costs, (self._parts,)

    @property
    def by_stage(self) -> bool:
        """Whether some stages may cost more than others."""
        return any(kind != "unit" for kind, _ in self._parts)

    @checked
    def bound(self, schedule: _core.Schedule) -> str:
        """The table that these costs are for one schedule's pipeline, as JSON text."""
        return _core.bound_json(self._sources, schedule)

    def to_json(self) -> str:
        return json.dumps(self._parts)

    @classmethod
    def from_json(cls, text: str) -> Costs:
        """The inverse of to_json. Raises FileError."""
        try:
            return cls(_as_tuples(json.loads(text)))
        except FileError:
            raise
        except (TypeError, LookupError, ValueError, RecursionError) as wrong:
            raise FileError(
                f"no costs: {wrong}", code="bad_file", expected="the text of Costs.to_json"
            ) from wrong


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list) else value


def _text_of(path: str | os.PathLike[str]) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as wrong:
        raise FileError(str(wrong), code="bad_file", file=os.fspath(path)) from wrong


def _table_text(tables: Mapping[str, Any]) -> str:
    try:
        return json.dumps(tables, default=operator.index)  # whole numbers of NumPy, too
    except (TypeError, ValueError) as wrong:
        raise Error(f"no table of costs: {wrong}", expected="what a file of costs has") from wrong


def _unit_text(units: Mapping[str, float]) -> str:
    for name in units:
        if not name.isidentifier():  # "F=5,B" would be two
            raise Error("unknown unit cost", found=name, expected="F, B, I, W, R, FB, c or A")
    return ",".join(f"{name}={_decimal(name, value)}" for name, value in sorted(units.items())) or "F=1"


def _decimal(name: str, value: float) -> str:
    """Without an exponent, which the C++ reader of units takes for a mistake."""
    digits = str(number(name, value))
    return digits if digits.replace(".", "", 1).isdigit() else format(Decimal(digits), "f")


def _source(kind: str, value: Any) -> _core.Source:
    if kind == "unit":
        return _core.Source.units(*value)
    if kind == "table":
        return _core.Source.table(value, "<table>")
    if kind == "model":
        return _core.Source.model(dict(value[0]), dict(value[1]))
    raise KeyError(kind)


def _part_text(kind: str, value: Any) -> str:
    if kind == "unit":
        return f"Costs.unit({value[0]})" if not value[1] else f"Costs.unit({value[0]}, tokens={value[1]!r})"
    if kind == "table":
        return f"Costs.table(<{len(value)} characters>)"
    named = dict(value[0])
    words = "".join(
        ", fsdp=True" if name == "fsdp" else f", {name}={word!r}"
        for name, word in value[0][2:]
        if word != _WORDS.get(name)
    )
    counts = "".join(f", {name}={count}" for name, count in value[1])
    return f"Costs.from_model({named['model']!r}, {named['cluster']!r}{words}{counts})"


def costs_of(costs: Costs | None, unit: Mapping[str, float] | None) -> Costs | None:
    """The costs that `costs=` and `unit=` of a call give together."""
    if costs is not None and unit is not None:
        raise Error("give costs= or unit=, not both")
    return Costs((("unit", (_unit_text(unit), "")),)) if unit is not None else costs


def sources_of(costs: Costs | None) -> list[_core.Source]:
    return [] if costs is None else costs._sources
