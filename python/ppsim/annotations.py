"""Faults of a file, shown beside the lines of a change on GitHub."""

from __future__ import annotations

import os
import pathlib

from ppsim._native import _core
from ppsim.errors import CheckFailed, Error, JobError, Unknown


def github(error: Error, path: str | os.PathLike[str] = "") -> list[str]:
    """Workflow commands of GitHub for an Error: printed in a job, they are shown at the row and cell of the file.

    path: of what was checked; default: the file that the error names
    Returns one command for each cell of a counterexample, for each problem of a job, or one.
    """
    file = os.fspath(path) or error.file
    if isinstance(error, JobError):
        return [command for problem in error.problems for command in github(problem, problem.file or file)]
    text = _text_of(file)
    file = _shown(file)
    verdict = error.verdict if isinstance(error, CheckFailed | Unknown) else None
    if verdict is None:
        return [_core.github_error(_words(error, file), text)]
    wanted = "refuted" if any(p.verdict == "refuted" for p in verdict.properties.values()) else "unknown"
    commands = []
    for answer in verdict.properties.values():
        if answer.verdict == wanted:
            lines = answer.lines or [answer.reason]
            title = f"ppsim: {answer.name} is {wanted}"
            commands += _core.github_lines(title, lines, file, text)
    return commands or _core.github_lines("ppsim: does not fit", [str(error)], file, text)


def _shown(file: str) -> str:
    """GitHub knows files by their path in the repository, which jobs start in."""
    here = pathlib.Path.cwd()
    path = pathlib.Path(file)
    return os.fspath(path.relative_to(here)) if path.is_absolute() and path.is_relative_to(here) else file


def _words(error: Error, file: str) -> _core.ErrorWords:
    words = _core.ErrorWords()
    words.message, words.code, words.file = error.message, error.code, file
    words.found, words.expected = error.found, error.expected
    words.row, words.column = error.row, error.column
    return words


def _text_of(file: str) -> str:
    """Of a CSV, whose cells are looked up."""
    try:
        return pathlib.Path(file).read_text(encoding="utf-8") if file.endswith(".csv") else ""
    except (OSError, UnicodeDecodeError):
        return ""
