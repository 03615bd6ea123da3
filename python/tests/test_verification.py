"""Verdicts, repairs and searches."""

import gc
import json
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import ppsim


def test_what_holds_is_proved():
    schedule = ppsim.generate("zb-v", ranks=4, microbatches=8)
    verdict = ppsim.verify(schedule)
    assert verdict and verdict.ok
    assert verdict.transport == "any"
    assert verdict.properties["deadlock_free"].verdict == "proved"
    assert "deadlock_free" in verdict.report and str(verdict) == verdict.report
    verdict.certificate.check(verdict.program)
    assert verdict.certificate.program_hash == verdict.program.hash
    with pytest.raises(ppsim.Error, match="it is about program"):
        verdict.certificate.check(ppsim.lower(ppsim.generate("zb-v", ranks=4, microbatches=9)))


def test_a_hang_is_refuted_with_its_cycle(hanging):
    verdict = ppsim.verify(hanging, transport="in-process")
    assert not verdict and verdict.certificate is None
    answer = verdict.properties["deadlock_free"]
    assert answer.verdict == "refuted"
    cycle = answer.counterexample["cycle"]
    assert cycle[0] == {
        "rank": 0,
        "index": 3,
        "action": "0SEND_F1",
        "waits_for": {"rank": 1, "index": 4, "action": "1RECV_F1"},
        "why": "a transfer begins when both ends have started",
    }
    assert "rank 0: 0SEND_F1 waits for rank 1: 1RECV_F1" in verdict.report


@pytest.mark.parametrize("timeout_s", [0, -1, float("-inf")])
def test_a_timeout_is_above_0(hanging, timeout_s):
    with pytest.raises(ppsim.Error, match="timeout_s out of range"):
        ppsim.verify(hanging, timeout_s=timeout_s)


def test_check_returns_or_raises(hanging):
    assert ppsim.check(hanging, communicators="per-edge").ok
    with pytest.raises(ppsim.Deadlock) as caught:
        ppsim.check(hanging)
    assert isinstance(caught.value, ppsim.CheckFailed) and isinstance(caught.value, ValueError)
    assert caught.value.property == "deadlock_free"
    assert caught.value.counterexample["cycle"]
    assert "waits for" in str(caught.value)
    assert caught.value.verdict.program == hanging
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.verdict == caught.value.verdict


def test_a_mix_up_and_a_missing_action_are_told_apart():
    crossed = (
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F1,1F1,1RECV_F0,1F0,1B0,1SEND_B0,1B1,1SEND_B1\n"
    )
    with pytest.raises(ppsim.Mismatch):
        ppsim.check(ppsim.read_text(crossed))
    with pytest.raises(ppsim.IllFormed):
        ppsim.check(ppsim.read_text("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n"))


def test_memory_is_held_against_a_limit():
    schedule = ppsim.generate("gpipe", ranks=2, microbatches=4)
    unit = {"F": 1, "B": 2, "A": 100}
    verdict = ppsim.check(schedule, unit=unit, memory_limit=400)
    assert verdict.fits and verdict.memory[0].bytes == 400
    with pytest.raises(ppsim.DoesNotFit) as caught:
        ppsim.check(schedule, unit=unit, memory_limit="300")
    assert caught.value.counterexample["bytes"] == 400
    assert caught.value.counterexample["limit"] == 300
    with pytest.raises(ppsim.Error, match="memory needs sizes"):
        ppsim.verify(schedule, memory_limit=300)


def test_a_pool_above_the_limit_does_not_fit():
    schedule = ppsim.generate("1f1b", ranks=8, microbatches=8)
    costs = ppsim.Costs.from_model("llama3-8b", "dgx-h100", pp=8, global_batch_size=8)
    verdict = ppsim.verify(schedule, costs=costs, transport="nccl")
    most = max(rank.bytes for rank in verdict.memory)
    assert all(rank.pool_bytes >= rank.bytes and rank.communicator_bytes > 0 for rank in verdict.memory)
    tight = ppsim.verify(schedule, costs=costs, transport="nccl", memory_limit=most)
    assert tight.properties["memory"].verdict == "proved"
    assert tight.fits is False and not tight
    with pytest.raises(ppsim.DoesNotFit):
        ppsim.check(schedule, costs=costs, transport="nccl", memory_limit=most)


def test_what_is_not_decided_in_time_is_unknown():
    schedule = ppsim.generate("1f1b", ranks=4, microbatches=8)
    with pytest.raises(ppsim.Unknown) as caught:
        ppsim.check(schedule, timeout_s=1e-9)
    assert caught.value.code == "unknown"
    assert any(p.verdict == "unknown" for p in caught.value.verdict.properties.values())


def test_properties_can_be_chosen():
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=2)
    assert list(ppsim.verify(schedule, properties=["matched"]).properties) == ["matched"]
    with pytest.raises(ppsim.Error, match="deadlock_free"):
        ppsim.verify(schedule, properties=["deadlock_fre"])


