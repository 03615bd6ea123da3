"""CSV files and job configs as tests: `pytest --ppsim 'schedules/*.csv'`, or `ppsim_files = schedules/*.csv
jobs/*.toml` in pytest.ini.

Each file that matches is one test, which fails with the report of `ppsim.torch.check`.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

#: Of GitHub, for what failed.
_COMMANDS = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ppsim")
    group.addoption(
        "--ppsim",
        action="append",
        default=[],
        metavar="GLOB",
        help="CSV schedules and job configs of torchtitan (.toml) to prove; may be repeated",
    )
    group.addoption("--ppsim-transport", default=None, help="what has to be safe (nccl)")
    group.addoption("--ppsim-communicators", default=None, help="of the process groups (per-pair)")
    group.addoption("--ppsim-target", default=None, help="a release of PyTorch instead: torch-2.15, torch-2.14, legacy")
    group.addoption("--ppsim-annotations", choices=["github"], help="print what is wrong for GitHub, too")
    group.addoption("--ppsim-layers", type=int, help="of the model, for jobs with pipeline_parallel_layers_per_stage")
    parser.addini("ppsim_files", "CSV schedules and job configs to prove", type="args", default=[])
    parser.addini("ppsim_transport", "what has to be safe", default="nccl")
    parser.addini("ppsim_communicators", "of the process groups", default="")
    parser.addini("ppsim_target", "a release of PyTorch instead of a transport", default="")


def pytest_collect_file(file_path: pathlib.Path, parent: pytest.Collector) -> pytest.Collector | None:
    config = parent.config
    patterns = [*config.getoption("--ppsim"), *config.getini("ppsim_files")]
    if file_path.suffix in (".csv", ".toml") and any(file_path.match(pattern) for pattern in patterns):
        return ScheduleFile.from_parent(parent, path=file_path)
    return None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Commands stand at the beginning of a line, and behind what pytest captures."""
    for command in config.stash.get(_COMMANDS, []):
        terminalreporter.write_line(command)


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
            layers=self.config.getoption("--ppsim-layers"),
        )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from ppsim.annotations import github
        from ppsim.errors import Error

        if not isinstance(excinfo.value, Error):
            return super().repr_failure(excinfo)
        if self.config.getoption("--ppsim-annotations"):
            self.config.stash.setdefault(_COMMANDS, []).extend(github(excinfo.value, self.path))
        return str(excinfo.value)

    def reportinfo(self) -> tuple[pathlib.Path, int | None, str]:
        return self.path, None, f"ppsim: {self.path.name}"

    def _setting(self, name: str) -> str:
        return str(self.config.getoption(f"--ppsim-{name}") or self.config.getini(f"ppsim_{name}"))
