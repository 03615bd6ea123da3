"""Dumps in the format of PyTorch's flight recorder, made here: the reader needs no torch."""

import pathlib
import pickle

import pytest

import ppsim
from ppsim.execution import Plan
from ppsim.torch import flight_recorder


@pytest.fixture
def program() -> ppsim.Program:
    return ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=4), with_="reduce-grad")


def entry(group: str, op: int, name: str, state: str) -> dict:
    """With what PyTorch 2.15 writes of a call."""
    return {
        "record_id": op, "pg_id": 1, "process_group": ("3", f"ppsim {group}"), "collective_seq_id": 0, "p2p_seq_id": op,
        "op_id": op, "profiling_name": name, "time_created_ns": 10 * op, "input_sizes": [[3, 8]],
        "input_dtypes": ["Float"], "output_sizes": [[3, 8]], "output_dtypes": ["Float"], "state": state,
        "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": state == "completed",
        "timeout_ms": 600000, "is_p2p": True, "frames": [{"name": "exchange", "filename": "transfers.py", "line": 1}],
    }


def write(path: pathlib.Path, entries: list[dict]) -> pathlib.Path:
    dump = {"version": "2.10", "pg_config": {"3": {"name": "3", "desc": "", "ranks": "[0, 1]"}}, "pg_status": {},
            "entries": entries}
    path.write_bytes(pickle.dumps(dump))
    return path


def calls(
    program: ppsim.Program, rank: int, done: dict[str, int], steps: int = 1, running: str = ""
) -> list[dict]:
    """Returns the records of a rank: one call when channels open, then those of the steps.

    done: complete calls of the last step; running: the group whose next call has started on the device
    """
    result = []
    for number, group in enumerate(program.communicators):
        every = [a for a in Plan(program, rank, "nccl").actions() if a.communicator == number]
        if len(Plan(program, rank, "nccl").members[number]) < 2 or not every:
            continue
        for count in range(1 + len(every) * steps):
            action = every[(count - 1) % len(every)]
            name = "nccl:send 0->1" if action.sends else "nccl:recv 1<-0"
            left = count - 1 - len(every) * (steps - 1) - done.get(group, 0)
            state = "completed" if left < 0 else "started" if left == 0 and group == running else "scheduled"
            result.append(entry(group, count + 1, name, state))
    return result


def test_a_dump_says_who_waits_for_whom(program, tmp_path):
    paths = {
        0: write(tmp_path / "nccl_trace_rank_0", calls(program, 0, {"0>1": 2}, running="1>0")),
        1: write(tmp_path / "nccl_trace_rank_1", calls(program, 1, {"0>1": 2})[:-4]),
    }
    report = flight_recorder.read_dumps(program, paths)
    assert report.step == 1
    assert "0RECV_B0" in report.positions[0]
    assert any(line.startswith("rank 0: 0RECV_B0 waits for rank 1: 1SEND_B0") for line in report.lines), str(report)


def test_the_slowest_rank_says_which_step(program, tmp_path):
    paths = {
        0: write(tmp_path / "r0", calls(program, 0, {"0>1": 1}, steps=3)),
        1: write(tmp_path / "r1", calls(program, 1, {"0>1": 4, "1>0": 4}, steps=2)),
    }
    report = flight_recorder.read_dumps(program, paths)
    assert report.step == 2
    assert any("rank 0 is between instructions" in line for line in report.lines)


def test_a_rank_without_a_dump_is_not_known(program, tmp_path):
    path = write(tmp_path / "r0", calls(program, 0, {"0>1": 2}))
    assert any("rank 1 did not answer" in line for line in flight_recorder.read_dumps(program, {0: path}).lines)


def test_files_that_are_no_dumps_are_refused(program, tmp_path):
    broken = tmp_path / "r0"
    for content in (b"", b"hello", pickle.dumps({"entries": [1]}), pickle.dumps(pathlib.Path("x"))):
        broken.write_bytes(content)
        with pytest.raises(ppsim.FileError, match="no dump of the flight recorder"):
            flight_recorder.read_dumps(program, {0: broken})
    with pytest.raises(ppsim.FileError):
        flight_recorder.read_dumps(program, {0: tmp_path / "missing"})
    foreign = write(tmp_path / "foreign", [entry("x", 1, "nccl:all_reduce", "completed")])
    with pytest.raises(ppsim.Error, match="no call of these dumps"):
        flight_recorder.read_dumps(program, {0: foreign})


def test_the_command_line(program, tmp_path, capsys):
    ppsim.write(program, tmp_path / "program.json")
    dump = write(tmp_path / "nccl_trace_rank_0", calls(program, 0, {"0>1": 2}, running="1>0"))
    assert flight_recorder.main([str(tmp_path / "program.json"), str(dump)]) == 0
    assert "0RECV_B0 waits for rank 1: 1SEND_B0" in capsys.readouterr().out
    assert flight_recorder.main([str(tmp_path / "program.json"), str(tmp_path / "rank")]) == 2
    assert flight_recorder.main([]) == 2