def test_every_number_of_microbatches_is_decided_at_once():
    schedule = ppsim.generate("1f1b", ranks=4, microbatches=8)
    verdict = ppsim.check(schedule, unit={"F": 1, "B": 2, "A": 10}, memory_limit=40, all_microbatches=True)
    assert list(verdict.properties) == ["matched", "deadlock_free", "memory"]
    assert verdict.fits and verdict.certificate is None and verdict.program.microbatches == 8
    assert [rank.bytes for rank in verdict.memory] == [40, 30, 20, 10]
    assert all(rank.bytes_per_period == 0 for rank in verdict.memory)
    assert any("m = " in line for line in verdict.all_microbatches)
    assert all(line in verdict.report for line in verdict.all_microbatches)
    assert pickle.loads(pickle.dumps(verdict)) == verdict
    assert ppsim.Verdict.from_json(verdict.to_json()) == verdict
    assert verdict != ppsim.verify(schedule)


def test_the_smallest_number_of_microbatches_that_breaks_a_property_is_named():
    schedule = ppsim.generate("gpipe", ranks=2, microbatches=3)
    with pytest.raises(ppsim.DoesNotFit, match="first at m = 5") as caught:
        ppsim.check(schedule, unit={"F": 1, "B": 2, "A": 10}, memory_limit=40, all_microbatches=True)
    assert caught.value.counterexample["bytes"] == 50
    answer = caught.value.verdict.properties["memory"]
    assert answer.microbatches == 5
    verdict = ppsim.verify(schedule, unit={"F": 1, "B": 2, "A": 10}, all_microbatches=True)
    assert [(rank.bytes_per_period, rank.period) for rank in verdict.memory] == [(10, 1), (10, 1)]
    assert "10 B * m" in verdict.report


def test_a_model_has_the_batch_that_each_number_of_microbatches_asks_for():
    schedule = ppsim.generate("1f1b", ranks=2, microbatches=8)
    costs = ppsim.Costs.from_model("llama3-8b", "dgx-h100", tp=2, pp=2, dp=2, global_batch_size=16)
    verdict = ppsim.verify(schedule, costs=costs, transport="nccl", all_microbatches=True, properties=["matched"])
    assert verdict.properties["matched"].verdict == "proved"


def test_all_microbatches_are_those_of_a_published_schedule(hanging):
    with pytest.raises(ppsim.Error, match="not for one Program"):
        ppsim.verify(hanging, all_microbatches=True)
    schedule = ppsim.generate("zb-v", ranks=2, microbatches=4)
    with pytest.raises(ppsim.Error, match="without target and cross_check"):
        ppsim.verify(schedule, target="torch-2.15", all_microbatches=True)
    with pytest.raises(ppsim.Error, match="transport"):
        ppsim.verify(schedule, transport="pigeons", all_microbatches=True)
    with pytest.raises(ppsim.Error, match="weight_versions"):
        ppsim.verify(schedule, properties=["weight_versions"], all_microbatches=True)
    builder = ppsim.ScheduleBuilder(ranks=1, stages=1, microbatches=2, name="1f1b")
    for kind in (builder.forward, builder.backward):
        kind(0, 0)
        kind(0, 1)
    with pytest.raises(ppsim.Error, match="how this schedule goes on"):
        ppsim.verify(builder.build(), all_microbatches=True)


def test_verdicts_compare_print_pickle_and_go_through_json(hanging):
    for value in (hanging, ppsim.generate("zb-h1", ranks=2, microbatches=2)):
        verdict = ppsim.verify(value)
        assert pickle.loads(pickle.dumps(verdict)) == verdict
        assert ppsim.Verdict.from_json(verdict.to_json()) == verdict
        assert "deadlock_free" in repr(verdict) and "<pre>" in verdict._repr_html_()


def test_z3_agrees(hanging):
    verdict = ppsim.verify(hanging, transport="in-process", properties=["deadlock_free"], cross_check=True)
    assert verdict.properties["deadlock_free"].notes == ["Z3 agrees"]


def test_a_repair_is_the_fewest_changes(hanging):
    repair = ppsim.repair(hanging, transport="in-process")
    assert repair and len(repair.changes) == 1
    assert ppsim.check(repair.program, transport="in-process")
    moved = ppsim.repair(hanging, transport="in-process", changes=["move"])
    assert all(change.startswith("move") for change in moved.changes)
    with pytest.raises(ppsim.Error, match="move, group or split"):
        ppsim.repair(hanging, changes=["pray"])


def test_what_is_ill_formed_stays_so_in_a_repair():
    text = ("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0RECV_B0\n"
            "1F0,1RECV_F0,1SEND_B1,1B0,1SEND_B0,1F1,1B1,1RECV_F1\n")
    assert ppsim.repair(ppsim.read_text(text), transport="nccl").still_refuted == ["well_formed"]


def test_what_is_absent_cannot_be_repaired():
    repair = ppsim.repair(ppsim.read_text("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n"))
    assert not repair and repair.why


