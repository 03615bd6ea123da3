"""Wrong arguments of ppsim.torch are errors of ours, which name them, before any process is met."""

import pytest

import ppsim
from test_arguments import WRONG
from torch_runs.needed import torch_or_skip

torch_or_skip()

import torch  # noqa: E402

import ppsim.torch  # noqa: E402
from torch_runs.processes import run  # noqa: E402

PROGRAM = ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=4), with_=("reduce-grad", "opt"))


def module() -> torch.nn.Module:
    return torch.nn.Linear(4, 4)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Rank 0 of two, without anybody to meet."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("ppsim.torch.meeting._store", lambda: None)


#: Right ones. There is no certificate, so that what is taken ends in a refusal, too.
RIGHT = {
    "program": PROGRAM, "stages": {0: module()}, "loss": torch.nn.functional.mse_loss, "tied": (), "optimizer": sgd,
    "backend": "gloo", "clip_norm": None, "processes": (0, 1), "costs": None, "deadline_s": 5, "silence_s": 15,
    "meeting_s": 5, "kept_traces": 3,
}


@pytest.mark.parametrize("name", [*RIGHT, "certificate"])
def test_nothing_but_an_error_of_ours_comes_out_of_a_runtime(name):
    for wrong in WRONG:
        with pytest.raises(ppsim.Error):
            ppsim.torch.Runtime(**{**RIGHT, name: wrong})
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"program": "1f1b"}, r"program is of another type \(found '1f1b', expected a Program or a Schedule\)"),
        ({"stages": [module()]}, "stages is of another type .*expected a dictionary, each key a whole number"),
        ({"stages": {"0": module()}}, "stages is of another type .*expected a dictionary, each key a whole number"),
        ({"certificate": "proof.json"}, "certificate is of another type .*expected a Certificate or a Verdict or None"),
        ({"optimizer": sgd([torch.nn.Parameter(torch.ones(1))])}, "(?s)optimizer is of another type .*a function or None"),
        ({"deadline_s": -1}, "a deadline is no negative time .found deadline_s=-1"),
        ({"deadline_s": float("nan")}, "deadline_s is out of range"),
        ({"meeting_s": -1}, "ranks need time to meet .found meeting_s=-1, expected seconds above 0"),
        ({"silence_s": 0.5}, "can be silent for longer .found silence_s=0.5, expected 2 seconds or more"),
        ({"kept_traces": 0}, "the newest step is always kept .found kept_traces=0"),
        ({"clip_norm": -1.0}, "cannot be clipped to this norm .found clip_norm=-1, expected a number above 0"),
    ],
)
def test_the_error_says_what_would_be_right(wrong, words):
    with pytest.raises(ppsim.Error, match=words):
        ppsim.torch.Runtime(**{**RIGHT, **wrong})


PROFILED = {"stages": {0: module()}, "inputs": torch.ones(2, 4), "loss": torch.nn.functional.mse_loss, "targets": torch.ones(2, 4),
            "optimizer": sgd}


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"stages": {}}, "stages are missing .found ..,"),
        ({"stages": [module()]}, "stages is of another type"),
        ({"stages": {1: module()}}, "stages are missing .found .1.,"),
        ({"inputs": None}, "inputs is no tensor"),
        ({"targets": None}, "there is a loss, and nothing to compare the output with"),
        ({"repeats": 0}, "so many measurements cannot be made .found repeats=0"),
        ({"warmup": -4}, "so many measurements cannot be made .found repeats=20, warmup=-4"),
        ({"repeats": "2"}, "repeats is of another type"),
    ],
)
def test_a_profile_names_what_is_wrong(wrong, words):
    with pytest.raises(ppsim.Error, match=words):
        ppsim.torch.profile(**{**PROFILED, **wrong})


def test_a_profile_has_a_price_for_the_update_of_a_frozen_stage():
    frozen = module().requires_grad_(False)
    costs = ppsim.torch.profile(**{**PROFILED, "stages": {0: frozen, 1: module()}, "repeats": 2, "warmup": 0})
    program = ppsim.lower(ppsim.generate("interleaved-1f1b", ranks=1, microbatches=2, chunks=2), costs=costs, with_=("reduce-grad", "opt"))
    assert ppsim.simulate(program, costs=costs).makespan_ns > 0


def test_batches_that_are_none_are_named(tmp_path):
    (ended,) = run("faults:wrong_batches", 1, tmp_path)
    found = ended.value
    assert ended.code == 1, "a process whose step has failed ends with 1, whatever it does afterwards"
    of_one_size = "inputs cannot be cut into microbatches of one size"
    for (name, said), words in zip(
        found.items(),
        (f"{of_one_size} (found shape (7, 4), expected a multiple of 4 rows)",
         f"{of_one_size} (found shape (0, 4), expected a multiple of 4 rows)",
         f"{of_one_size} (found shape (), expected a multiple of 4 rows)",
         "inputs is no batch (found str, expected a tensor, or a list of 4 microbatches)",
         "inputs is no batch (found ndarray, expected a tensor, or a list of 4 microbatches)",
         "inputs of another number of microbatches (found 3, expected 4)",
         "optimizer= makes no optimizer of the parameters of block 0 (found NoneType"),
        strict=True,
    ):
        assert said.startswith(words), (name, said)
