"""Results to JSON text and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, Self

import ppsim
from ppsim.errors import FileError

#: By their own texts, under their names, as other values are.
_OBJECTS = ("Schedule", "Program", "Run", "Certificate", "Costs")


class Value:
    """A dataclass of numbers, texts, and what has texts of its own; alone, in rows or in dictionaries."""

    def to_json(self) -> str:
        """The same as text."""
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
        except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as wrong:
            raise FileError(f"no {cls.__name__}: {wrong}", code="bad_file",
                            expected=f"the text of {cls.__name__}.to_json") from wrong


def _format(kind: type) -> str:
    return f"ppsim-{kind.__name__.lower()}"


def _to_data(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_to_data(item) for item in value]
    if isinstance(value, Mapping):
        return {"dict": {key: _to_data(item) for key, item in value.items()}}
    if isinstance(value, Fraction):
        return {"Fraction": str(value)}
    if isinstance(value, Value) or type(value).__name__ in _OBJECTS:
        return {type(value).__name__: value.to_json()}
    return value


def _from_data(data: Any) -> Any:
    if isinstance(data, list):
        return [_from_data(item) for item in data]
    if not isinstance(data, dict):
        return data
    ((name, inner),) = data.items()
    if name == "dict":
        return {key: _from_data(item) for key, item in inner.items()}
    return Fraction(inner) if name == "Fraction" else _kind(name).from_json(inner)


def _kind(name: str) -> Any:
    kind = getattr(ppsim, name, None)
    if name not in _OBJECTS and not (isinstance(kind, type) and issubclass(kind, Value)):
        raise KeyError(name)
    return kind
