"""Arguments of calls, held against their annotations: one of another type is an Error that names it."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, ParamSpec, TypeVar

from ppsim.errors import Error

P = ParamSpec("P")
R = TypeVar("R")

#: A whole number of 64 bits, such as bytes. Plain ones are counts, of 32 bits.
Long = Annotated[int, 64]

#: Gives the value, or what the C++ side takes for it. Raises _OtherTypeError.
Taker = Callable[[Any], Any]

_WORDS = {
    str: "a text",
    bool: "True or False",
    float: "a number",
    int: "a whole number",
    types.NoneType: "None",
    Mapping: "a dictionary",
    dict: "a dictionary",
    Callable: "a function",
    os.PathLike: "a path",
}
_WITH_ITEMS = (Iterable, Sequence, Mapping, dict)
_LONGEST = 60


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which refuses arguments that are not what their annotations say before it does anything.

    Whole numbers of NumPy become those of Python, and what is iterated over a list. A missing or unknown name is
    a TypeError, as everywhere in Python.
    """

    @functools.cache
    def known() -> tuple[inspect.Signature, dict[str, tuple[Any, Taker]]]:
        signature = inspect.signature(function)
        kinds = {name: _annotation(parameter, function) for name, parameter in signature.parameters.items()}
        return signature, {name: (kind, _taker(kind)) for name, kind in kinds.items()}

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        signature, takers = known()
        try:
            bound = signature.bind(*args, **named)
        except TypeError as wrong:
            raise TypeError(f"{function.__name__}() {wrong}") from None
        for name, value in bound.arguments.items():
            if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {key: _take(key, item, *takers[name]) for key, item in value.items()}
            else:
                bound.arguments[name] = _take(name, value, *takers[name])
        return function(*bound.args, **bound.kwargs)

    return call


def count(name: str, value: Any) -> int:
    """The value as a whole number of 32 bits, for calls that are too many to be `checked`. Raises Error."""
    return int(_take(name, value, int, _count))


def whole(name: str, value: Any) -> int:
    """The value as a whole number of 64 bits, where an annotation is not `checked`. Raises Error."""
    return int(_take(name, value, Long, _long))


def number(name: str, value: Any) -> int | float | Decimal:
    """The value as a number, for calls that are too many. Raises Error."""
    taken: int | float | Decimal = _take(name, value, float, _number)
    return taken


def path(name: str, value: Any) -> str:
    """The value as a path, where an annotation is not `checked`. Raises Error."""
    return str(os.fspath(_take(name, value, str | os.PathLike, _path)))


def text(name: str, value: Any) -> str:
    """The value as a text, where an annotation allows more. Raises Error."""
    return str(_take(name, value, str, _unicode))


def _take(name: str, value: Any, kind: Any, taker: Taker) -> Any:
    try:
        return taker(value)
    except _OtherTypeError as wrong:
        found = wrong.found or _shown(value)
        found = found if len(found) <= _LONGEST else f"{found[:_LONGEST]}..."
        raise Error(f"{name} is {wrong.what}", found=found, expected=wrong.expected or _words(kind)) from None


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # more digits than Python prints
        return "a number of very many digits"


class _OtherTypeError(Exception):
    """Not what iterating over an argument raises, which is the caller's."""

    what = "of another type"
    expected = ""
    found = ""  # the item of a dictionary that it is about


class _OutOfRangeError(_OtherTypeError):
    """Of the right type."""

    what = "out of range"

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


class _Names(dict[str, Any]):
    """Those that annotations use; what type checkers alone see may be anything."""

    def __missing__(self, name: str) -> Any:
        return Any


