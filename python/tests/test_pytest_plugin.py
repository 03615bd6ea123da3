"""The pytest plugin, in folders as users have them."""

import os
import pathlib
import subprocess
import sys

import pytest

import ppsim

DATA = pathlib.Path(__file__).parents[2] / "tests" / "data"


@pytest.fixture
def project(tmp_path: pathlib.Path) -> pathlib.Path:
    """Schedules beside the tests, one of which hangs."""
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\nppsim_files = schedules/*.csv\n")
    for folder in ("tests", "schedules"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tests" / "test_own.py").write_text("def test_own():\n    pass\n")
    (tmp_path / "schedules" / "good.csv").write_text(ppsim.generate("1f1b", ranks=2, microbatches=4).to_csv())
    (tmp_path / "schedules" / "hangs.csv").write_text((DATA / "deferred_receives.csv").read_text())
    return tmp_path


def run(folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "ppsim.pytest_plugin", "--ppsim-communicators", "per-rank"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=folder, env=alone)


@pytest.mark.parametrize(
    "arguments, outcome",
    [
        ((), "1 failed, 2 passed"),  # testpaths name another folder
        (("tests",), "1 failed, 2 passed"),
        ((".",), "1 failed, 2 passed"),  # which has them, too
        ((".", "schedules/hangs.csv"), "1 failed, 2 passed"),
        (("--ppsim", "schedules/h*.csv", "--ppsim", "schedules/hangs.csv"), "1 failed, 2 passed"),
        (("-k", "hangs"), "1 failed, 2 deselected"),
        (("--ignore", "schedules/hangs.csv"), "2 passed"),
        (("--ignore", "schedules"), "1 passed"),
        (("tests/test_own.py",), "1 passed"),  # files named one by one are what is asked for
        (("schedules/hangs.csv",), "1 failed in"),
        (("tests/test_own.py", "--ppsim", "schedules/good.csv"), "2 passed"),
    ],
)
def test_every_file_of_a_pattern_is_one_test(project, arguments, outcome):
    done = run(project, *arguments)
    assert f"= {outcome}" in done.stdout, done.stdout + done.stderr
    if "failed" in outcome:
        assert "deadlock_free is refuted" in done.stdout


def test_patterns_begin_at_the_root_or_where_pytest_began(project):
    (project / "schedules" / "more").mkdir()
    (project / "schedules" / "hangs.csv").rename(project / "schedules" / "more" / "hangs.csv")
    assert "= 2 passed" in run(project / "tests", "--ppsim", "schedules/*.csv").stdout
    assert "1 failed, 2 passed" in run(project, "--ppsim", "schedules/**/*.csv").stdout
    assert "1 failed, 2 passed" in run(project, "--ppsim", str(project / "schedules" / "more" / "*")).stdout
    assert "1 failed, 1 passed" in run(project / "schedules", "--ppsim", "more/*.csv").stdout


@pytest.mark.parametrize("pattern", ["schedule/*.csv", "tests/*"])
def test_a_pattern_of_no_file_is_an_error(project, pattern):
    done = run(project, "--ppsim", pattern)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and f"--ppsim {pattern}" in done.stderr, done.stdout
    ini = project / "pytest.ini"
    ini.write_text(ini.read_text().replace("schedules/*.csv", pattern))
    done = run(project)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and f"ppsim_files = {pattern}" in done.stderr, done.stdout
    assert run(project, "--help").returncode == 0
