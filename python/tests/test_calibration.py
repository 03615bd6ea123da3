"""Costs from traces and nccl-tests, and replayed steps."""

import pytest

import ppsim

JOB = {"tp": 4, "pp": 2, "global_batch_size": 4}

OUTPUT = """# Using devices
#  Rank  0 Group  0 Pid   6899 on node-a device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   6900 on node-a device  1 [0000:05:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
     1048576        262144     float     sum      -1   100.00   10.49   10.49       0   100.00   10.49   10.49       0
# Avg bus bandwidth    : 10.49
"""


def schedule(name: str = "1f1b") -> ppsim.Schedule:
    return ppsim.generate(name, ranks=2, microbatches=4)


def traced(run: ppsim.Run, path, factor: int = 1) -> str:
    """A trace of a run in which everything takes a factor of its time."""
    run.write_trace(path)
    header, *rows = path.read_text().splitlines()
    cells = [row.split(",") for row in rows]
    slower = [",".join([*row[:4], *(str(factor * int(time)) for time in row[4:])]) for row in cells]
    path.write_text("\n".join([header, *slower]) + "\n")
    return str(path)


def test_costs_are_those_of_the_trace(tmp_path):
    run = ppsim.simulate(schedule(), unit={"F": 1, "B": 2, "c": 0.5})
    found = ppsim.calibrate(run, traced(run, tmp_path / "run.csv", 3))
    assert [group.name for group in found.groups] == ["F", "B", "SEND_F", "SEND_B", "step"]
    assert found.group("F").before == pytest.approx(2 / 3) and found.group("F").after == 0
    assert found.group("step").other_half == 0 and found.factors == {}
    assert ppsim.simulate(schedule(), costs=found.costs).makespan_ns == 3 * run.makespan_ns


def test_factors_of_a_model_are_a_file_for_it(tmp_path):
    run = ppsim.simulate(schedule(), costs=ppsim.Costs.from_model("llama3-8b", "dgx-h100", **JOB))
    found = ppsim.calibrate(run, [traced(run, tmp_path / "run.csv", 2)])
    assert found.factors == pytest.approx(dict.fromkeys(("F", "B", "SEND_F", "SEND_B"), 2), rel=1e-6)
    found.write(tmp_path / "c.json")
    costs = ppsim.Costs.from_model("llama3-8b", "dgx-h100", calibration=tmp_path / "c.json", **JOB)
    assert ppsim.simulate(schedule(), costs=costs).makespan_ns == pytest.approx(2 * run.makespan_ns, rel=1e-6)
    with pytest.raises(ppsim.Error, match="not of this model"):
        ppsim.calibrate(run, traced(run, tmp_path / "other.csv", 50))


def test_nccl_tests_need_no_run(tmp_path):
    (tmp_path / "run.txt").write_text(OUTPUT)
    with pytest.raises(ppsim.Error, match="does not say which operation"):
        ppsim.calibrate(nccl_tests=tmp_path / "run.txt")
    found = ppsim.calibrate(nccl_tests={"all_reduce": tmp_path / "run.txt"})
    assert [group.name for group in found.groups] == ["all_reduce of 2 GPUs, 2 a node"]
    assert '"ns": 100000' in found.text


def test_each_of_several_steps_is_replayed(tmp_path):
    run = ppsim.simulate(schedule(), unit={"F": 1, "B": 2})
    slow = ppsim.simulate(schedule(), unit={"F": 2, "B": 4})
    for number, one in enumerate((run, slow)):
        one.write_trace(tmp_path / f"step-{number}.csv")
    found = ppsim.replay(run, tmp_path, change={"compute": 2})
    assert found.steps == tuple(ppsim.ReplayedStep(one.makespan_ns, 2 * one.makespan_ns) for one in (run, slow))
    assert (found.measured_ns, found.step_ns) == (run.makespan_ns, 2 * run.makespan_ns)


def test_steps_that_were_disturbed_are_left_out(tmp_path):
    run = ppsim.simulate(schedule(), unit={"F": 1, "B": 2})
    slow = ppsim.simulate(schedule(), unit={"F": 2, "B": 4})
    for number in range(9):
        (slow if number == 4 else run).write_trace(tmp_path / f"step-{number}.csv")
    found = ppsim.calibrate(run, tmp_path)
    assert found.left_out_steps == 1
    assert found.group("step").after == 0
    assert found.varied == ppsim.CalibrationGroup("step, varied", 8, run.makespan_ns, None, 0, 0)
    with pytest.raises(ppsim.Error, match="steps are those of traces"):
        ppsim.calibrate(nccl_tests=tmp_path / "none.txt", all_steps=True)
    every = ppsim.calibrate(run, tmp_path, all_steps=True)
    assert every.left_out_steps == 0
    assert every.group("step").observations == 9


def test_a_replay_is_the_trace_and_what_changes(tmp_path):
    run = ppsim.simulate(schedule(), unit={"F": 1, "B": 2, "c": 0.5})
    trace = traced(run, tmp_path / "run.csv")
    same = ppsim.replay(run, trace)
    assert same.measured_ns == same.unchanged_ns == same.step_ns == run.makespan_ns
    slower = ppsim.simulate(schedule(), unit={"F": 1, "B": 2, "c": 2})
    assert ppsim.replay(run, trace, change={"transfers": 4}).step_ns == slower.makespan_ns
    other = ppsim.simulate(schedule("gpipe"), unit={"F": 1, "B": 2, "c": 0.5})
    assert ppsim.replay(run, trace, other=other).step_ns == other.makespan_ns


def test_what_is_no_measurement_is_an_error(tmp_path):
    run = ppsim.simulate(schedule(), unit={"F": 1, "B": 2})
    trace = traced(run, tmp_path / "run.csv")
    with pytest.raises(ppsim.Error, match="nothing to calibrate with"):
        ppsim.calibrate()
    with pytest.raises(ppsim.Error, match="traces are those of a run"):
        ppsim.calibrate(None, trace)
    with pytest.raises(ppsim.Error, match="nothing that can be fitted"):
        ppsim.calibrate(run, trace, fit="all")
    with pytest.raises(ppsim.FileError, match="not this program's trace"):
        ppsim.replay(ppsim.simulate(schedule("gpipe"), unit={"F": 1}), trace)
    with pytest.raises(ppsim.Error, match="nothing of this cost group"):
        ppsim.replay(run, trace, change={"W": 2})
    with pytest.raises(ppsim.Error, match="no trace"):
        ppsim.replay(run, [])
