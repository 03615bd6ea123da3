"""The settings of a torchtitan job, in a TOML file, a dictionary or a config object, and where they are."""

from __future__ import annotations

import difflib
import os
import pathlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from ppsim.errors import Error, FileError

#: torchtitan's values of missing keys; keys without an entry have none.
_DEFAULTS: dict[tuple[str, str], Any] = {
    ("training", "local_batch_size"): 8,
    ("parallelism", "data_parallel_shard_degree"): -1,
    ("parallelism", "tensor_parallel_degree"): 1,
    ("parallelism", "context_parallel_degree"): 1,
    ("parallelism", "expert_parallel_degree"): 1,
    ("parallelism", "pipeline_parallel_degree"): 1,
    ("parallelism", "pipeline_parallel_schedule"): "1F1B",
    ("parallelism", "pipeline_parallel_microbatch_size"): 1,
    ("parallelism", "pipeline_parallel_first_stage_less_layers"): 1,
    ("parallelism", "pipeline_parallel_last_stage_less_layers"): 1,
    ("compile", "enable"): False,
    ("compile", "components"): ("model", "loss"),
}
PP = "pipeline_parallel_"
#: Keys that releases of torchtitan read; of training those that can be mistaken for each other.
_READ = {
    "parallelism": (
        *(
            PP + key
            for key in (
                "degree",
                "schedule",
                "schedule_csv",
                "microbatch_size",
                "layers_per_stage",
                "first_stage_less_layers",
                "last_stage_less_layers",
                "expert_parallel_overlap",
            )
        ),
        "module_fqns_per_model_part",
    ),
    "training": ("local_batch_size", "global_batch_size"),
    "compile": ("enable", "components"),
}
#: Keys that older releases had under other names, which newer ones do not read.
_RENAMED = {
    ("training", "batch_size"): "local_batch_size",
    ("parallelism", PP + "split_points"): "module_fqns_per_model_part",
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

    def unread(self) -> Iterator[Error]:
        """A key that torchtitan does not read says nothing, and looks as if it did."""
        for section in _READ:
            for key in self._keys(section):
                if (section, key) not in _RENAMED and (meant := _meant(section, key)):
                    yield self.error("torchtitan reads no such key", section, key, found=key, expected=meant)
        for (section, key), meant in _RENAMED.items():
            if self.given(section, key) is not None:
                yield self.error("torchtitan reads no such key", section, key, found=key, expected=meant)

    def number(self, section: str, key: str, min_value: int = 1) -> int:
        expected = f"a whole number from {min_value} on"
        value = self.typed(section, key, int, expected)
        if value < min_value:
            raise self.error(f"{section}.{key} is out of range", section, key, found=repr(value), expected=expected)
        return int(value)

    def typed(self, section: str, key: str, kind: type | tuple[type, ...], expected: str) -> Any:
        """A value, or its default, that is of a type; a bool is no number."""
        value = self.get(section, key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self._of_another_type(section, key, value, expected)
        return value

    def names(self, section: str, key: str) -> list[str]:
        value = self.typed(section, key, (list, tuple), "a list of names")
        if not _are_names(value):
            raise self._of_another_type(section, key, value, "a list of names")
        return list(value)

    def modules(self) -> list[list[str]]:
        """Of each stage; none where they are not given."""
        section, key, expected = "parallelism", "module_fqns_per_model_part", "a list of names for each stage"
        if self.given(section, key) is None:
            return []
        value = self.typed(section, key, (list, tuple), expected)
        if not all(isinstance(names, list | tuple) and _are_names(names) for names in value):
            raise self._of_another_type(section, key, value, expected)
        return list(value)

    def error(self, message: str, section: str, key: str, *, found: str = "", expected: str = "") -> Error:
        """A problem at the line of a key, or of its section, where the config is a file."""
        return Error(
            message, code="refused", file=self.file, row=self._line(section, key), found=found, expected=expected
        )

    def _of_another_type(self, section: str, key: str, value: Any, expected: str) -> Error:
        found = f"{value!r} of type {type(value).__name__}"
        return self.error(f"{section}.{key} is of another type", section, key, found=found, expected=expected)

    def _keys(self, section: str) -> list[str]:
        """Of a file or dictionary; an object has only those that there are."""
        found = _item(self._sections, section)
        if isinstance(found, str | int | float | list | tuple):
            raise self.error(f"{section} is of another type", section, "", found=repr(found), expected="a table")
        return [str(key) for key in found] if isinstance(found, Mapping) else []

    def _line(self, section: str, key: str) -> int:
        inside, header = False, 0
        for number, line in enumerate(self._lines, 1):
            if match := re.match(r"\s*\[([^\[\]]+)\]", line):
                inside = match[1].strip() == section
                header = number if inside else header
            elif inside and re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", line):
                return number
        return header


def _meant(section: str, key: str) -> str:
    """The key that another one is a slip of; "" for one that is none, such as those of other parts of a section."""
    read = _READ[section]
    if key in read:
        return ""
    near = difflib.get_close_matches(key, read, 1, 0.9)
    return near[0] if near else ", ".join(read) if key.startswith(PP) else ""


def _are_names(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


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
