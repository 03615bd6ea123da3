"""CSV files and job configs as tests: `pytest --ppsim 'schedules/*.csv'`, or `ppsim_files = schedules/*.csv
jobs/*.toml` in pytest.ini.

Each file that matches is one test, wherever pytest looks for tests of its own, and fails with the report of
`ppsim.torch.check`. A pattern that matches no file is an error.
"""

from __future__ import annotations

import glob
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

#: Of GitHub, for what failed.
_COMMANDS = pytest.StashKey[list[str]]()
#: Files that match a pattern of the command line, and of the configuration.
_ASKED = pytest.StashKey[frozenset[pathlib.Path]]()
_CONFIGURED = pytest.StashKey[frozenset[pathlib.Path]]()


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


def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    config.stash[_ASKED] = _files(config, "--ppsim ", config.getoption("--ppsim"))
    config.stash[_CONFIGURED] = _files(config, "ppsim_files = ", config.getini("ppsim_files"))


def pytest_collect_file(file_path: pathlib.Path, parent: pytest.Collector) -> pytest.Collector | None:
    path, stash = file_path.resolve(), parent.config.stash
    if path in stash[_ASKED] or path in stash[_CONFIGURED]:
        return ScheduleFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds what lies outside of the folders that pytest collects, before anything is deselected."""
    asked, configured = config.stash[_ASKED], config.stash[_CONFIGURED]
    wanted = asked if _names_files(config) else asked | configured
    missing = wanted - {item.path.resolve() for item in items if isinstance(item, ScheduleItem)}
    ignored = _ignored(config)
    for path in sorted(missing):
        if any(path.is_relative_to(folder) for folder in ignored):
            continue
        if not session.gethookproxy(path.parent).pytest_ignore_collect(collection_path=path, config=config):
            items.extend(session.genitems(ScheduleFile.from_parent(session, path=path)))


def _ignored(config: pytest.Config) -> list[pathlib.Path]:
    """The files and folders of --ignore, which pytest asks about before it comes to a file."""
    return [(config.invocation_params.dir / path).resolve() for path in config.getoption("ignore") or []]


def _files(config: pytest.Config, where: str, patterns: list[str]) -> frozenset[pathlib.Path]:
    """Raises UsageError for a pattern without files, which would prove nothing and pass."""
    found: set[pathlib.Path] = set()
    for pattern in patterns:
        matches = _matches(config.rootpath, pattern) or _matches(config.invocation_params.dir, pattern)
        if not matches:
            raise pytest.UsageError(f"{where}{pattern} matches no .csv or .toml file (looked in {config.rootpath})")
        found |= matches
    return frozenset(found)


def _matches(folder: pathlib.Path, pattern: str) -> set[pathlib.Path]:
    paths = {(folder / name).resolve() for name in glob.glob(pattern, root_dir=folder, recursive=True)}
    return {path for path in paths if path.suffix.lower() in (".csv", ".toml") and path.is_file()}


def _names_files(config: pytest.Config) -> bool:
    """Whether the command line has files or tests one by one, which are then what is asked for."""
    paths = [str(argument).split("::")[0] for argument in config.getoption("file_or_dir")]
    return bool(paths) and not any((config.invocation_params.dir / path).is_dir() for path in paths)


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
        from ppsim.torch.jobs import is_job

        check(
            self.path,
            target=self._setting("target") or None,
            transport=self._setting("transport"),
            communicators=self._setting("communicators") or None,
            layers=self.config.getoption("--ppsim-layers") if is_job(self.path) else None,
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
