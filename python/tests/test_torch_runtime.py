"""Modules under Programs, on processes with gloo: the gradients and weights of the same model without a pipeline."""

import pathlib
import subprocess
import sys

import pytest

import ppsim
from torch_runs.needed import torch_or_skip

torch_or_skip()

from torch_runs.processes import run, values  # noqa: E402

#: Of those that accumulate in ascending order and sum nothing across ranks, on two ranks with four microbatches.
ASCENDING = (
    "gpipe", "1f1b", "eager-1f1b", "interleaved-1f1b", "kimi-k2", "group-interleaved", "zb-h1", "zb-h2", "zb-greedy",
    "interleaved-zb", "zb-v", "dualpipe-v", "hanayo", "v-half", "v-min", "1f1b-v", "building-block", "v-adaptive",
    "pipedream", "pipedream-2bw", "bpipe",
)
OTHERS = ("looped-bfs", "chimera", "dualpipe", "bitpipe")
#: Refused by name, see test_torch_refusals.
REFUSED = ("seq-1f1b", "terapipe", "vocab-1", "vocab-2", "spmd-gpipe", "spmd-circular")
NO_GRADIENTS = ("forward-only",)
CLOSE = 1e-12

ADDED = ["reduce-grad"]
FOUR = (
    {"name": "bpipe", "microbatches": 6},
    {"name": "chimera", "microbatches": 8, "lowering": {"with_": [*ADDED, "opt", "clip"]}, "clip": 0.05, "steps": 2},
    {"name": "v-half", "microbatches": 6, "lowering": {"order": "just-in-time", "with_": ADDED}},
    {"name": "1f1b", "microbatches": 5, "lowering": {"recompute": "full", "with_": [*ADDED, "load", "unshard"]}},
    {"name": "zb-v", "microbatches": 6, "lowering": {"offload": "all", "with_": ADDED}},
    {"name": "interleaved-1f1b", "microbatches": 6,
     "lowering": {"communicators": "per-rank", "grouping": "paired", "with_": ADDED}},
    {"name": "1f1b", "microbatches": 4, "settings": {"graph": "encoder-decoder"}},
    {"name": "pipedream", "microbatches": 6, "steps": 2},
    {"name": "pipedream-2bw", "microbatches": 12, "steps": 2},
    {"name": "dualpipe", "microbatches": 8},
)
THREE = (
    {"name": "zb-h1", "microbatches": 4, "lowering": {"with_": [*ADDED, "opt"]}, "steps": 3},
    {"name": "1f1b", "microbatches": 3, "settings": {"graph": "skip"}},
    {"name": "interleaved-1f1b", "microbatches": 6, "lowering": {"offload": "half", "with_": [*ADDED, "opt", "clip"]},
     "clip": 0.02, "steps": 2},
)
#: They add across ranks, or in another order.
NOT_EQUAL = {"replicas", "looped-bfs", "chimera", "dualpipe", "bitpipe"}


def test_every_schedule_is_run_or_named():
    known = {*ASCENDING, *OTHERS, *REFUSED, *NO_GRADIENTS}
    assert set(ppsim.schedules()) == known


#: On two ranks: one step, and 200.
TWO = tuple({"name": name, "microbatches": 4} for name in (*ASCENDING, *OTHERS) if name != "bpipe")
LONG = (
    {"name": "zb-h1", "microbatches": 3, "lowering": {"with_": [*ADDED, "opt"]}, "steps": 200},
    {"name": "pipedream-2bw", "microbatches": 4, "steps": 200},
)
#: Functions of torch_runs.schedules without arguments.
ALONE = ("own_orders", "outputs", "dropout", "frozen", "traced", "accumulated", "profiled", "streams")


def results(ranks: int, cases: list[dict], folder: pathlib.Path, *alone: str) -> list[list]:
    """By case, and then by function, of all ranks. One start of the processes runs everything: starting takes longest."""
    cases = [{**case, "ranks": ranks} for case in cases]
    by_rank = values("schedules:everything", ranks, folder, cases, alone)
    return [[found[number] for found in by_rank] for number in range(len(cases) + len(alone))]


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> list[list]:
    return results(2, [*TWO, *LONG], tmp_path_factory.mktemp("two"), *ALONE)


def of(two: list[list], name: str) -> list:
    return two[len(TWO) + len(LONG) + ALONE.index(name)]


def check_close(found: list[dict]) -> None:
    assert sum(one["pairs"] for one in found) >= 2 * found[0]["blocks"], found
    assert max(one["worst"] for one in found) <= CLOSE, found
    assert max(one["losses"] for one in found) <= CLOSE, found


def test_two_ranks(two):
    for case, found in zip(TWO, two, strict=False):
        check_close(found)
        assert all(one["equal"] for one in found) == (case["name"] in ASCENDING), case


def replicas(folder: pathlib.Path) -> dict:
    """Two copies of a pipeline of two ranks, as one Program."""
    path = folder / "replicas.json"
    words = ["lower", "1f1b", "--ranks", "2", "--microbatches", "2", "--replicas", "2", "--with", "reduce-grad"]
    subprocess.run([sys.executable, "-m", "ppsim", *words, "-o", str(path)], check=True)
    return {"name": "replicas", "file": str(path)}


