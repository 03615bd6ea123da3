"""Traces of torch.profiler, as it writes them."""

import gzip
import json

import numpy
import pytest

import ppsim


def event(name: str, microseconds: float, cat: str = "user_annotation") -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": 0, "dur": microseconds}


def trace(path, events):
    text = json.dumps({"schemaVersion": 1, "traceEvents": [{"ph": "M", "name": "process_name"}, *events]})
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def test_medians_of_each_stage_are_costs(tmp_path):
    first = trace(
        tmp_path / "0.json",
        [event("PP:0F0", 100), event("PP:0F1", 10), event("PP:0F2", 12), event("PP:0B0", 30), event("PP:0SEND_F0", 900)],
    )
    second = trace(tmp_path / "1.json.gz", [event("PP:1F0", 20), event("PP:1B0", 40), event("## step", 1)])
    costs = ppsim.Costs.from_kineto([first, second], transfer_ns=1000)
    run = ppsim.simulate(ppsim.generate("1f1b", ranks=2, microbatches=1), costs=costs)
    assert run.makespan_ns == 12_000 + 1000 + 20_000 + 40_000 + 1000 + 30_000


def test_a_whole_number_of_numpy_is_a_time(tmp_path):
    path = trace(tmp_path / "0.json", [event("PP:0F0", 5), event("PP:0B0", 6)])
    assert ppsim.Costs.from_kineto(path, transfer_ns=numpy.int64(5)) == ppsim.Costs.from_kineto(path, transfer_ns=5)


def test_one_trace_needs_no_list(tmp_path):
    path = trace(tmp_path / "0.json", [event("PP:0F0", 5), event("PP:0B0", 6)])
    one = ppsim.Costs.from_kineto([path])
    assert ppsim.Costs.from_kineto(path) == ppsim.Costs.from_kineto(str(path)) == one
    for wrong in (5, None, [5], b"0.json"):
        with pytest.raises(ppsim.Error, match="expected the path of a trace, or one for each rank"):
            ppsim.Costs.from_kineto(wrong)
    for transfer in (-1, 1.5, "1", True):
        with pytest.raises(ppsim.Error, match="transfer_ns"):
            ppsim.Costs.from_kineto(path, transfer_ns=transfer)


def test_ranges_of_the_gpu_go_before_those_of_the_host(tmp_path):
    events = [event("PP:0F0", 5), event("PP:0B0", 6), event("PP:0F0", 50, "gpu_user_annotation")]
    path = trace(tmp_path / "0.json", [*events, event("PP:0B0", 60, "gpu_user_annotation")])
    run = ppsim.simulate(ppsim.generate("1f1b", ranks=1, microbatches=1), costs=ppsim.Costs.from_kineto([path]))
    assert run.makespan_ns == 110_000


def test_what_is_no_trace_of_a_pipeline_is_refused(tmp_path):
    with pytest.raises(ppsim.FileError, match="no range of a pipeline"):
        ppsim.Costs.from_kineto([trace(tmp_path / "0.json", [event("aten::mm", 1)])])
    with pytest.raises(ppsim.FileError, match="or one for each rank"):
        ppsim.Costs.from_kineto([])
    (tmp_path / "not.json").write_text("0F0,0B0")
    for name in ("not.json", "missing.json"):
        with pytest.raises(ppsim.FileError, match="no trace"):
            ppsim.Costs.from_kineto([tmp_path / name])


def test_a_file_that_was_cut_is_no_trace(tmp_path):
    whole = trace(tmp_path / "0.json.gz", [event("PP:0F0", 100)])
    whole.write_bytes(whole.read_bytes()[:40])
    with pytest.raises(ppsim.FileError, match="no trace"):
        ppsim.Costs.from_kineto(whole)
