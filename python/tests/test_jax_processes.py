"""Ranks in processes of their own, with jax.distributed and gloo between them."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

import ppsim
from jax_runs.needed import jax_or_skip

jax_or_skip()

import ppsim.jax  # noqa: E402
from jax_runs import models  # noqa: E402

TESTS = pathlib.Path(__file__).parent


def started(ranks, *arguments):
    """A process for each rank; (exit code, stdout, stderr) of each."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    known = {**os.environ, "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": str(ranks)}
    known["PYTHONPATH"] = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    processes = [
        subprocess.Popen([sys.executable, "-m", "jax_runs.process", *arguments], text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env={**known, "JAX_PROCESS_ID": str(rank)})
        for rank in range(ranks)
    ]
    try:
        return [(one.wait(), *texts) for one in processes for texts in [one.communicate(timeout=300)]]
    finally:
        for one in processes:
            one.kill()


@pytest.mark.parametrize("name, ranks, optimizer", [("1f1b", 2, False), ("zb-v", 2, False), ("zb-h1", 3, True), ("chimera", 2, True)])
def test_gradients_and_updates_are_those_of_jax(name, ranks, optimizer, tmp_path):
    done = started(ranks, name, str(ranks), "opt" if optimizer else "gradients", str(tmp_path))
    assert [code for code, *_ in done] == [0] * ranks, done
    found = [json.loads(out.splitlines()[-1]) for _, out, _ in done]
    assert [one["rank"] for one in found] == list(range(ranks))
    for one in found:
        assert one["pairs"] > 0 and one["worst"] <= 1e-12 and one["errors"] == []
        assert one["equal"] or optimizer
        assert (one["norm"] is not None) == optimizer
    assert sum(one["loss"] is not None for one in found) == (2 if name == "chimera" else 1)
    assert (tmp_path / "measured.csv").read_text().startswith("rank,queue,index,instruction")


@pytest.mark.parametrize("what", ["tied", "each"])
def test_tied_weights_are_summed_between_processes(what, tmp_path):
    done = started(3, "1f1b", "3", what, str(tmp_path))
    assert [code for code, *_ in done] == [0] * 3, done
    found = [json.loads(out.splitlines()[-1]) for _, out, _ in done]
    assert all(one["pairs"] > 0 and one["worst"] <= 1e-12 and one["errors"] == [] for one in found), found
    assert all(one["equal"] for one in found) == (what == "each"), found


@pytest.mark.parametrize("fault, message", [("raise", "no such value"), ("die", "")])
def test_when_one_fails_all_end_and_say_why(fault, message, tmp_path):
    done = started(2, "1f1b", "2", fault, str(tmp_path))
    assert done[0][0] == 1 and "ppsim: rank 0: the run has failed" in done[0][2] and "on rank 0" in done[0][2]
    assert done[1][0] == (1 if fault == "raise" else -9)
    assert message in done[1][2]


def test_processes_with_other_programs_are_refused_on_all(tmp_path):
    done = started(2, "1f1b", "2", "other", str(tmp_path))
    assert all(code == 1 and "processes run other programs or functions" in err for code, _, err in done), done


def test_a_process_that_does_not_know_the_others_is_refused(monkeypatch):
    program = models.program_of("1f1b", 2, 4)
    for name in ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ppsim.Error, match="no JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID"):
        ppsim.jax.prepare(program)
    monkeypatch.setenv("JAX_COORDINATOR_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("JAX_NUM_PROCESSES", "3")
    monkeypatch.setenv("JAX_PROCESS_ID", "0")
    with pytest.raises(ppsim.Error, match=r"found process 0 of 3, expected processes 0 to 1 of 2"):
        ppsim.jax.prepare(program)
