"""Schedules and Programs in files."""

from __future__ import annotations

import os
from collections.abc import Callable

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.errors import Error, FileError, IllFormed
from ppsim.targets import check_alone

Ir = _core.Schedule | _core.Program


@checked
def read(
    path: str | os.PathLike[str], *, dialect: str = "auto", communicators: str | None = None
) -> _core.Schedule | _core.Program:
    """A native JSON file, or a PyTorch CSV: compute_only is a Schedule, compute_comms a Program.

    dialect: alphabet of a CSV: torch, legacy (before PR 138886: B is the input gradient, BW the full
    backward) or zero-bubble; auto: torch, or legacy for what is a schedule in that one alone
    communicators: of a compute_comms CSV, which names none, per-edge by default, or of a Program in place of its own:
    per-rank, per-pair, per-edge or per-stage-edge
    Raises FileError with row and column, IllFormed where the rows are no schedule; Error for a dialect of what is no
    CSV, and for communicators of a Schedule.
    """
    return with_communicators(read_for(path, dialect, communicators), communicators, path)


@checked
def read_text(
    text: str, *, name: str = "<text>", dialect: str = "auto", communicators: str | None = None
) -> _core.Schedule | _core.Program:
    """The same from a text; `name` is the file in messages."""
    return with_communicators(read_text_for(text, name, dialect, communicators), communicators, name)


def read_for(path: str | os.PathLike[str], dialect: str, communicators: str | None) -> Ir:
    """What a file has, a CSV under these communicators; what has its own keeps them."""
    policy = "per-edge" if communicators is None else communicators
    return _in_dialect(dialect, lambda known: _core.read(os.fspath(path), known, policy))


def read_text_for(text: str, name: str, dialect: str, communicators: str | None) -> Ir:
    policy = "per-edge" if communicators is None else communicators
    return _in_dialect(dialect, lambda known: _core.read_text(text, name, known, policy))


def with_communicators(value: Ir, communicators: str | None, source: object) -> Ir:
    """A Program with the communicators that are named, if any. Raises Error where a Schedule is to have some."""
    if communicators is None:
        return value
    if isinstance(value, _core.Schedule):
        found = f"communicators={communicators!r} with {named(source)}"
        raise Error("a Schedule has no communicators", found=found, expected="a Program")
    return value.with_communicators(communicators)


def named(source: object) -> str:
    """What a message calls the source of a schedule."""
    return os.fspath(source) if isinstance(source, str | os.PathLike) else type(source).__name__


def _in_dialect(dialect: str, reader: Callable[[str], Ir]) -> Ir:
    if dialect != "auto":
        return reader(dialect)
    try:
        return reader("torch")
    except (FileError, IllFormed) as wrong:
        try:
            return reader("legacy")
        except Error:
            raise wrong from None


@checked
def write(
    value: _core.Schedule | _core.Program,
    path: str | os.PathLike[str],
    *,
    dialect: str | None = None,
    target: str | None = None,
) -> None:
    """PyTorch's CSV for a path that ends in .csv, else native JSON. Replaces the file in one step.

    dialect: torch (the default), torch-2.15 (with WAIT cells), legacy or zero-bubble
    target: torch-2.15, torch-2.14, legacy or jaxpp-0.9.2: the file that the release loads, in its dialect, proved if it
    is a Program
    Raises Error for what the CSV cannot hold, FileError where the file cannot be written.
    """
    name = os.fspath(path)
    check_alone(target, dialect=dialect)
    if target is not None:
        _core.write_text(name, _core.text_for(value, target, name))
        return
    is_csv = name.lower().endswith(".csv")
    if dialect is not None and not is_csv:
        raise Error("dialect is for a CSV", found=f"dialect={dialect!r}, {name}", expected="a path that ends in .csv")
    text = value.to_csv("torch" if dialect is None else dialect) if is_csv else value.to_json()
    _core.write_text(name, text)
