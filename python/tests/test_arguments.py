"""A wrong argument of whatever type is a ppsim.Error that names it."""

import inspect
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest

import ppsim
import ppsim.testing
import ppsim.torch

WRONG = [
    None, -1, 0, 1.5, 10**30, -(2**63), "", "x", "4", b"x", [], [1], ["x"], {}, {"x": 1}, (1, 2), object(), True, "\0",
    "\ud800", float("nan"), "é" * 50,
]
UNIT = ppsim.Costs.unit(F=1, B=2)
ONE = ppsim.generate("1f1b", ranks=2, microbatches=2)
PROGRAM = ppsim.lower(ONE)
RUN = ppsim.simulate(PROGRAM, costs=UNIT)
FROM_MODEL = {"model": "llama3-8b", "cluster": "dgx-h100", "layout": "even", "dtype": "bf16", "pp": 2, "tp": 4, "nodes": 1}

#: A call and its arguments, each of which is given every wrong value in turn.
CALLS = {
    "generate": (ppsim.generate, {"name": "1f1b", "ranks": 2, "microbatches": 2, "chunks": 1, "slices": 1, "costs": UNIT}),
    "read": (ppsim.read, {"path": "none.csv", "dialect": "auto", "communicators": "per-edge"}),
    "read_text": (ppsim.read_text, {"text": "0F0,0B0\n", "name": "x", "dialect": "torch", "communicators": "per-edge"}),
    "lower": (
        ppsim.lower,
        {"schedule": ONE, "order": "timed", "communicators": "per-edge", "grouping": "none", "recompute": "none",
         "offload": "none", "receive_buffers": 1, "send_done_delay": 0, "with_": (), "costs": UNIT},
    ),
    "lower for": (ppsim.lower, {"schedule": ONE, "target": "torch-2.15", "order": "global"}),
    "unit": (ppsim.Costs.unit, {"F": 1, "tokens": ""}),
    "from_model": (
        lambda **given: ppsim.generate("zb-greedy", ranks=2, microbatches=1, costs=ppsim.Costs.from_model(**given)),
        FROM_MODEL,
    ),
    "simulate": (ppsim.simulate, {"value": ONE, "costs": UNIT, "transport": "any", "buffers": 1}),
    "simulate unit": (lambda unit: ppsim.simulate(ONE, unit=unit), {"unit": {"F": 1}}),
    "simulate_many": (ppsim.simulate_many, {"points": [(ONE, UNIT)], "transport": "any", "threads": 1}),
    "a point": (lambda value, costs: ppsim.simulate_many([(value, costs)]), {"value": PROGRAM, "costs": UNIT}),
    "verify": (
        ppsim.verify,
        {"value": PROGRAM, "transport": "any", "communicators": "per-edge", "buffers": 1, "costs": UNIT,
         "properties": ["matched"], "timeout_s": 5, "cross_check": False, "all_microbatches": False},
    ),
    "verify memory": (lambda limit: ppsim.verify(ONE, memory_limit=limit, costs=ppsim.Costs.unit(A=1)), {"limit": 2**40}),
    "repair": (ppsim.repair, {"value": PROGRAM, "changes": ["move"], "transport": "any", "timeout_s": 5}),
    "synthesize": (ppsim.synthesize, {"ranks": 1, "microbatches": 1, "activation_limit": 1, "objective": "makespan"}),
    "compare": (ppsim.compare, {"what": ["1f1b"], "ranks": 2, "microbatches": 2, "costs": UNIT, "transport": "any"}),
    "builder": (
        ppsim.ScheduleBuilder,
        {"ranks": 1, "stages": 1, "microbatches": 1, "slices": 1, "name": "x", "placement": (0,), "edges": (),
         "routes": (), "microbatch_routes": (), "blocks": ()},
    ),
    "forward": (
        lambda **given: ppsim.ScheduleBuilder(ranks=1, stages=1, microbatches=1).forward(**given),
        {"stage": 0, "microbatch": 0, "rank": 0},
    ),
    "overlap": (
        lambda **given: ppsim.ScheduleBuilder(ranks=1, stages=1, microbatches=2).overlap(**given),
        {"forward": (0, 1), "backward": (0, 0)},
    ),
    "sensitivity": (ppsim.sensitivity, {"run": RUN, "by": "kind"}),
    "break_even": (ppsim.break_even, {"first": RUN, "second": RUN, "over": "F"}),
    "jitter": (
        ppsim.jitter,
        {"run": RUN, "vary": {"all": "lognormal:0.1"}, "vary_ranks": "", "slow_ranks": {0: 2}, "slow_links": {(0, 1): 2},
         "samples": 2, "seed": 1, "threads": 1},
    ),
    "memory": (RUN.memory, {"rank": 0}),
    "svg": (RUN.svg, {"title": "x", "width": 800}),
    "Schedule.svg": (ONE.svg, {"title": "x", "width": 800}),
    "Schedule.show": (ONE.show, {"width": 80}),
    "Run": (ppsim.Run, {"program": PROGRAM, "costs": UNIT, "name": "x", "transport": "any", "buffers": 1, "slowdowns": None}),
    "write_trace": (RUN.write_trace, {"path": "x.csv"}),
    "from_kineto": (ppsim.Costs.from_kineto, {"traces": ["none.json"], "transfer_ns": 0}),
    "study": (ppsim.study, {"question": {}, "store": "x.sqlite", "workers": 1, "batch": 1}),
    "Schedule.from_json": (ppsim.Schedule.from_json, {"text": ONE.to_json()}),
    "Program.from_json": (ppsim.Program.from_json, {"text": PROGRAM.to_json()}),
    "StepTimes.from_json": (ppsim.StepTimes.from_json, {"text": RUN.times.to_json()}),
    "Verdict.from_json": (ppsim.Verdict.from_json, {"text": ppsim.verify(ONE).to_json()}),
    "Certificate.from_json": (ppsim.Certificate.from_json, {"text": ppsim.verify(ONE).certificate.to_json()}),
    "Plan.from_json": (ppsim.Plan.from_json, {}),
    "to_csv": (ONE.to_csv, {"dialect": "torch"}),
    "with_communicators": (PROGRAM.with_communicators, {"policy": "per-edge"}),
    "torch.check": (
        ppsim.torch.check,
        {"schedule": {0: ["0F0", "0B0"]}, "transport": "nccl", "communicators": "per-pair", "dialect": "torch"},
    ),
    "torch.check for": (ppsim.torch.check, {"schedule": {0: ["0F0", "0B0"]}, "target": "torch-2.15"}),
    "check_schedule": (ppsim.testing.check_schedule, {"name": "1f1b", "ranks": 2, "microbatches": 2}),
}


