"""Costs, runs and comparisons."""

import pickle

import numpy
import pytest

import ppsim

UNIT = {"F": 1, "B": 2}


def zb_h1(microbatches: int = 8) -> ppsim.Schedule:
    return ppsim.generate("zb-h1", ranks=4, microbatches=microbatches)


def test_a_run_says_what_the_closed_form_says():
    run = ppsim.simulate(ppsim.generate("1f1b", ranks=4, microbatches=8), unit=UNIT)
    assert run.makespan_ns == (8 + 3) * 3_000_000
    assert run.rank_span_ns == run.makespan_ns
    assert run.ideal_ns == 24_000_000
    assert run.bubble_fraction == pytest.approx(3 / 11)
    assert [rank.peak_live_activations for rank in run.ranks] == [4, 3, 2, 1]
    assert run.peak_bytes is None and run.ranks[0].peak_bytes is None
    assert sum(run.bubble_ns.values()) == 4 * 9_000_000
    assert run.critical_path[-1]["end_ns"] == run.makespan_ns
    assert run.free_of_cost == []


def test_slowdowns_are_those_of_the_command_line():
    schedule = ppsim.generate("1f1b", ranks=4, microbatches=8)
    unit = {"F": 1, "B": 2, "c": 0.1}
    alone = ppsim.simulate(schedule, unit=unit)
    shared = ppsim.simulate(schedule, unit=unit, slowdowns=ppsim.Slowdowns(ranks_per_device=4, others=0.1))
    assert round(shared.makespan_ns / 1e4) == 4061  # docs/effects.md
    slowed = ppsim.simulate(schedule, unit=unit, slowdowns=ppsim.Slowdowns(transfers=0.5))
    assert alone.makespan_ns < slowed.makespan_ns
    assert ppsim.simulate(schedule, unit=unit, slowdowns=ppsim.Slowdowns()) == alone
    assert slowed != alone and pickle.loads(pickle.dumps(slowed)).makespan_ns == slowed.makespan_ns
    with pytest.raises(ppsim.Error, match="others out of range"):
        ppsim.Slowdowns(others=-1)
    with pytest.raises(ppsim.Error, match="ranks_per_device out of range"):
        ppsim.Slowdowns(ranks_per_device=0)


@pytest.mark.parametrize("wrong", [
    {"ranks_per_device": 1.5}, {"ranks_per_device": "2"}, {"ranks_per_device": True}, {"others": None}, {"others": "1"},
    {"others": True, "ranks_per_device": 2},
])
def test_slowdowns_of_another_type_are_named(wrong):
    with pytest.raises(ppsim.Error, match=f"{next(iter(wrong))} is of another type"):
        ppsim.Slowdowns(**wrong)


def test_slowdowns_of_others_need_others():
    with pytest.raises(ppsim.Error, match="a slowdown is of the ranks that share a device .found others=0.1 alone"):
        ppsim.Slowdowns(others=0.1)
    taken = ppsim.Slowdowns(ranks_per_device=numpy.int64(2), others=numpy.float32(0.5))
    assert taken == ppsim.Slowdowns(ranks_per_device=2, others=0.5)


def test_costs_have_a_part():
    for make in (lambda: ppsim.Costs(()), lambda: ppsim.Costs.from_json("[]")):
        with pytest.raises(ppsim.Error, match="there are no costs"):
            make()
    for text in ("[]", '""', "{}", '[["unit"]]', '[["model", [[], []]]]', '[["nothing", 1]]', '[["unit", ["F=x", ""]]]', "5"):
        with pytest.raises(ppsim.FileError):
            ppsim.Costs.from_json(text)


def test_whole_numbers_of_numpy_are_taken_in_a_table():
    entries = [{"kind": kind, "ns": numpy.int64(3)} for kind in ("F", "B", "SEND_F", "SEND_B")]
    table = {"format": "ppsim-tables", "version": numpy.int32(1), "costs": entries, "sizes": []}
    assert ppsim.simulate(ppsim.generate("1f1b", ranks=1, microbatches=1), costs=ppsim.Costs.table(table)).step_ns == 6
    with pytest.raises(ppsim.Error, match="no table of costs"):
        ppsim.Costs.table({"costs": object()})