@pytest.mark.parametrize("ranks, cases", [(3, THREE), (4, FOUR)], ids=["three", "four"])
def test_more_ranks(ranks, cases, tmp_path):
    cases = [*cases, *([replicas(tmp_path)] if ranks == 4 else [])]
    for case, found in zip(cases, results(ranks, cases, tmp_path), strict=True):
        check_close(found)
        alone = case["name"] not in NOT_EQUAL and not case.get("clip") and "graph" not in case.get("settings", {})
        assert not alone or all(one["equal"] for one in found), case


def test_200_steps_are_those_of_plain_training(two):
    for found in two[len(TWO) : len(TWO) + len(LONG)]:
        check_close(found)
        assert all(one["equal"] for one in found)


def test_programs_from_python_and_synthesised_orders(two):
    for found in zip(*of(two, "own_orders"), strict=True):
        check_close(list(found))
        assert all(one["equal"] for one in found)


def test_inference_gives_outputs(two):
    first, last = of(two, "outputs")
    assert first == {"outputs": 0, "worst": 0.0}
    assert last["outputs"] == 4 and last["worst"] <= CLOSE


def test_random_numbers_are_repeated_by_recompute(two):
    first, last = of(two, "dropout")
    assert first["same"] and last["same"]


def test_stages_that_train_nothing_are_left_as_they_are(two):
    for one in of(two, "frozen"):
        assert one["equal"] and one["compared"] > 0


@pytest.fixture(scope="module")
def edges(tmp_path_factory) -> list:
    """By function of torch_runs.edges, of both ranks."""
    return list(zip(*values("edges:everything", 2, tmp_path_factory.mktemp("edges")), strict=True))


def test_outputs_without_gradient_take_side_edges(edges):
    for found in zip(*edges[0], strict=True):
        assert all(one["pairs"] and one["equal"] for one in found), edges[0]


def test_tied_weights_are_those_of_one_model(edges):
    for found in zip(*edges[1], strict=True):
        assert all(one["pairs"] and one["worst"] <= CLOSE for one in found), edges[1]


def test_tied_weights_that_no_block_or_module_has_are_refused(edges):
    for rank in (0, 1):
        unnamed, no_block, other_count, no_name, no_list = edges[2][rank]
        assert "stages [0, 1] share parameter block 2" in unnamed and "tied=[{0: name, 1: name}]" in unnamed
        assert "share no parameter block" in no_block and "tied=True" in no_block
        assert "another number of parameters in each stage" in other_count
        assert "no such parameter to train" in no_name and "table" in no_name
        assert "tied is of another type" in no_list and "expected a list, each a dictionary" in no_list


def test_a_module_that_gives_nothing_for_its_side_edge_is_named(tmp_path):
    done = run("edges:too_little", 2, tmp_path)
    assert all(one.code == 1 and "the module of stage 0 returns too little" in one.error for one in done), done


def test_traces_are_those_of_the_program(two):
    for one in of(two, "traced"):
        assert one["errors"] == []
        assert one["gaps"] == 0  # the host's part of an instruction is in its time, and so in costs
        assert one["kinds"] == ["B", "F", "REDUCE_GRAD", "SEND_B", "SEND_F"]
        assert one["makespan_ns"] > 0


def test_gradients_add_up_over_steps_until_they_are_cleared(two):
    for one in of(two, "accumulated"):
        assert one["worst"] <= CLOSE
        assert "closed" in one["refused"]


def test_a_profile_prices_all_that_runs(two):
    first, second = of(two, "profiled")
    assert first.pop("unchanged") and second.pop("unchanged")
    assert first == second
    assert first["samples"] == [12, 24], "of three steps with 8 microbatches, half of them with whole backwards"
    for name, makespan in first["makespans"].items():
        assert makespan > 0, name
    assert first["parameters"] == 8 * (16 + 144 + 136), first  # a norm and two layers in float64
    assert first["saved"] > 0 and first["peak"] > first["parameters"]


@pytest.mark.parametrize("owners", [(0, 1), (1, 0), (0, 1, 1, 0), (0, 1, 2, 0, 1, 2), (0, 0, 1), (0, 1, 2, 3, 4, 5)])
def test_a_rehearsal_needs_the_memory_of_1f1b_at_most(owners):
    from ppsim.torch.rehearsal import _order

    ranks = 1 + max(owners)
    schedule = _order(dict(enumerate(owners)), 4 * ranks)
    assert tuple(schedule.placement) == owners
    run = ppsim.simulate(schedule, unit={"F": 1, "B": 2, "I": 1, "W": 1})
    for rank, found in enumerate(run.ranks):
        assert found.peak_live_activations <= ranks * owners.count(rank)


def test_streams_are_filled_in_issue_order(two):
    """On stand-ins for streams, which need no GPU."""
    for one in of(two, "streams"):
        check_close([one | {"blocks": 1}])
        assert one["equal"] and one["errors"] == [] and one["waited"] > 0
        assert one["gaps"] == 0


def test_quartiles_of_a_profile_lie_between_its_samples():
    from ppsim.torch.profiling import _spread

    found = _spread([100, 1])
    assert 1 <= found["lower_quartile_ns"] <= found["median_ns"] <= found["upper_quartile_ns"] <= 100, found
