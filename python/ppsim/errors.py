"""Errors as exceptions with fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ppsim.verification import Verdict


class Error(ValueError):
    """A mistake of the caller, and the base of all exceptions of ppsim.

    code: bad_argument, bad_file, does_not_fit, ill_formed, deadlock, refused, io or unknown
    message: what was wrong, without the place
    file, row, column: where in a file, 1-based; "" and 0 where that does not apply
    found, expected: what was there, and what would be right
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "bad_argument",
        file: str = "",
        row: int = 0,
        column: int = 0,
        found: str = "",
        expected: str = "",
    ) -> None:
        self.code = code
        self.message = message
        self.file, self.row, self.column = file, row, column
        self.found, self.expected = found, expected
        super().__init__(message)

    @property
    def place(self) -> str:
        """ "file:row:column", as far as it is known."""
        return ":".join(str(part) for part in (self.file, self.row, self.column) if part)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        details = []
        if self.found:
            details.append(f"found {self.found}")
        if self.expected:
            details.append(f"expected {self.expected}")
        return f"{text} ({', '.join(details)})" if details else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), dict(self.__dict__))


class FileError(Error):
    """A file that cannot be read, or written, as what it should be."""


class JobError(Error):
    """Settings of a job config that do not go together.

    problems: each as an Error with its file, row, found and expected; file and row are those of the first
    """

    def __init__(self, problems: Sequence[Error]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__("\n".join(str(problem) for problem in problems), code="refused", file=first.file, row=first.row)

    def __str__(self) -> str:
        return self.message


class CheckFailed(Error):
    """A property that does not hold.

    property: its name, such as "deadlock_free"
    counterexample: why, as data under the keys of `ppsim verify --json`; empty where there is no Program to verify, as of
    a Schedule whose rows wait for each other: then the message has it all
    verdict: of all properties, where `check` raised it
    """

    def __init__(
        self,
        message: str,
        *,
        property: str = "",
        counterexample: dict[str, Any] | None = None,
        verdict: Verdict | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(message, **fields)
        self.property = property
        self.counterexample = counterexample or {}
        self.verdict = verdict


class IllFormed(CheckFailed):
    """Actions are missing, doubled or out of order, or a tensor is used before it is there."""


class Mismatch(CheckFailed):
    """Two ends of a transfer or collective name different things: data would be mixed up."""


class Deadlock(CheckFailed):
    """It can hang: the message and the counterexample say who waits for whom."""


class DoesNotFit(CheckFailed):
    """A rank can need more memory than the limit, or no schedule keeps to it."""


class Unknown(Error):
    """Not decided within the limits of time and memory.

    verdict: what was decided before, where `check` raised it
    """

    def __init__(self, message: str, *, verdict: Verdict | None = None, **fields: Any) -> None:
        super().__init__(message, code="unknown", **fields)
        self.verdict = verdict


_BY_CODE: dict[str, type[Error]] = {
    "bad_file": FileError,
    "io": FileError,
    "ill_formed": IllFormed,
    "deadlock": Deadlock,
    "does_not_fit": DoesNotFit,
}


_PROPERTIES = {"ill_formed": "well_formed", "deadlock": "deadlock_free", "does_not_fit": "memory"}


def _restored(kind: type[Error], fields: dict[str, Any]) -> Error:
    error = kind.__new__(kind, fields["message"])
    error.__dict__.update(fields)
    return error


def from_core(
    code: str, message: str, file: str, row: int, column: int, found: str, expected: str
) -> Error:
    """The exception for an Error of the C++ libraries."""
    error = _BY_CODE.get(code, Error)(
        _in_python(message),
        code=code,
        file=file,
        row=row,
        column=column,
        found=_in_python(found) if _is_choice(found) else found,
        expected=_in_python(expected),
    )
    if isinstance(error, CheckFailed):
        error.property = _PROPERTIES[code]
    return error


#: Options of the program that are arguments under other names, or whose value is a text.
_RENAMED = {"for": "target", "fix": "fixed"}
_WITH_TEXT = ("for", "dialect", "order")
_COUNTED = ("activation-limit", "costs", "grouping", "layers", "memory-limit", "microbatches", "model", "ranks",
            "ranks-per-node", "receive-buffers")
_OPTION = re.compile(
    rf"(?<![\w-])--(?:(?P<text>{'|'.join(_WITH_TEXT)})(?: (?P<value>[\w.:-]*\w))?"
    rf"|(?P<other>fix|{'|'.join(_COUNTED)})(?: (?P<letter>[MP]))?)(?![\w-])"
    r"(?P<then> (?=--\w))?"
)


def _in_python(words: str) -> str:
    """Options of the program as what they are in a call: --memory-limit is memory_limit=."""
    if "ppsim " in words:  # a command, which is to be typed as it is
        return words
    return re.sub(f'"[^"]*"|{_OPTION.pattern}', _argument, words)


def _is_choice(found: str) -> bool:
    """Whether it is an option with its value, and no text of the caller's."""
    option = _OPTION.fullmatch(found)
    return option is not None and option["value"] is not None


def _argument(option: re.Match[str]) -> str:
    name = option["text"] or option["other"]
    if not name:  # quoted: a text of the caller's
        return option[0]
    value = f'"{option["value"]}"' if option["value"] else option["letter"] or ""
    return f"{_RENAMED.get(name, name.replace('-', '_'))}={value}{', ' if option['then'] else ''}"
