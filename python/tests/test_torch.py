"""The schedules and files of torch.distributed.pipelining, without torch."""

import enum
import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass
from typing import NamedTuple

import pytest

import ppsim
import ppsim.torch

DATA = pathlib.Path(__file__).parents[2] / "tests" / "data"


class Kind(enum.Enum):
    F, B, SEND_F, RECV_F, SEND_B, RECV_B = "F", "B", "SEND_F", "RECV_F", "SEND_B", "RECV_B"


class Action(NamedTuple):
    """As torch's _Action prints itself."""

    stage_index: int
    computation_type: Kind
    microbatch_index: int | None = None

    def __str__(self) -> str:
        return f"{self.stage_index}{self.computation_type.value}{self.microbatch_index}"


def order(rows: list[list[tuple[int, str, int] | None]]) -> dict[int, list[Action | None]]:
    return {
        rank: [None if cell is None else Action(cell[0], Kind(cell[1]), cell[2]) for cell in row]
        for rank, row in enumerate(rows)
    }


@dataclass
class PipelineSchedule:
    pipeline_order: dict[int, list[Action | None]]


COMPUTE = order([[(0, "F", 0), None, None, (0, "B", 0)], [None, (1, "F", 0), (1, "B", 0)]])


@pytest.mark.parametrize("schedule", [COMPUTE, PipelineSchedule(COMPUTE)], ids=["dictionary", "object"])
def test_orders_are_proved(schedule):
    assert isinstance(ppsim.torch.program(schedule), ppsim.Schedule)
    assert ppsim.torch.check(schedule).ok


def test_paths_are_checked_for_the_transport_that_runs():
    path = DATA / "deferred_receives.csv"
    with pytest.raises(ppsim.Deadlock):
        ppsim.torch.check(path, communicators="per-rank")
    with pytest.raises(ppsim.Deadlock):
        ppsim.torch.check(str(path))
    with pytest.raises(ppsim.Error):
        ppsim.torch.check("missing.csv")


def test_a_program_is_checked_with_the_communicators_that_are_named(tmp_path):
    program = ppsim.lower(ppsim.generate("1f1b", ranks=4, microbatches=8), order="just-in-time")
    ppsim.write(program, tmp_path / "program.json")
    for given in (program, str(tmp_path / "program.json")):
        assert ppsim.torch.check(given).program == program, "without a name it keeps its own"
        with pytest.raises(ppsim.Deadlock):
            ppsim.torch.check(given, communicators="per-rank")
        with pytest.raises(ppsim.Error, match="unknown"):
            ppsim.torch.check(given, communicators="junk")
    assert ppsim.torch.program(program, communicators="per-rank") == program.with_communicators("per-rank")
    with pytest.raises(ppsim.Error, match="a dialect is the alphabet of a CSV"):
        ppsim.torch.program(program, dialect="legacy")
    for target in (None, "torch-2.15"):
        for given in (program, ppsim.generate("1f1b", ranks=4, microbatches=8), {"parallelism": {}}):
            with pytest.raises(ppsim.Error, match="a dialect is the alphabet of a CSV"):
                ppsim.torch.check(given, target=target, dialect="legacy")
    rows = {0: ["0F0", "0B0"]}
    for given, target in ((ppsim.generate("1f1b", ranks=4, microbatches=8), None), (rows, None), (rows, "torch-2.15")):
        with pytest.raises(ppsim.Error, match="a Schedule has no communicators"):
            ppsim.torch.program(given, communicators="per-rank", target=target)
    with pytest.raises(ppsim.Error, match="unknown"):
        ppsim.torch.check(rows, communicators="")
    assert ppsim.torch.program(program, dialect="auto") == program
    assert ppsim.torch.check(rows, communicators="per-rank"), "which lowers it"
    for target in (None, "torch-2.15"):
        known = ppsim.torch.program(tmp_path / "program.json", communicators="per-rank", target=target)
        assert known.communicators == ["world"]
    with pytest.raises(ppsim.Error, match="alphabet of a CSV .found dialect=.legacy. with .*program.json"):
        ppsim.torch.program(tmp_path / "program.json", dialect="legacy")
    with pytest.raises(ppsim.Error, match="layers are those of a job"):
        ppsim.torch.check(program, layers=4)
    with pytest.raises(ppsim.Error, match="a target decides this"):
        ppsim.torch.check(DATA / "deferred_receives.csv", target="torch-2.15", dialect="legacy")


