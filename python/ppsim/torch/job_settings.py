"""The settings of a torchtitan job, in a TOML file, a dictionary or a config object, and where they are."""

from __future__ import annotations

import os
import pathlib
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from ppsim.errors import Error, FileError

#: What torchtitan takes where a key is missing; for keys without an entry nothing.
_DEFAULTS: dict[tuple[str, str], Any] = {
    ("training", "local_batch_size"): 8,
    ("parallelism", "pipeline_parallel_degree"): 1,
    ("parallelism", "pipeline_parallel_schedule"): "1F1B",
    ("parallelism", "pipeline_parallel_microbatch_size"): 1,
    ("parallelism", "pipeline_parallel_first_stage_less_layers"): 1,
    ("parallelism", "pipeline_parallel_last_stage_less_layers"): 1,
    ("compile", "enable"): False,
    ("compile", "components"): ("model", "loss"),
}


class JobSettings:
    """Keys of a config and where they are."""

    def __init__(self, config: Any) -> None:
        self.file, self._lines = "", []
        if isinstance(config, str | pathlib.PurePath):
            self.file = os.fspath(config)
            text = _text_of(self.file)
            self._lines = text.splitlines()
            config = _parsed(text, self.file)
        self._sections = config

    def given(self, section: str, key: str) -> Any:
        """None where it is missing."""
        return _item(_item(self._sections, section), key)

    def get(self, section: str, key: str) -> Any:
        value = self.given(section, key)
        return _DEFAULTS.get((section, key)) if value is None else value

    def keys(self, section: str) -> list[str]:
        """Of a file or dictionary; an object has only those that there are."""
        found = _item(self._sections, section)
        return list(found) if isinstance(found, Mapping) else []

    def number(self, section: str, key: str, min_value: int = 1) -> int:
        value = self.get(section, key)
        if isinstance(value, bool) or not isinstance(value, int) or value < min_value:
            expected = f"a whole number from {min_value} on"
            raise self.error(f"{section}.{key} is out of range", section, key, found=repr(value), expected=expected)
        return value

    def error(self, message: str, section: str, key: str, *, found: str = "", expected: str = "") -> Error:
        """A problem at the line of a key, or of its section, where the config is a file."""
        return Error(
            message, code="refused", file=self.file, row=self._line(section, key), found=found, expected=expected
        )

    def _line(self, section: str, key: str) -> int:
        inside, header = False, 0
        for number, line in enumerate(self._lines, 1):
            if match := re.match(r"\s*\[([^\[\]]+)\]", line):
                inside = match[1].strip() == section
                header = number if inside else header
            elif inside and re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", line):
                return number
        return header


def _text_of(file: str) -> str:
    try:
        return pathlib.Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise FileError(str(wrong), code="bad_file", file=file) from wrong


def _parsed(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        at = re.search(r"line (\d+), column (\d+)", str(wrong))
        row, column = (int(at[1]), int(at[2])) if at else (0, 0)
        raise FileError(f"no TOML: {wrong}", code="bad_file", file=file, row=row, column=column) from wrong


def _item(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