def _annotation(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    annotation = parameter.annotation
    if not isinstance(annotation, str):
        return Any
    return eval(annotation, _Names({**vars(builtins), **function.__globals__}))


def _taker(kind: Any) -> Taker:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or kind is object:
        return lambda value: value
    if origin is Annotated:
        return _long
    if kind in _TAKERS:
        return _TAKERS[kind]
    if origin in (typing.Union, types.UnionType):
        if of_paths := [one for one in inner if (typing.get_origin(one) or one) is os.PathLike]:
            rest = [one for one in inner if one not in (str, *of_paths)]
            return _first_of([_path, *map(_taker, rest)])
        plain = all(isinstance(one, type) and one not in _TAKERS for one in inner)
        return _instance_of(inner) if plain else _first_of([_taker(one) for one in inner])
    if origin is tuple:
        return _tuple_of([_taker(one) for one in inner])
    if origin in (Iterable, Sequence):
        return _list_of(_taker(inner[0]))
    if origin in (Mapping, dict):
        return _mapping_of(origin, *map(_taker, inner))
    return _instance_of(origin or kind)


def _count(value: Any) -> int:
    return _within(value, 2**31)


def _long(value: Any) -> int:
    return _within(value, 2**63)


def _within(value: Any, limit: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _OtherTypeError
    try:
        whole_number = operator.index(value)
    except TypeError:  # an array of several
        raise _OtherTypeError from None
    if not -limit <= whole_number < limit:
        raise _OutOfRangeError(f"a whole number from {-limit} to {limit - 1}")
    return whole_number


def _number(value: Any) -> Any:
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise _OtherTypeError
    try:
        number = float(value)
    except OverflowError:
        raise _OutOfRangeError("a number") from None
    except (TypeError, ValueError):
        raise _OtherTypeError from None
    if math.isnan(number):
        raise _OutOfRangeError("a number")
    return value if type(value) in (int, float, Decimal) else number  # a cost prints as it was written


def _unicode(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() and _is_half(value):
        raise _OtherTypeError
    return value


def _path(value: Any) -> Any:
    if not isinstance(value, str | os.PathLike):
        raise _OtherTypeError
    name = os.fspath(value)
    if not isinstance(name, str):
        raise _OtherTypeError
    if not name or "\0" in name or _is_half(name):
        raise _NoPathError
    return value


class _NoPathError(_OtherTypeError):
    """Of the right type, but there is no such file in any folder."""

    what = "no path"
    expected = "one of UTF-8, which is not empty"


def _is_half(value: str) -> bool:
    """Whether it has surrogates, which are no text for C++."""
    return any("\ud800" <= character <= "\udfff" for character in value)


_TAKERS: dict[Any, Taker] = {int: _count, float: _number, str: _unicode}


def _first_of(takers: Sequence[Taker]) -> Taker:
    def take(value: Any) -> Any:
        failure = _OtherTypeError()
        for taker in takers:
            try:
                return taker(value)
            except _OtherTypeError as wrong:
                if wrong.found or wrong.expected:  # it says more than that no type fits
                    failure = wrong
        raise failure

    return take


def _tuple_of(takers: Sequence[Taker]) -> Taker:
    def take(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, tuple | list) or len(value) != len(takers):
            raise _OtherTypeError
        return tuple(taker(item) for taker, item in zip(takers, value, strict=True))

    return take


def _list_of(taker: Taker) -> Taker:
    def take(value: Any) -> list[Any]:
        if isinstance(value, str | bytes) or not isinstance(value, Iterable):
            raise _OtherTypeError
        return [taker(item) for item in value]

    return take


def _mapping_of(kind: type[Mapping[Any, Any]], key: Taker, item: Taker) -> Taker:
    def take(value: Any) -> dict[Any, Any]:
        if not isinstance(value, kind):
            raise _OtherTypeError
        return {key(name): _item_of(value, name, item) for name in value}

    return take


def _item_of(value: Mapping[Any, Any], name: Any, taker: Taker) -> Any:
    try:
        return taker(value[name])
    except _OtherTypeError as wrong:
        wrong.found = f"{name!r}: {value[name]!r}"
        raise


def _instance_of(kind: type | tuple[type, ...]) -> Taker:
    def take(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _OtherTypeError
        return value

    return take


def _words(kind: Any) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        # Those with items come last: what stood after them would seem to be an item.
        with_items = [one for one in inner if typing.get_origin(one) in _WITH_ITEMS]
        plain = " or ".join(_words(one) for one in inner if one not in with_items)
        return ", or ".join(filter(None, [plain, *map(_words, with_items)]))
    if origin is Annotated:
        return _WORDS[int]
    if origin is tuple:
        return f"({', '.join(map(_words, inner))})"
    if origin in _WITH_ITEMS:
        of = ("",) if len(inner) == 1 else (" key", " value")
        parts = [f", each{which} {_words(item)}" for which, item in zip(of, inner, strict=True) if item is not Any]
        return "".join(["a list" if len(inner) == 1 else "a dictionary", *parts])
    return _WORDS.get(origin or kind) or _with_article(getattr(kind, "__name__", str(kind)))


def _with_article(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"
