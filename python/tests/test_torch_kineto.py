"""Traces that PyTorch's profiler writes of a schedule are set beside the simulation, on one clock."""

import json
import pathlib
import subprocess
import sys
from typing import Any

import ppsim
from torch_runs.needed import torch_or_skip

torch_or_skip()

from torch_runs.processes import values  # noqa: E402

AHEAD_NS = 3_600_000_000_000


def compared(csv: pathlib.Path, traces: pathlib.Path) -> dict[str, Any]:
    command = ["simulate", str(csv), "--unit", "F=1,I=1,W=1,B=2", "--compare-trace", str(traces), "--json"]
    done = subprocess.run([sys.executable, "-m", "ppsim", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["compared"]
    return found


def test_a_profiled_step_is_compared(tmp_path):
    schedule = ppsim.generate("zb-v", ranks=2, microbatches=4)
    csv, traces = tmp_path / "zb-v.csv", tmp_path / "traces"
    traces.mkdir()
    ppsim.write(schedule, csv)
    seconds = values("profiled:profiled", 2, tmp_path, str(csv), 4, str(traces))
    found = compared(csv, traces)
    assert {kind["kind"]: kind["count"] for kind in found["kinds"]} == {"F": 16, "I": 16, "W": 16}
    assert 0 < found["measured_step_ns"] <= 1.5e9 * max(seconds)
    # Processes of one machine have one clock, and messages show that it may be one.
    assert found["clocks_as_recorded"] and found["clocks"][1]["offset_ns"] == 0
    assert found["clocks"][1]["error_ns"] <= found["measured_step_ns"]

    # Of another machine, whose clock is an hour ahead.
    moved = traces / "rank0.json"
    data = json.loads(moved.read_text())
    data["baseTimeNanoseconds"] = data.get("baseTimeNanoseconds", 0) + AHEAD_NS
    moved.write_text(json.dumps(data))
    again = compared(csv, traces)
    clock = again["clocks"][1]
    assert not again["clocks_as_recorded"]
    assert abs(abs(clock["offset_ns"]) - AHEAD_NS) <= clock["error_ns"] == found["clocks"][1]["error_ns"]
    assert abs(again["measured_step_ns"] - found["measured_step_ns"]) <= 2 * clock["error_ns"]
    assert ppsim.simulate(schedule, costs=ppsim.Costs.from_kineto(traces.glob("*.json"))).makespan_ns > 0
