"""Results to JSON text and back."""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction
from typing import Any, Self

import ppsim
from ppsim.errors import FileError

#: By their own texts, under their names.
_OBJECTS = ("Schedule", "Program", "Run", "Certificate")


class Value:
    """A dataclass of numbers, texts, and what has texts of its own, alone or in a row."""

    def to_json(self) -> str:
        named = {field.name: _to_data(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return json.dumps({"format": _format(type(self)), **named})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of to_json. Raises FileError."""
        try:
            data = json.loads(text)
            if data.pop("format") != _format(cls):
                raise KeyError("format")
            rows = {field.name for field in fields(cls) if str(field.type).startswith("tuple")}  # type: ignore[arg-type]
            named = {name: _from_data(value) for name, value in data.items()}
            return cls(**{name: tuple(value) if name in rows else value for name, value in named.items()})
        except (TypeError, KeyError, AttributeError, ValueError) as wrong:
            raise FileError(f"no {cls.__name__}: {wrong}", code="bad_file",
                            expected=f"the text of {cls.__name__}.to_json") from wrong


def _format(kind: type) -> str:
    return f"ppsim-{kind.__name__.lower()}"


def _to_data(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_to_data(item) for item in value]
    if isinstance(value, Fraction):
        return {"Fraction": str(value)}
    if type(value).__name__ in _OBJECTS:
        return {type(value).__name__: value.to_json()}
    return value


def _from_data(data: Any) -> Any:
    if isinstance(data, list):
        return [_from_data(item) for item in data]
    if not isinstance(data, dict):
        return data
    ((name, text),) = data.items()
    return Fraction(text) if name == "Fraction" else getattr(ppsim, name).from_json(text)