def test_synthesis_finds_the_optimum():
    found = ppsim.synthesize(ranks=2, microbatches=3, activation_limit=2, unit={"F": 1, "I": 1, "W": 1})
    assert found.optimal and found.peak_live_activations <= 2
    assert ppsim.simulate(found.schedule, unit={"F": 1, "I": 1, "W": 1}).makespan_ns == found.value_ns
    assert found.certificate.program_hash == found.program.hash
    with pytest.raises(ppsim.DoesNotFit):
        ppsim.synthesize(ranks=2, microbatches=3, activation_limit=0)
    with pytest.raises(ppsim.Error, match="makespan or span"):
        ppsim.synthesize(ranks=2, microbatches=3, activation_limit=2, objective="fun")


def test_a_seed_is_0_or_more():
    for seed in (-1, -(2**40)):
        with pytest.raises(ppsim.Error, match="seed out of range"):
            ppsim.synthesize(ranks=1, microbatches=1, activation_limit=1, seed=seed)
    assert ppsim.synthesize(ranks=1, microbatches=1, activation_limit=1, seed=2**40).optimal


def test_synthesis_places_stages_and_keeps_to_bytes():
    unit = {"F": 5, "I": 7, "W": 4, "A": 10}
    asked = {"ranks": 3, "microbatches": 6, "unit": unit, "steps": 500}
    found = ppsim.synthesize(placement="v", activation_limit=4, **asked)
    listed = ppsim.synthesize(placement=[0, 1, 2, 2, 1, 0], memory_limit=40, **asked)
    assert found.peak_live_activations <= 4 and found.worst_case_bytes is None
    assert listed.value_ns == found.value_ns and listed.worst_case_bytes <= 40
    assert ppsim.simulate(found.schedule, unit=unit).makespan_ns == found.value_ns
    looped = ppsim.synthesize(placement="loop", chunks=3, activation_limit=9, **asked)
    assert looped.schedule.stages == 9
    free = ppsim.synthesize(placement="free", activation_limit=4, **(asked | {"steps": 10_000}))
    assert found.placements == 1 and free.placements == 15
    assert free.value_ns <= found.value_ns and free.peak_live_activations <= 4
    assert ppsim.simulate(free.schedule, unit=unit).makespan_ns == free.value_ns
    with pytest.raises(ppsim.Error, match="expected loop, v, free"):
        ppsim.synthesize(placement="w", activation_limit=4, **asked)
    with pytest.raises(ppsim.Error, match="limited in activations or in bytes"):
        ppsim.synthesize(placement="v", activation_limit=4, memory_limit="1GB", **asked)


def interrupted(work) -> None:
    """Runs `work` and sends the interrupt of Ctrl-C while it runs."""
    gc.collect()  # what earlier tests left: an interrupt while it is finalized would be lost there
    timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        work()
    timer.join()


def test_ctrl_c_ends_long_calls():
    program = ppsim.lower(ppsim.generate("1f1b", ranks=8, microbatches=64))
    costs = ppsim.Costs.unit()
    interrupted(lambda: ppsim.simulate_many([(program, costs)] * 2_000_000, threads=1))
    interrupted(lambda: ppsim.synthesize(ranks=8, microbatches=32, activation_limit=5, timeout_s=3600))


def test_other_threads_run_while_one_waits():
    """The GIL is released: a counter goes on during a long call."""
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    ppsim.verify(ppsim.lower(ppsim.generate("zb-v", ranks=16, microbatches=128)))
    after = counted
    done.set()
    thread.join()
    assert after - before > 3


def test_counterexamples_are_those_of_the_command(hanging, tmp_path):
    (tmp_path / "hanging.json").write_text(hanging.to_json())
    size = ["--ranks", "4", "--microbatches", "8", "--unit", "F=1,B=2,A=5"]
    over = ppsim.verify(ppsim.generate("1f1b", ranks=4, microbatches=8), unit={"F": 1, "B": 2, "A": 5}, memory_limit=19)
    for verdict, name, question in (
        (ppsim.verify(hanging), "deadlock_free", [str(tmp_path / "hanging.json")]),
        (over, "memory", ["1f1b", *size, "--memory-limit", "19"]),
    ):
        command = [sys.executable, "-m", "ppsim", "verify", *question, "--json"]
        said = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
        assert said["properties"][name]["verdict"] == "refuted"
        assert verdict.properties[name].counterexample == said["properties"][name]["counterexample"]


def test_a_makespan_is_decided_at_the_given_costs():
    schedule = ppsim.generate("1f1b", ranks=4, microbatches=8)
    verdict = ppsim.check(schedule, properties=["makespan"], unit={"F": 1, "B": 2})
    assert verdict.makespan_ns == (33000000, 33000000)
    assert "the step takes 33 ms" in verdict.report
    assert ppsim.Verdict.from_json(verdict.to_json()) == verdict
    assert ppsim.verify(schedule).makespan_ns is None
    with pytest.raises(ppsim.Error, match="makespan needs costs"):
        ppsim.verify(schedule, properties=["makespan"])