def test_what_is_no_schedule_is_refused():
    with pytest.raises(ppsim.Error, match="pipeline_order"):
        ppsim.torch.check(17)
    with pytest.raises(ppsim.Error, match="row for each rank"):
        ppsim.torch.check({0: [], 2: []})
    with pytest.raises(ppsim.Error, match="row for each rank"):
        ppsim.torch.check({0: ["0F0"], "a": ["0B0"]})
    for row in (None, 7, "0F0"):
        with pytest.raises(ppsim.Error, match="row of rank 0 is no list"):
            ppsim.torch.check({0: row})
    with pytest.raises(ppsim.FileError, match="<pipeline_order>:1:1"):
        ppsim.torch.check({0: ["0X0"]})


def test_the_plugin_makes_a_test_of_each_file(tmp_path):
    (tmp_path / "good.csv").write_text(ppsim.generate("1f1b", ranks=2, microbatches=2).to_csv())
    (tmp_path / "bad.csv").write_text((DATA / "deferred_receives.csv").read_text())
    command = [sys.executable, "-m", "pytest", "-p", "ppsim.pytest_plugin", "--ppsim", "*.csv"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=alone)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "deadlock_free is refuted" in done.stdout


WITHOUT = [["0F0", "0SEND_F0", "0RECV_B0", "0B0"], ["1RECV_F0", "1F0", "1B0", "1SEND_B0"]]


def test_a_release_is_part_of_the_answer():
    assert ppsim.targets() == ["torch-2.15", "torch-2.14", "legacy", "jaxpp-0.9.2"]
    assert ppsim.torch.check(COMPUTE, target="torch-2.15").transport.startswith("nccl")
    with pytest.raises(ppsim.Error, match="nothing waits") as refused:
        ppsim.torch.check(WITHOUT, target="torch-2.15")
    assert refused.value.code == "refused" and refused.value.row == 1
    with pytest.raises(ppsim.Error, match="other gradients"):
        ppsim.torch.check(WITHOUT, target="torch-2.14")
    with pytest.raises(ppsim.Error, match="unknown target"):
        ppsim.torch.check(WITHOUT, target="torch-1")


def test_what_is_written_for_a_release_is_what_it_loads(tmp_path):
    schedule = ppsim.generate("zb-v", ranks=2, microbatches=4)
    for target, order in (("torch-2.15", "just-in-time"), ("torch-2.14", "timed")):
        path = tmp_path / f"{target}.csv"
        ppsim.write(ppsim.lower(schedule, target=target, order=order), path, target=target)
        assert ppsim.torch.check(path, target=target).ok
    with pytest.raises(ppsim.Error):
        ppsim.lower(schedule, target="torch-2.15", grouping="paired")


def test_lists_of_get_schedule_ops_are_taken():
    assert ppsim.torch.check([["0F0", None, "0B0"], ["1F0", "1B0"]]).ok


def test_the_plugin_asks_about_a_release(tmp_path):
    (tmp_path / "bad.csv").write_text((DATA / "deferred_receives.csv").read_text())
    command = [sys.executable, "-m", "pytest", "-p", "ppsim.pytest_plugin", "--ppsim", "*.csv"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, "--ppsim-target", "torch-2.14"], capture_output=True, text=True, cwd=tmp_path, env=alone
    )
    assert "1 failed" in done.stdout and "other gradients" in done.stdout, done.stdout + done.stderr