def test_a_count_below_0_is_the_one_that_was_found():
    costs = ppsim.Costs.from_model
    with pytest.raises(ppsim.Error, match="found -1"):
        costs("llama3-8b", "dgx-h100", tp=-1)
    job = {"dp": 8, "global_batch_size": 8}
    assert costs("llama3-8b", "dgx-h100", calibration=None, **job) == costs("llama3-8b", "dgx-h100", **job)


@pytest.mark.parametrize("width", [-5, 0, 19, 20001, 2**31 - 1])
def test_a_width_is_that_of_the_command_line(width, capsys):
    schedule = zb_h1()
    run = ppsim.simulate(schedule)
    for draw in (run.svg, run.show, schedule.svg, schedule.show, ppsim.compare([run]).svg, ppsim.compare([run]).show):
        with pytest.raises(ppsim.Error, match=f"width out of range .found {width}, expected 20 to 20000"):
            draw(width=width)
    with pytest.raises(ppsim.Error, match="width is out of range .found 1267650600228229401496703205376,"):
        schedule.svg(width=2**100)
    assert run.svg(width=20) and schedule.svg(width=20000)


def test_nothing_has_no_report(tmp_path):
    with pytest.raises(ppsim.Error, match="a report needs runs"):
        ppsim.compare([]).write_report(tmp_path / "empty.html")


def test_unknown_memory_has_no_rows():
    run = ppsim.simulate(zb_h1())
    assert run.peak_bytes is None and len(run.memory(0)) == 0
    assert run.memory(0).dtype.names == ("time_ns", "round", "bytes")


def test_sizes_give_memory():
    schedule = ppsim.generate("gpipe", ranks=2, microbatches=3)
    run = ppsim.simulate(schedule, unit={"F": 1, "B": 2, "A": 10})
    assert run.peak_bytes == 30
    memory = run.memory(0)
    assert memory["bytes"].max() == 30
    assert (numpy.diff(memory["time_ns"]) >= 0).all()
    with pytest.raises(ppsim.Error, match="no such rank"):
        run.memory(2)


def test_a_rank_says_what_lives_at_its_peak():
    job = {"tp": 8, "pp": 4, "dp": 2, "global_batch_size": 16, "sequence_length": 8192}
    costs = ppsim.Costs.from_model("llama3-70b", "dgx-h100", nodes=8, **job)
    first, *_, last = ppsim.simulate(ppsim.generate("1f1b", ranks=4, microbatches=8), costs=costs).ranks
    for rank in (first, last):
        assert sum(rank.at_peak.values()) == rank.peak_bytes
        assert list(rank.at_peak.values()) == sorted(rank.at_peak.values(), reverse=True)
        assert rank.peak_bytes <= rank.allocated_bytes <= rank.reserved_bytes
    assert first.at_peak["saved_for_input"] > last.at_peak["saved_for_input"]
    unknown = ppsim.simulate(zb_h1(), unit=UNIT).ranks[0]
    assert (unknown.at_peak, unknown.allocated_bytes, unknown.reserved_bytes) == (None, None, None)
    assert len({first, last}) == 2


def test_recomputation_is_that_of_the_costs():
    job = {"tp": 2, "pp": 4, "global_batch_size": 8}
    costs = ppsim.Costs.from_model("llama3-8b", "dgx-h100", recompute="full", **job)
    schedule = ppsim.generate("1f1b", ranks=4, microbatches=8)
    run = ppsim.simulate(schedule, costs=costs)
    assert run.program == ppsim.lower(schedule, costs=costs, recompute="full")
    kept = ppsim.simulate(schedule, costs=ppsim.Costs.from_model("llama3-8b", "dgx-h100", **job))
    assert run.ranks[0].peak_bytes < kept.ranks[0].peak_bytes and run.makespan_ns > kept.makespan_ns
    assert "recompute='full'" in repr(costs) and "stack" not in repr(costs)
    with pytest.raises(ppsim.Error, match="the costs are those of recomputation, and the Program has none"):
        ppsim.simulate(ppsim.lower(schedule), costs=costs)
    with pytest.raises(ppsim.Error, match="the costs are those of another recomputation") as other:
        ppsim.lower(schedule, costs=costs, recompute="none")
    assert "full, as in Costs.from_model" in other.value.expected