@pytest.mark.parametrize("call", CALLS)
def test_nothing_but_an_error_of_ours_comes_out(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function, right = CALLS[call]
    for name in right:
        for wrong in WRONG:
            try:
                function(**{**right, name: wrong})
            except ppsim.Error as refused:
                assert str(refused), (name, wrong)


def test_every_public_call_holds_its_arguments_against_their_annotations():
    calls = {name: getattr(ppsim, name) for name in ppsim.__all__ if inspect.isfunction(getattr(ppsim, name))}
    unchecked = {name for name, call in calls.items() if not hasattr(call, "__wrapped__")}
    assert unchecked == {"check", "schedules", "targets"}, "check is verify; the other two take nothing"


def test_the_error_names_the_argument_and_what_would_be_right():
    with pytest.raises(ppsim.Error, match=r"^transport is of another type \(found 4, expected a text\)$"):
        ppsim.simulate(ONE, transport=4)
    with pytest.raises(ppsim.Error, match="expected a list, each .a Schedule or a Program, a Costs"):
        ppsim.simulate_many([(ONE, None)])
    with pytest.raises(ppsim.Error, match="properties is of another type .found 'matched', expected None, or a list, each a text"):
        ppsim.verify(ONE, properties="matched")
    with pytest.raises(ppsim.Error, match="expected an Executor or a function or None"):
        ppsim.study({}, store="x.sqlite", executor=4)
    with pytest.raises(TypeError, match=r"simulate\(\) .*transports"):
        ppsim.simulate(ONE, transports="any")


def test_a_path_that_no_file_can_have_is_refused():
    for wrong in ("", "cut\0.csv", "\udcff.csv"):
        for call in (ppsim.read, RUN.write_trace, RUN.write_report, lambda path: ppsim.write(ONE, path),
                     lambda path: ppsim.study({}, store=path), ppsim.Costs.from_kineto):
            with pytest.raises(ppsim.Error, match="no path"):
                call(wrong)


def test_what_stands_for_a_number_or_a_list_is_taken():
    again = ppsim.ScheduleBuilder(ranks=numpy.int32(1), stages=1, microbatches=numpy.uint8(1))
    assert again.forward(numpy.int64(0), 0).backward(0, numpy.int64(0)).build().microbatches == 1
    assert ppsim.Costs.unit(F=numpy.float64(0.5), c=Decimal("0.1")) == ppsim.Costs.unit(F=0.5, c=0.1)
    assert ppsim.Costs.unit(F=1) != ppsim.Costs.unit(F=1.0), "a cost prints as it was written"
    assert len(ppsim.compare((name for name in ("1f1b", "gpipe")), ranks=2, microbatches=2)) == 2
    assert ppsim.Costs.unit(F=Fraction(1, 4)) == ppsim.Costs.unit(F=0.25)
    assert ppsim.lower(ONE, with_="opt") == ppsim.lower(ONE, with_=["opt"]), "one is as good as a list of one"


def test_what_an_iterator_of_the_caller_raises_is_not_hidden():
    def points():
        yield PROGRAM, UNIT
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        ppsim.simulate_many(points())


def test_a_number_that_is_too_large_is_out_of_range():
    for call in (
        lambda: ppsim.generate("1f1b", ranks=2**31, microbatches=2),
        lambda: RUN.svg(width=10**5000),
        lambda: ONE.svg(width=numpy.int64(2**40)),
        lambda: ONE.svg(width=10**5000),
        lambda: ppsim.jitter(RUN, seed=2**63),
        lambda: ppsim.simulate(ONE, unit={"F": 1.0, "B": 2.0, "c": float("nan")}),
    ):
        with pytest.raises(ppsim.Error, match="out of range"):
            call()
    with pytest.raises(ppsim.Error, match="F.* 1000.*out of range|out of range .found 'F': 1000"):
        ppsim.simulate(ONE, unit={"F": 10**400})
    with pytest.raises(ppsim.Error, match="ranks is of another type"):
        ppsim.generate("1f1b", ranks=numpy.array([1, 2]), microbatches=2)
    with pytest.raises(ppsim.Error, match="found 'c': 'x'"):
        ppsim.simulate(ONE, unit={**dict.fromkeys("FBIWR", 1.0), "FB": 3.0, "c": "x"})
    with pytest.raises(ppsim.Error, match=r"found 'c': nan"):
        ppsim.simulate(ONE, unit={**dict.fromkeys("FBIWR", 1.0), "c": float("nan"), "FB": 3.0})


def test_a_builder_refuses_more_than_a_pipeline_may_have_at_once():
    for counts in ({"ranks": 10**8, "stages": 1}, {"ranks": 1, "stages": 2 * 10**9}):
        with pytest.raises(ppsim.Error, match="too many"):
            ppsim.ScheduleBuilder(**counts, microbatches=1)
    text = ppsim.generate("1f1b", ranks=1, microbatches=1).to_json().replace('"ranks": 1', '"ranks": 65537')
    with pytest.raises(ppsim.Error, match="65536"):  # as everywhere
        ppsim.read_text(text)


def test_a_key_is_one_unit():
    with pytest.raises(ppsim.Error, match="unknown unit cost"):
        ppsim.simulate(ONE, unit={"F=5,B": 1})


def test_costs_beyond_64_bits_are_an_error():
    costs = [{"kind": "F", "ns": 2**62}] + [{"kind": kind, "ns": 1} for kind in ("B", "SEND_F", "SEND_B")]
    table = ppsim.Costs.table({"format": "ppsim-tables", "version": 1, "costs": costs})
    for call in (ppsim.simulate, ppsim.lower):
        with pytest.raises(ppsim.Error, match="more than fits in 64 bits"):
            call(ppsim.generate("1f1b", ranks=4, microbatches=8), costs=table)
    with pytest.raises(ppsim.Error, match="more than fits in 64 bits"):
        ppsim.jitter(ppsim.simulate(ONE, unit={"F": 1e9}), slow_ranks={0: 1e6})


def test_a_dialect_is_for_a_csv(tmp_path):
    with pytest.raises(ppsim.Error, match="dialect is for a CSV"):
        ppsim.write(ONE, tmp_path / "one.json", dialect="legacy")


def test_a_model_may_shard_its_parameters():
    costs = ppsim.Costs.from_model("llama3-8b", "dgx-h100", tp=2, pp=2, dp=2, global_batch_size=8, fsdp=True)
    assert repr(costs).endswith("fsdp=True, dp=2, global_batch_size=8, pp=2, tp=2)")
    assert eval(repr(costs).replace("Costs", "ppsim.Costs", 1)) == costs
    plain = ppsim.Costs.from_model("llama3-8b", "dgx-h100", tp=2, pp=2, dp=2, global_batch_size=8)
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=4)
    assert ppsim.simulate(schedule, costs=costs).peak_bytes < ppsim.simulate(schedule, costs=plain).peak_bytes
