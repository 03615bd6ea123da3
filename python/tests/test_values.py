"""What every result can do: compare, pickle, go to JSON and back."""

import json
import pickle

import pytest

import ppsim

UNIT = {"F": 1, "B": 2, "c": 0.5}


def run(name: str = "1f1b") -> ppsim.Run:
    return ppsim.simulate(ppsim.generate(name, ranks=2, microbatches=3), unit=UNIT)


MAKERS = {
    "schedule": lambda: ppsim.generate("1f1b", ranks=2, microbatches=3),
    "program": lambda: ppsim.lower(ppsim.generate("1f1b", ranks=2, microbatches=3)),
    "run": run,
    "costs": lambda: ppsim.Costs.unit(F=1, B=2),
    "verdict": lambda: ppsim.verify(ppsim.generate("1f1b", ranks=2, microbatches=3)),
    "comparison": lambda: ppsim.compare(["1f1b", "gpipe"], ranks=2, microbatches=3, unit=UNIT),
    "sensitivity": lambda: ppsim.sensitivity(run())[0],
    "break-even": lambda: ppsim.break_even(run(), run("gpipe"), "transfers", added=True),
    "jitter": lambda: ppsim.jitter(run(), vary={"all": "lognormal:0.1"}, samples=20),
    "repair": lambda: ppsim.repair(ppsim.generate("1f1b", ranks=2, microbatches=3)),
    "synthesis": lambda: ppsim.synthesize(ranks=2, microbatches=3, activation_limit=2),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_results_pickle_and_go_through_json(make):
    value = make()
    assert pickle.loads(pickle.dumps(value)) == value
    assert type(value).from_json(value.to_json()) == value
    assert str(value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "ppsim-jitter"}', "null"])
def test_text_of_something_else_is_no_result(text):
    with pytest.raises(ppsim.FileError, match="no Jitter"):
        ppsim.Jitter.from_json(text)


def test_the_format_names_the_result():
    text = MAKERS["jitter"]().to_json()
    assert json.loads(text)["format"] == "ppsim-jitter"
    with pytest.raises(ppsim.FileError, match="no Repair"):
        ppsim.Repair.from_json(text)
