"""Every result compares, pickles, and goes to JSON and back."""

import copy
import dataclasses
import functools
import json
import os
import pickle
import tempfile

import pytest

import ppsim

UNIT = {"F": 1, "B": 2, "c": 0.5}
SCHEDULE = ppsim.generate("1f1b", ranks=2, microbatches=3)
HANGS = ppsim.lower(ppsim.generate("1f1b", ranks=4, microbatches=8), order="global", communicators="per-rank")


def run(name: str = "1f1b") -> ppsim.Run:
    return ppsim.simulate(ppsim.generate(name, ranks=2, microbatches=3), unit=UNIT)


def slowed() -> ppsim.Run:
    return ppsim.simulate(SCHEDULE, unit=UNIT, slowdowns=ppsim.Slowdowns(ranks_per_device=2, others=0.5))


def traced() -> str:
    path = os.path.join(tempfile.mkdtemp(), "run.csv")
    run().write_trace(path)
    return path


def calibration() -> ppsim.Calibration:
    return ppsim.calibrate(run(), traced())


@functools.cache
def plan() -> ppsim.Plan:
    return ppsim.plan(model="llama3-8b", cluster="dgx-h100", nodes=1, global_batch_size=8, top=2,
                      fixed={"tp": 4, "pp": 2, "schedule": "1f1b"})


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
    "slowdowns": lambda: ppsim.Slowdowns(ranks_per_device=2, others=0.1, collectives=1),
    "slowed run": slowed,
    "comparison of slowed runs": lambda: ppsim.compare([slowed(), run()]),
    "rank run": lambda: slowed().ranks[0],
    "rank run with sizes": lambda: ppsim.simulate(SCHEDULE, unit={"F": 1, "A": 3}).ranks[1],
    "property": lambda: ppsim.verify(SCHEDULE).properties["matched"],
    "refuted property": lambda: ppsim.verify(HANGS).properties["deadlock_free"],
    "rank memory": lambda: ppsim.verify(SCHEDULE, unit={"A": 3}).memory[0],
    "calibration": lambda: calibration(),
    "calibration group": lambda: calibration().group("F"),
    "replay": lambda: ppsim.replay(run(), traced()),
    "plan": lambda: plan(),
    "plan row": lambda: plan().best,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_results_pickle_and_go_through_json(make):
    value = make()
    assert pickle.loads(pickle.dumps(value)) == value
    assert type(value).from_json(value.to_json()) == value
    assert str(value)
    assert hash(pickle.loads(pickle.dumps(value))) == hash(type(value).from_json(value.to_json())) == hash(value)


def test_every_public_dataclass_goes_through_json():
    public = [getattr(ppsim, name) for name in ppsim.__all__]
    without = {kind.__name__ for kind in public if dataclasses.is_dataclass(kind) and not hasattr(kind, "to_json")}
    assert without == {"StudyResults"}, "a view of a store, as docs/python.md says"


def test_a_text_without_slowdowns_is_of_a_run_without_them():
    data = json.loads(run().to_json())
    del data["slowdowns"]
    assert ppsim.Run.from_json(json.dumps(data)) == run()
    data["slowdowns"] = {"format": "ppsim-slowdowns", "others": -1}
    with pytest.raises(ppsim.FileError, match="others out of range"):
        ppsim.Run.from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "ppsim-jitter"}', "null"])
def test_text_of_something_else_is_no_result(text):
    with pytest.raises(ppsim.FileError, match="no Jitter"):
        ppsim.Jitter.from_json(text)


def test_the_format_names_the_result():
    text = MAKERS["jitter"]().to_json()
    assert json.loads(text)["format"] == "ppsim-jitter"
    with pytest.raises(ppsim.FileError, match="no Repair"):
        ppsim.Repair.from_json(text)


def test_what_is_equal_hashes_alike(tmp_path):
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=4)
    ppsim.write(schedule, tmp_path / "other_name.csv")
    certificate = ppsim.verify(schedule).certificate
    laid_out = ppsim.Certificate.from_json(json.dumps(json.loads(certificate.to_json()), indent=3))
    for one, other in (
        (schedule, ppsim.read(tmp_path / "other_name.csv")),
        (certificate, laid_out),
        (ppsim.Costs.unit(F=1, B=2), ppsim.Costs.unit(B=2, F=1)),
    ):
        assert one == other and hash(one) == hash(other)


def test_copies_of_a_builder_go_on_by_themselves():
    builder = ppsim.ScheduleBuilder(ranks=1, stages=1, microbatches=2, name="mine").forward(0, 0)
    copies = [copy.copy(builder), copy.deepcopy(builder), pickle.loads(pickle.dumps(builder))]
    whole = builder.forward(0, 1).build()
    for one in copies:
        with pytest.raises(ppsim.IllFormed):
            one.build()
        assert one.forward(0, 1).build() == whole
