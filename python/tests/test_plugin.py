"""The requirements of `ppsim --plugin FILE.py` on a file."""

import json

import pytest

import ppsim
from ppsim import cost_models, plugin, registry

FILE = '''
import ppsim

def two_by_two(ranks, microbatches, *, style="narrow"):
    """Forwards, then backwards.

    More of it."""
    if microbatches % 2:
        raise ValueError("microbatches must be even")
    return ppsim.generate("gpipe", ranks=ranks, microbatches=microbatches)

def by_stage(pipeline, *, f="1"):
    """F that grows with the stage."""
    if pipeline.microbatches % 2:
        raise ValueError("microbatches must be even")
    return {
        "format": "ppsim-tables",
        "version": 1,
        "costs": [
            {"kind": kind, "stage": stage, "ns": int(float(f) * 1e6) * (stage + 1 + pipeline.rank_of_stage[stage])}
            for stage in range(pipeline.stages)
            for kind in "FB"
        ],
    }

def units(pipeline):
    return ppsim.Costs.unit(F=pipeline.ranks, B=2)

def model(pipeline):
    return ppsim.Costs.from_model("llama3-8b", "dgx-h100", tp=8)

ppsim.register("two-by-two", two_by_two)
ppsim.register_costs("by-stage", by_stage)
ppsim.register_costs("units", units)
ppsim.register_costs("model", model)
'''


def answer(capsys):
    text = capsys.readouterr().out
    assert text.startswith(f"{plugin.BEGIN}\n") and text.endswith(f"{plugin.END}\n")
    return text[len(plugin.BEGIN) + 1 : -len(plugin.END) - 1]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    yield str(path)
    registry.unregister("two-by-two")
    for name in cost_models.registered_costs():
        cost_models.unregister_costs(name)


OFFERS = (
    "schedule\ttwo-by-two\tForwards, then backwards.\n"
    "costs\tby-stage\tF that grows with the stage.\n"
    "costs\tunits\t\n"
    "costs\tmodel\t\n"
)


def test_lists_what_the_file_registers(file, capsys):
    assert plugin.main([file]) == 0
    assert answer(capsys) == OFFERS


def test_generates_it_as_native_json(file, capsys):
    assert plugin.main([file, "schedule", "two-by-two", "ranks=2", "microbatches=4", "style=wide"]) == 0
    text = answer(capsys)
    assert json.loads(text)["rows"][0][:4] == ["0F0", "0F1", "0F2", "0F3"]
    assert text == ppsim.generate("gpipe", ranks=2, microbatches=4).to_json()


def test_says_in_a_line_what_is_wrong(file, capsys):
    assert plugin.main([file, "schedule", "two-by-two", "ranks=2", "microbatches=3"]) == plugin.REFUSED
    assert capsys.readouterr().out == "microbatches must be even\n"
    assert plugin.main([file, "schedule", "two-by-two", "ranks=2", "microbatches=4", "wrong=1"]) == plugin.REFUSED
    assert capsys.readouterr().out.startswith("TypeError: ")
    assert plugin.main(["nowhere.py"]) == 1
    assert "nowhere.py" in capsys.readouterr().out


def test_what_the_file_prints_is_no_answer(file, capsys):
    with open(file, "a", encoding="utf-8") as more:
        more.write('import warnings\nwarnings.warn("old")\nprint("hello")\n')
    assert plugin.main([file]) == 0
    assert answer(capsys) == OFFERS


def test_a_file_that_exits_says_so(file, capsys):
    with open(file, "a", encoding="utf-8") as more:
        more.write('print("hello")\nraise SystemExit(3)\n')
    assert plugin.main([file]) == 1
    assert capsys.readouterr().out == "SystemExit: 3\n"


SHAPE = ["ranks=2", "microbatches=4", "slices=1", "rank_of_stage=0,1,1,0"]


def test_gives_the_table_of_a_cost_model(file, capsys):
    assert plugin.main([file, "costs", "by-stage", *SHAPE, "f=2"]) == 0
    costs = json.loads(answer(capsys))["costs"]
    assert [entry["ns"] for entry in costs if entry["kind"] == "F"] == [2e6, 6e6, 8e6, 8e6]


def test_costs_of_units_become_a_table(file, capsys):
    assert plugin.main([file, "costs", "units", *SHAPE]) == 0
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=4)
    given = ppsim.simulate(schedule, costs=ppsim.Costs.table(answer(capsys)))
    assert given.makespan_ns == ppsim.simulate(schedule, unit={"F": 2, "B": 2}).makespan_ns


def test_a_cost_model_refuses(file, capsys):
    assert plugin.main([file, "costs", "by-stage", *SHAPE[:1], "microbatches=3", *SHAPE[2:]]) == plugin.REFUSED
    assert capsys.readouterr().out == "microbatches must be even\n"
    assert plugin.main([file, "costs", "model", *SHAPE]) == plugin.REFUSED
    assert "need the whole schedule" in capsys.readouterr().out


def test_the_costs_of_a_call_reach_a_function_and_the_program_has_none(capsys, tmp_path):
    seen = []

    def follows(ranks, microbatches, costs=None):
        seen.append(costs)
        return ppsim.generate("gpipe", ranks=ranks, microbatches=microbatches)

    ppsim.register("follows", follows)
    (tmp_path / "empty.py").write_text("", encoding="utf-8")
    try:
        ppsim.generate("follows", ranks=2, microbatches=2, unit={"F": 1})
        ppsim.generate("follows", ranks=2, microbatches=2)
        assert plugin.main([str(tmp_path / "empty.py"), "schedule", "follows", "ranks=2", "microbatches=2"]) == 0
    finally:
        registry.unregister("follows")
    assert seen == [ppsim.Costs.unit(F=1), None, None]


def test_a_function_makes_what_it_was_asked_for():
    def wider(ranks, microbatches):
        return ppsim.generate("gpipe", ranks=ranks + 1, microbatches=microbatches)

    for function, found in ((wider, "3 ranks, 4 microbatches"), (lambda ranks, microbatches: 5, "5")):
        ppsim.register("wrong", function)
        try:
            with pytest.raises(ppsim.IllFormed, match="the function of wrong") as refused:
                ppsim.generate("wrong", ranks=2, microbatches=4)
            assert refused.value.found == found
        finally:
            registry.unregister("wrong")


def test_an_installed_package_brings_schedules(tmp_path, monkeypatch):
    (tmp_path / "brought.py").write_text(
        "import ppsim\nppsim.register('brought', lambda ranks, microbatches: ppsim.generate('gpipe', ranks=ranks, microbatches=microbatches))\n",
        encoding="utf-8",
    )
    info = tmp_path / "brought-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[ppsim.plugins]\nbrought = brought\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    registry.load_plugins.cache_clear()
    try:
        assert ppsim.generate("brought", ranks=2, microbatches=4) == ppsim.generate("gpipe", ranks=2, microbatches=4)
        assert "brought" in ppsim.schedules()
    finally:
        registry.unregister("brought")