def test_the_trace_is_an_array_without_a_copy():
    run = ppsim.simulate(zb_h1())
    trace = run.trace
    assert trace.shape == (len(run.program),)
    assert trace["end_ns"].max() == run.makespan_ns
    assert (trace["end_ns"] >= trace["start_ns"]).all()
    assert numpy.shares_memory(trace, run.trace)
    with pytest.raises(ValueError, match="read-only"):
        trace["start_ns"][0] = 1
    del run
    assert trace["start_ns"][0] == 0


def test_runs_compare_print_pickle_and_go_through_json():
    run = ppsim.simulate(zb_h1(), unit={"F": 1, "I": 1, "W": 1, "A": 5}, transport="nccl")
    for again in (pickle.loads(pickle.dumps(run)), ppsim.Run.from_json(run.to_json())):
        assert again == run and hash(again) == hash(run)
        assert again.ranks == run.ranks and again.transport == "nccl"
    assert run != ppsim.simulate(zb_h1(), unit=UNIT)
    assert "zb-h1" in repr(run) and "<svg" in run._repr_html_()
    with pytest.raises(ppsim.FileError):
        ppsim.Run.from_json("{}")


def test_pictures_traces_and_reports(tmp_path, capsys):
    run = ppsim.simulate(zb_h1())
    run.show()
    assert len(capsys.readouterr().out.splitlines()) >= 4
    run.write_trace(tmp_path / "trace.csv")
    assert (tmp_path / "trace.csv").read_text().startswith("rank,queue,index")
    run.write_report(tmp_path / "report.html")
    assert "<html" in (tmp_path / "report.html").read_text()
    with pytest.raises(ppsim.Error, match="suffix|\\.csv"):
        run.write_trace(tmp_path / "trace.txt")


def test_a_program_that_hangs_cannot_be_simulated(hanging):
    with pytest.raises(ppsim.Deadlock, match="waits for") as caught:
        ppsim.simulate(hanging)
    assert caught.value.code == "deadlock"


def test_costs_are_values():
    for costs in (
        ppsim.Costs.unit(F=1, B=2.5, c=1e-6),
        ppsim.Costs.from_model("llama3-8b", "dgx-h100", pp=8, global_batch_size=8),
        ppsim.Costs.unit(F=1) | ppsim.Costs.from_model("llama3-8b", "dgx-h100", pp=8, global_batch_size=8),
    ):
        for again in (pickle.loads(pickle.dumps(costs)), ppsim.Costs.from_json(costs.to_json())):
            assert again == costs and hash(again) == hash(costs)
        assert repr(costs).startswith("Costs.")
    assert ppsim.Costs.unit(F=1) != ppsim.Costs.unit(F=2)


def test_a_table_goes_before_what_it_lies_over(tmp_path):
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=2)
    units = ppsim.Costs.unit(F=1, B=2)
    table = ppsim.Costs.table(units.bound(schedule))
    assert ppsim.simulate(schedule, costs=table).makespan_ns == 9_000_000
    slower = ppsim.simulate(schedule, costs=table | ppsim.Costs.unit(F=2, B=2)).makespan_ns
    assert slower == 12_000_000
    (tmp_path / "costs.json").write_text(units.bound(schedule))
    assert ppsim.Costs.read(tmp_path / "costs.json") == ppsim.Costs.table(
        ppsim.Costs.read(tmp_path / "costs.json")._parts[0][1]
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: ppsim.Costs.unit(F=-1),
        lambda: ppsim.Costs.unit(Q=1),
        lambda: ppsim.Costs.unit(F="fast"),
        lambda: ppsim.Costs.table("{"),
        lambda: ppsim.Costs.read("missing.json"),
        lambda: ppsim.Costs.from_json("[1]"),
        lambda: ppsim.Costs.from_model("llama3-8b", "no-such-cluster"),
        lambda: ppsim.Costs.from_model("llama3-8b", "dgx-h100", gpus=8),
        lambda: ppsim.simulate(zb_h1(), costs=ppsim.Costs.unit(), unit={"F": 1}),
        lambda: ppsim.simulate(zb_h1(), costs={"F": 1}),
        lambda: ppsim.simulate("zb-h1"),
        lambda: ppsim.simulate(zb_h1(), transport="pigeon"),
        lambda: ppsim.simulate(zb_h1(), buffers=0),
        lambda: ppsim.simulate_many([(zb_h1(), ppsim.Costs.unit())], threads=-1),
    ],
)
def test_wrong_arguments_raise(make):
    with pytest.raises(ppsim.Error):
        make()


