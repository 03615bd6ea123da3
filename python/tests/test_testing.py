"""Schedules written in Python."""

import subprocess
import sys

import pytest

import ppsim
from ppsim.testing import cases, check_schedule

pytestmark = pytest.mark.usefixtures("forget")


def gpipe(ranks: int, microbatches: int) -> ppsim.Schedule:
    builder = ppsim.ScheduleBuilder(ranks=ranks, stages=ranks, microbatches=microbatches, name="mine")
    for rank in range(ranks):
        for microbatch in range(microbatches):
            builder.forward(rank, microbatch)
        for microbatch in range(microbatches):
            builder.backward(rank, microbatch)
    return builder.build()


def test_a_registered_schedule_is_known_everywhere():
    ppsim.register("mine", gpipe)
    assert "mine" in ppsim.schedules()
    assert ppsim.generate("mine", ranks=4, microbatches=8).name == "mine"
    comparison = ppsim.compare(["mine", "gpipe"], ranks=4, microbatches=8)
    assert comparison.runs[0].makespan_ns == comparison.runs[1].makespan_ns
    ppsim.unregister("mine")
    with pytest.raises(ppsim.Error):
        ppsim.generate("mine", ranks=4, microbatches=8)


def test_names_of_published_schedules_are_taken():
    with pytest.raises(ppsim.Error, match="published"):
        ppsim.register("1f1b", gpipe)


def test_a_good_schedule_passes_with_its_closed_forms():
    def bubble(ranks: int, microbatches: int, units) -> float:
        return 0 if ranks == 1 else (ranks - 1) * (units["F"] + units["B"])

    ppsim.register("mine", gpipe, bubble=bubble, peak=lambda ranks, microbatches: microbatches)
    assert check_schedule("mine") == len(cases())
    assert check_schedule("mine", ranks=3, microbatches=5) == 1
    assert check_schedule("1f1b", ranks=3, microbatches=5) == 1


def test_a_wrong_closed_form_names_its_case():
    ppsim.register("mine", gpipe, peak=lambda ranks, microbatches: ranks)
    with pytest.raises(AssertionError, match="1 rank, 2 microbatches: 2 live activations, the closed form says 1"):
        check_schedule("mine")
    ppsim.register("mine", gpipe, bubble=lambda ranks, microbatches, units: 0.0)
    with pytest.raises(AssertionError, match="bubble"):
        check_schedule("mine")


def test_cases_that_a_schedule_refuses_are_left_out():
    def even(ranks: int, microbatches: int) -> ppsim.Schedule:
        if microbatches % 2:
            raise ValueError("an even number of microbatches")
        return gpipe(ranks, microbatches)

    ppsim.register("mine", even)
    assert check_schedule("mine") == 15
    with pytest.raises(ValueError, match="even"):
        check_schedule("mine", ranks=2, microbatches=3)


def test_a_schedule_that_is_no_schedule_fails():
    def wrong(ranks: int, microbatches: int) -> ppsim.Schedule:
        return ppsim.ScheduleBuilder(ranks=ranks, stages=ranks, microbatches=microbatches).forward(0, 0).build()

    ppsim.register("mine", wrong)
    with pytest.raises(ppsim.IllFormed):
        check_schedule("mine")
    ppsim.register("mine", lambda ranks, microbatches: gpipe(ranks, microbatches + 1))
    with pytest.raises(ppsim.IllFormed, match="made another schedule"):
        check_schedule("mine")
    ppsim.register("mine", lambda ranks, microbatches: None)
    with pytest.raises(ppsim.IllFormed, match="returned no schedule"):
        check_schedule("mine")


def test_a_schedule_whose_rows_wait_for_each_other_fails():
    def crossed(ranks: int, microbatches: int) -> ppsim.Schedule:
        builder = ppsim.ScheduleBuilder(ranks=2, stages=4, microbatches=1, placement=[0, 1, 0, 1])
        builder.forward(2, 0).forward(0, 0).forward(1, 0).forward(3, 0)
        for stage in (3, 2, 1, 0):
            builder.backward(stage, 0)
        return builder.build()

    ppsim.register("mine", crossed)
    with pytest.raises(ppsim.Deadlock) as caught:
        check_schedule("mine", ranks=2, microbatches=1)
    assert caught.value.property == "deadlock_free"
    assert caught.value.__notes__ == ["mine with 2 ranks, 1 microbatch"]


def test_a_wrong_closed_form_fails_without_assertions_too():
    script = """
import ppsim, ppsim.testing
ppsim.register("mine", lambda ranks, microbatches: ppsim.generate("gpipe", ranks=ranks, microbatches=microbatches),
               peak=lambda ranks, microbatches: 99)
ppsim.testing.check_schedule("mine", ranks=2, microbatches=2)
"""
    done = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True)
    assert done.returncode == 1 and "the closed form says 99" in done.stderr


@pytest.mark.parametrize("name", ["", "my_schedule", "has space"])
def test_a_name_is_one_for_the_command_line(name):
    for register in (ppsim.register, ppsim.register_costs):
        with pytest.raises(ppsim.Error, match="letters, digits and dashes"):
            register(name, gpipe)


def test_what_the_builder_refuses_is_no_case_that_is_left_out():
    def beyond(ranks: int, microbatches: int) -> ppsim.Schedule:
        builder = ppsim.ScheduleBuilder(ranks=ranks, stages=ranks, microbatches=microbatches)
        for rank in range(ranks):
            for microbatch in range(microbatches):
                builder.forward(rank, microbatch)
            for microbatch in range(microbatches):
                builder.backward(rank if ranks < 4 else rank + 1, microbatch)
        return builder.build()

    ppsim.register("beyond", beyond)
    with pytest.raises(ppsim.Error, match="no such stage") as refused:
        check_schedule("beyond")
    assert refused.value.__notes__ == ["beyond with 4 ranks, 1 microbatch"]


def test_an_argument_of_another_type_is_no_case_that_is_left_out():
    def halves(ranks: int, microbatches: int) -> ppsim.Schedule:
        placement = [0.5] * ranks if ranks >= 4 else list(range(ranks))
        ppsim.ScheduleBuilder(ranks=ranks, stages=ranks, microbatches=microbatches, placement=placement)
        return gpipe(ranks, microbatches)

    ppsim.register("halves", halves)
    with pytest.raises(ppsim.Error, match="placement is of another type"):
        check_schedule("halves")


def test_why_no_case_could_be_checked():
    with pytest.raises(ppsim.Error, match='no schedule "bugy"'):
        check_schedule("bugy")
    with pytest.raises(AssertionError, match="memory_limt"):
        check_schedule("zb-greedy", memory_limt=4)


def test_a_registered_schedule_has_its_name_beside_others():
    def nameless(ranks: int, microbatches: int) -> ppsim.Schedule:
        builder = ppsim.ScheduleBuilder(ranks=ranks, stages=ranks, microbatches=microbatches)
        for rank in range(ranks):
            for microbatch in range(microbatches):
                builder.forward(rank, microbatch).backward(rank, microbatch)
        return builder.build()

    ppsim.register("first-idea", nameless)
    ppsim.register("second-idea", nameless)
    compared = ppsim.compare(["first-idea", "second-idea", "1f1b"], ranks=2, microbatches=4)
    assert [run.name for run in compared] == ["first-idea", "second-idea", "1f1b"]
