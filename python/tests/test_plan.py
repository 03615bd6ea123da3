"""ppsim.plan: the command's answers as values."""

import json
import subprocess
import sys
from typing import Any

import pytest

import ppsim

SMALL: dict[str, Any] = {
    "model": "llama3-8b:layers=8,sequence=2048",
    "cluster": "dgx-h100",
    "nodes": 1,
    "global_batch_size": 32,
    "fixed": {"tp": [1, 2, 16], "cp": 1, "ep": 1, "microbatch_size": 1, "schedule": ["1f1b", "zb-h1"]},
}


@pytest.fixture(scope="module")
def found() -> ppsim.Plan:
    return ppsim.plan(**SMALL, top=3, front=1.5)


def test_it_is_the_plan_of_the_command(found):
    fixes = ["tp=1+2+16", "cp=1", "ep=1", "microbatch-size=1", "schedule=1f1b+zb-h1"]
    command = ["plan", "--model", SMALL["model"], "--cluster", "dgx-h100", "--nodes", "1", "--global-batch-size", "32"]
    command += [word for fix in fixes for word in ("--fix", fix)] + ["--top", "3", "--front", "1.5", "--json"]
    done = subprocess.run([sys.executable, "-m", "ppsim", *command], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    for mine, theirs in zip(found.plans, said["plans"], strict=True):
        for key in ("step_ns", "bubble_ns", "peak_bytes", "layout", "tokens_per_second"):
            assert getattr(mine, key) == theirs[key], key
        assert mine.name == theirs["plan"] and mine.why_slower == theirs.get("why_slower", "")
    assert [row.name for row in found.pareto] == [row["plan"] for row in said["front"]]
    assert (found.not_modelled, found.known_error) == (said["not_modelled"], said["known_error"])
    assert set(found.verified.values()) == {"proved"}
    assert found.unused == said["unused"] == ["tp=16"]
    assert "no plan can have tp=16" in str(found)


def test_plans_are_values(found):
    best = found.best
    assert best.tp * best.pp * best.dp == 8 and best.tp in (1, 2) and best.schedule in ("1f1b", "zb-h1")
    assert best.step_ns == min(row.step_ns for row in found.plans)
    parts = best.layers_ns + best.bubble_ns + best.communication_ns + best.step_end_ns
    assert parts == pytest.approx(best.step_ns, rel=1e-6)
    assert best.peak_bytes <= best.memory_limit_bytes
    assert ppsim.Plan.from_json(found.to_json()) == found
    assert [row["name"] for row in found.rows()] == [row.name for row in found.plans]
    assert best.name in found._repr_html_() and "not modelled: " in str(found)
    with pytest.raises(ppsim.FileError):
        ppsim.Plan.from_json("{}")


def test_the_best_is_what_simulate_says(found):
    layers = ppsim.plan(**SMALL | {"fixed": SMALL["fixed"] | {"recompute": "nothing_saveable"}}, top=1)
    assert layers.best.recompute == "nothing_saveable" and "recompute nothing_saveable" in layers.best.name
    check_simulated(found.best)
    check_simulated(layers.best)


def check_simulated(best: ppsim.PlanRow) -> None:
    costs = ppsim.Costs.from_model(
        SMALL["model"], "dgx-h100", tp=best.tp, pp=best.pp, dp=best.dp, global_batch_size=32,
        microbatch_size=best.microbatch_size, recompute=best.recompute, layout=best.layout,
    )
    schedule = ppsim.generate(best.schedule, ranks=best.pp, microbatches=best.microbatches)
    assert ppsim.simulate(schedule, costs=costs).step_ns == best.step_ns


def test_what_does_not_fit_is_said():
    with pytest.raises(ppsim.DoesNotFit, match="no plan fits: the least is") as none:
        ppsim.plan(model="llama3-70b", cluster="dgx-h100", nodes=1, global_batch_size=8, fixed={"tp": [8, 16], "fsdp": False})
    assert "no plan can have tp=16" in str(none.value)
    assert none.value.counterexample["tp"] == 8


@pytest.mark.parametrize(
    "changes, wrong",
    [
        ({"model": "llama9"}, "llama9"),
        ({"nodes": 0}, "out of range"),
        ({"nodes": []}, "out of range"),
        ({"objective": "joy"}, "joy"),
        ({"fixed": {"tq": 1}}, "tq"),
        ({"fixed": {"schedule": "2f2b"}}, "2f2b"),
        ({"min_spare_memory": "much"}, "size"),
        ({"transport": "pigeon"}, "pigeon"),
        ({"fixed": {"tp": []}}, "no value is given for tp"),
    ],
)
def test_wrong_arguments_raise(changes, wrong):
    with pytest.raises(ppsim.Error, match=wrong):
        ppsim.plan(**{**SMALL, **changes})