def test_a_model_gives_tokens_memory_and_a_limit():
    costs = ppsim.Costs.from_model("llama3-8b", "dgx-h100", pp=8, global_batch_size=16)
    run = ppsim.simulate(ppsim.generate("1f1b", ranks=8, microbatches=16), costs=costs)
    assert run.memory_limit_bytes == 80_000_000_000
    assert run.tokens_per_second > 0 and 0 < run.model_flops_utilization < 1
    assert run.fits is (run.peak_bytes <= run.memory_limit_bytes)
    with pytest.raises(ppsim.Error, match="microbatches"):
        ppsim.simulate(ppsim.generate("1f1b", ranks=8, microbatches=4), costs=costs)


def test_compare_is_a_table_and_a_picture(tmp_path):
    comparison = ppsim.compare(["1f1b", "zb-h1", zb_h1()], ranks=4, microbatches=8, unit={"F": 1, "I": 1, "W": 1})
    assert [run.name for run in comparison] == ["1f1b", "zb-h1", "zb-h1"]
    assert [row["makespan_ns"] for row in comparison.rows()][1:] == [comparison.runs[1].makespan_ns] * 2
    assert len(str(comparison).splitlines()) == 4
    assert comparison.svg().count("<svg") == 4
    assert "<pre>" in comparison._repr_html_()
    comparison.write_report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_runs_are_compared_as_they_are(capsys):
    runs = [ppsim.simulate(zb_h1(), unit={"F": 1, "I": 1, "W": w}) for w in (1, 2)]
    comparison = ppsim.compare(runs)
    assert list(comparison) == runs
    comparison.show(width=60)
    shown = capsys.readouterr().out
    assert str(comparison) in shown and shown.count("rank 0") >= 2
    by_model = ppsim.Costs.from_model("llama3-8b", "dgx-h100", tp=2, pp=4, global_batch_size=8)
    priced = ppsim.simulate(ppsim.generate("zb-v", ranks=4, microbatches=8), costs=by_model)
    assert len(ppsim.compare([priced, "1f1b"], ranks=4, microbatches=8, costs=by_model)) == 2
    beside = ppsim.compare([priced, "1f1b"], ranks=4, microbatches=8)  # under the costs of the run
    assert [run.costs for run in beside] == [by_model, by_model]
    with pytest.raises(ppsim.Error, match="stages"):
        ppsim.compare([priced, "1f1b"], ranks=4, microbatches=8, unit={"F": 1})
    with pytest.raises(ppsim.Error, match="of their own"):
        ppsim.compare(runs, transport="mpi")
    with pytest.raises(ppsim.Error, match="for names"):
        ppsim.compare(runs, ranks=99)


def test_a_run_has_a_name_and_its_communicators_take_memory():
    schedule = ppsim.generate("1f1b", ranks=4, microbatches=16)
    costs = ppsim.Costs.from_model(
        "llama3-8b", "dgx-h100", tp=2, pp=4, nodes=1, global_batch_size=16, sequence_length=26560
    )
    run = ppsim.simulate(schedule, costs=costs, transport="nccl", name="mine")
    assert run.name == run.row()["name"] == "mine"
    assert run.peak_bytes < run.memory_limit_bytes and not run.fits
    assert all(rank.communicator_bytes > 0 for rank in run.ranks)
    assert not any(rank.communicator_bytes for rank in ppsim.simulate(schedule, costs=costs).ranks)


def test_compare_refuses_other_work():
    with pytest.raises(ppsim.Error, match="same ranks"):
        ppsim.compare([zb_h1(4), zb_h1(8)])
    with pytest.raises(ppsim.Error, match="stages"):
        ppsim.compare(["1f1b", "zb-v"], ranks=4, microbatches=8)
    with pytest.raises(ppsim.Error, match="ranks="):
        ppsim.compare(["1f1b"])
