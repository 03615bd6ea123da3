"""Stages in DistributedDataParallel and FSDP2: two pipelines on gloo, against the plain model on both their batches."""

import pytest
from torch_runs.needed import torch_or_skip

torch_or_skip()

from torch_runs.processes import ends, start, values  # noqa: E402

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
    for one in (one for case_found in found[:-3] for one in case_found):
        assert one["pairs"] >= 6 and one["losses"] <= 1e-12, one
        assert one["equal"], one


def test_a_profile_rehearses_wrapped_stages(found):
    """Each pipeline of replicas rehearses at the same time, and all have the same costs."""
    assert all(one == found[-3][0] for one in found[-3])
    for how, one in found[-3][0].items():
        assert {"F", "B", "I", "W", "OPT", "REDUCE_GRAD", "SEND_F", "SEND_B"} <= set(one["kinds"]), one
        assert one["unchanged"] and one["makespan_ns"] > 0
        assert one["samples"] == [2], "DDP: alone; FSDP: in two steps of three"


def test_sharded_stages_run_without_backwards(found):
    assert max(found[-2]) <= 1e-12


#: The text of each refusal, in the order of torch_runs.replicas.refused.
REFUSALS = (
    "there is no UNSHARD of stage",
    "processes= with those of this pipeline",
    "is over processes of its own pipeline",
    "is not a module",
    "communicates inside of its computation",
    "has no parameters to shard",
    ("has other wrappers than rank", "taken"),  # plain modules have no part in it
    ("shares stages with rank", "rank"),
    "the program updates nothing",
    "the program has no norm",
)


def test_what_a_wrapper_cannot_follow_is_refused(found):
    for said in found[-1]:
        for words, text in zip(REFUSALS, said, strict=True):
            assert any(one in text for one in ([words] if isinstance(words, str) else words)), (words, text)
    assert any("other wrappers" in said[6] for said in found[-1])
    assert any("shares stages with" in said[7] for said in found[-1])


ENDINGS = {
    "one": "has ended", "all": "has ended", "stops": "has said nothing for 4 s", "leaves": "has left after 1 steps",
}


@pytest.mark.parametrize("how, words", ENDINGS.items())
def test_a_failure_of_one_pipeline_ends_its_replicas(how, words, tmp_path):
    processes = start("replicas:ending", 4, tmp_path, how)
    first, second = ends(processes[::2], tmp_path), processes[1::2]
    for process in second:
        process.kill()
        process.communicate()
    for one in first:
        assert one.code == 1, one.error
        assert "the replica that begins with process 1" in one.error and words in one.error, one.error
