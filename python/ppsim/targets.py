"""Releases of PyTorch and JaxPP: what each loads, runs and computes."""

from __future__ import annotations

import os

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.errors import Error


def targets() -> list[str]:
    """The names that `target=` takes."""
    return list(_core.target_names())


@checked
def load(
    path: str | os.PathLike[str], *, target: str, communicators: str | None = None
) -> _core.Schedule | _core.Program:
    """A CSV as the release reads it.

    Raises Error (code refused) for what it would not load, FileError for what is no file of its alphabet.
    """
    return _core.load_file_for(os.fspath(path), target, communicators)


@checked
def load_text(
    text: str, *, target: str, communicators: str | None = None, name: str = "<text>"
) -> _core.Schedule | _core.Program:
    """The same of a text; `name` is the file in messages."""
    return _core.load_for(text, name, target, communicators)


@checked
def program_for(
    value: _core.Schedule | _core.Program, *, target: str, communicators: str | None = None
) -> _core.Program:
    """The Program that the release runs: a Schedule in its own lowering, a Program with its communicators.

    Raises Error (code refused) for what it would not run, and for what gives other gradients.
    """
    return _core.program_for(value, target, communicators)


def check_alone(target: str | None, **others: object) -> None:
    """Raises Error where something is given that a target decides."""
    given = [name for name, value in others.items() if value is not None]
    if target is not None and given:
        raise Error("a target decides this", found=", ".join(given), expected=f"target={target!r} alone")
