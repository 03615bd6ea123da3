"""Stages in DistributedDataParallel and FSDP2: two pipelines on gloo, against the plain model on both their batches."""

import pytest
from torch_runs.needed import torch_or_skip

torch_or_skip()

from torch_runs.processes import run, values  # noqa: E402

PROGRAMS = (
    {"name": "1f1b", "added": []},
    {"name": "zb-h1", "added": ["opt"], "steps": 3},
    {"name": "interleaved-1f1b", "added": ["opt", "clip"], "clip": 0.02, "steps": 2},
    {"name": "dualpipe-v", "added": []},
    {"name": "gpipe", "added": [], "recompute": "full"},
)


def case(wrapper: str, name: str, added: list[str], recompute: str = "none", **more) -> dict:
    lowering = {"with_": ["reduce-grad", "unshard", *added], "recompute": recompute}
    return {"wrapper": wrapper, "name": name, "ranks": 2, "microbatches": 4, "lowering": lowering, **more}


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[list]:
    cases = [case(wrapper, **program) for wrapper in ("fsdp", "ddp") for program in PROGRAMS]
    by_rank = values("replicas:everything", 4, tmp_path_factory.mktemp("four"), cases)
    return list(zip(*by_rank, strict=True))


def test_gradients_and_weights_are_those_of_the_plain_model(found):
    for one in (one for case_found in found[:-1] for one in case_found):
        assert one["pairs"] >= 6 and one["losses"] <= 1e-12, one
        assert one["equal"], one


def test_what_a_wrapper_cannot_follow_is_refused(found):
    for without_unshard, without_processes in found[-1]:
        assert "there is no UNSHARD of stage" in without_unshard
        assert "4 processes" in without_processes and "processes=" in without_processes


def test_a_failure_of_one_pipeline_ends_its_replicas(tmp_path):
    ended = run("replicas:killed", 4, tmp_path)
    assert [one.code for one in ended] == [1, 1, 1, 7]
    assert "rank 1: process" in ended[1].error and "has ended" in ended[1].error
    for one in (ended[0], ended[2]):
        assert "the replica that begins with process 1 has failed" in one.error
