"""CSV files as tests: `pytest --ppsim schedules/*.csv`, or `ppsim_files = schedules/*.csv` in pytest.ini.

Each file that matches is one test, which fails with the report of `ppsim.torch.check`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ppsim")
    group.addoption(
        "--ppsim", action="append", default=[], metavar="GLOB", help="CSV schedules to prove; may be repeated"
    )
    group.addoption("--ppsim-transport", default=None, help="what has to be safe (nccl)")
    group.addoption("--ppsim-communicators", default=None, help="of the process groups (per-pair)")
    group.addoption("--ppsim-target", default=None, help="a release of PyTorch instead: torch-2.15, torch-2.14, legacy")
    parser.addini("ppsim_files", "CSV schedules to prove", type="args", default=[])
    parser.addini("ppsim_transport", "what has to be safe", default="nccl")
    parser.addini("ppsim_communicators", "of the process groups", default="")
    parser.addini("ppsim_target", "a release of PyTorch instead of a transport", default="")


def pytest_collect_file(file_path: pathlib.Path, parent: pytest.Collector) -> pytest.Collector | None:
    config = parent.config
    patterns = [*config.getoption("--ppsim"), *config.getini("ppsim_files")]
    if file_path.suffix == ".csv" and any(file_path.match(pattern) for pattern in patterns):
        return ScheduleFile.from_parent(parent, path=file_path)
    return None


class ScheduleFile(pytest.File):
    """A schedule."""

    def collect(self) -> Iterator[pytest.Item]:
        yield ScheduleItem.from_parent(self, name="ppsim")


class ScheduleItem(pytest.Item):
    """Its check."""

    def runtest(self) -> None:
        from ppsim.torch import check  # not at the top: a plugin is imported by every run of pytest

        check(
            self.path,
            target=self._setting("target") or None,
            transport=self._setting("transport"),
            communicators=self._setting("communicators") or None,
        )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from ppsim.errors import Error

        return str(excinfo.value) if isinstance(excinfo.value, Error) else super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[pathlib.Path, int | None, str]:
        return self.path, None, f"ppsim: {self.path.name}"

    def _setting(self, name: str) -> str:
        return str(self.config.getoption(f"--ppsim-{name}") or self.config.getini(f"ppsim_{name}"))
