"""A fault under the runtime is named on every rank, within seconds, and nothing keeps running."""

import os
import pathlib
import subprocess
import sys

import pytest

from torch_runs.needed import torch_or_skip

torch_or_skip()

import ppsim  # noqa: E402
import ppsim.torch  # noqa: E402
from torch_runs.processes import FOLDER, Ended, run, values  # noqa: E402

DATA = pathlib.Path(__file__).parents[2] / "tests" / "data"


def survivors(ended: list[Ended], dead: int) -> list[Ended]:
    return [one for rank, one in enumerate(ended) if rank != dead]


@pytest.mark.parametrize("dead", [0, 1])
def test_a_killed_process_is_named(dead, tmp_path):
    ended = run("faults:dies", 3, tmp_path, 3, dead, "kill")
    assert ended[dead].code == -9
    for one in survivors(ended, dead):
        assert one.code == 1 and one.value is None
        assert f"rank {dead}: process" in one.error and "has ended" in one.error, one.error
        assert "instructions complete" in one.error


def test_a_module_that_raises_is_named(tmp_path):
    ended = run("faults:dies", 2, tmp_path, 2, 1, "raise")
    for one in ended:
        assert one.code == 1
        assert "rank 1: 1F1 failed: ValueError: no such luck" in one.error or "ValueError: no such luck" in one.error


def test_a_stopped_process_is_named(tmp_path):
    from torch_runs.processes import ends, start

    processes = start("faults:dies", 2, tmp_path, 2, 1, "stop")
    processes[0].wait(timeout=200)
    processes[1].kill()
    first, _ = ends(processes, tmp_path)
    assert first.code == 1
    assert "has said nothing for 8 s" in first.error and "rank 1: process" in first.error


def test_a_hang_is_explained_on_every_rank(tmp_path):
    for one in run("faults:hangs", 2, tmp_path, str(DATA / "deferred_receives.csv")):
        assert one.code == 1
        assert "passed its deadline of 3 s" in one.error
        assert "rank 0 is in 0SEND_F1, " in one.error
        cycle = one.error.split("these wait for each other:\n")[1].split("\n")
        assert sum("waits for" in line and line.startswith("  rank") for line in cycle[:4]) == 4


@pytest.mark.parametrize(
    "name, microbatches, chunks, key",
    [
        ("gpipe", 4, None, "program than rank 0"),
        ("1f1b", 6, None, "number of microbatches than rank 0 (found 6, expected 4)"),
        ("interleaved-1f1b", 4, 2, "number of stages than rank 0 (found 4, expected 2)"),
    ],
    ids=["hash", "microbatches", "stages"],
)
def test_another_program_on_a_rank_is_named_on_all(name, microbatches, chunks, key, tmp_path):
    for one in values("faults:differs", 2, tmp_path, name, microbatches, chunks):
        assert f"rank 1 has another {key}" in one["error"]
        assert not one["group"]


def test_what_a_rank_refuses_all_say(tmp_path):
    first, second = values("faults:lacks_proof", 2, tmp_path, 2)
    assert "the program has no certificate" in second["error"] and "unverified=True" in second["error"]
    assert "rank 1 refuses: the program has no certificate" in first["error"]
    assert not first["group"] and not second["group"]


def test_a_block_frozen_on_one_of_its_owners_is_named(tmp_path):
    for one in run("faults:frozen_on_one", 2, tmp_path):
        assert "trains other parameters of block 0 than rank" in f"{one.value} {one.error}", one


def test_torchrun_ends_with_the_reason(tmp_path):
    """It ends the others as soon as one is dead; by then they have named it."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone",
        "-m", "torch_runs.processes", "faults:dies", str(tmp_path / "said"), '[2, 1, "kill"]',
    ]
    env = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER, env=env, timeout=400)
    assert done.returncode != 0
    assert "ppsim: rank 0: the run has failed\nrank 1: process" in done.stderr, done.stderr


REFUSED = {
    "seq-1f1b": "it cuts sequences into",
    "terapipe": "it cuts sequences into",
    "vocab-1": "combines shards of a vocabulary",
    "vocab-2": "combines shards of a vocabulary",
    "spmd-gpipe": "2 of its microbatches are padding",
    "spmd-circular": "2 of its microbatches are padding",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_modules_cannot_compute_is_refused_by_name(name, monkeypatch):
    import torch

    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    slices = 2 if "sequences" in REFUSED[name] else None
    schedule = ppsim.generate(name, ranks=2, microbatches=4, slices=slices)
    program = ppsim.lower(schedule, with_="reduce-grad")
    monkeypatch.setattr("ppsim.torch.meeting._store", lambda: None)
    with pytest.raises(ppsim.Error, match=REFUSED[name]):
        ppsim.torch.Runtime(program, {}, ppsim.check(program), backend="gloo")
    assert not torch.distributed.is_initialized()


LESS = ["well_formed", "matched", "deadlock_free"]


def small() -> ppsim.Program:
    return ppsim.lower(ppsim.generate("chimera", ranks=2, microbatches=4))


def test_what_is_not_proved_is_refused(monkeypatch):
    import torch

    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("ppsim.torch.meeting._store", lambda: None)
    one, other = (ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=m), with_="reduce-grad") for m in (4, 5))
    cases = [
        (one, None, "gloo", "no certificate"),
        (one, ppsim.check(other), "gloo", "of another program"),
        (one, ppsim.verify(one, properties=LESS), "gloo", "does not cover tensor_use"),
        (one, ppsim.check(one, transport="in-process"), "nccl", "transport"),
        (one, ppsim.check(one), "mpi", "no such backend"),
        (small(), ppsim.check(small()), "gloo", "share parameter block 0 without a REDUCE_GRAD"),
    ]
    for program, proof, backend, why in cases:
        with pytest.raises(ppsim.Error, match=why):
            ppsim.torch.Runtime(program, {}, proof, backend=backend)
    mixed = ppsim.read(DATA / "deferred_receives.csv", communicators="per-edge")
    with pytest.raises(ppsim.Error, match="no certificate"):
        ppsim.torch.Runtime(mixed, {}, backend="gloo")
    with pytest.raises(ppsim.Error, match="other stages than the program places on rank 0"):
        ppsim.torch.Runtime(one, {1: torch.nn.Linear(2, 2)}, ppsim.check(one))
    with pytest.raises(ppsim.Error, match="another device than its backend transfers from"):
        ppsim.torch.Runtime(one, {0: torch.nn.Linear(2, 2)}, ppsim.check(one), backend="nccl")
    assert not torch.distributed.is_initialized()
