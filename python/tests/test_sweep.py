"""Many points at once: simulate_many and sweeps."""

import pickle

import numpy
import pytest

import ppsim


def zb_h1(microbatches: int = 8) -> ppsim.Schedule:
    return ppsim.generate("zb-h1", ranks=4, microbatches=microbatches)


def test_threads_have_a_limit():
    for threads in (0, 1025, 10**6):
        with pytest.raises(ppsim.Error, match="threads out of range"):
            ppsim.sweep(zb_h1(), {"F": [1, 2]}, threads=threads)
    assert len(ppsim.sweep(zb_h1(), {"F": [1, 2]}, threads=1024)) == 2


def rows_that_wait() -> ppsim.Schedule:
    builder = ppsim.ScheduleBuilder(ranks=2, stages=2, microbatches=2)
    builder.forward(0, 0).backward(0, 0).forward(0, 1).backward(0, 1)
    return builder.forward(1, 0).forward(1, 1).backward(1, 0).backward(1, 1).build()


POINTS = {
    "lacking costs": lambda: (zb_h1(), ppsim.Costs.table({"format": "ppsim-tables", "version": 1, "costs": [], "sizes": []})),
    "a schedule that hangs": lambda: (rows_that_wait(), ppsim.Costs.unit()),
    "another model": lambda: (zb_h1(), ppsim.Costs.from_model("llama3-8b", "dgx-h100", tp=4, pp=2, global_batch_size=8)),
}


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_point_that_cannot_run_is_numbered(point):
    value, costs = point()
    with pytest.raises(ppsim.Error, match="^(<table>.*: )?point 1: ") as wrong:
        ppsim.simulate_many([(zb_h1(), ppsim.Costs.unit()), (value, costs)])
    with pytest.raises(type(wrong.value)) as alone:
        ppsim.simulate(value, costs=costs)
    assert wrong.value.message == f"point 1: {alone.value.message}"


def test_simulate_many_is_simulate_many_times():
    program = ppsim.lower(zb_h1())
    points = [(program, ppsim.Costs.unit(F=1, I=1, W=1, c=c / 10)) for c in range(20)]
    points += [(zb_h1(m), ppsim.Costs.unit(F=1, I=2, W=1)) for m in (4, 5)]
    times = ppsim.simulate_many(points, threads=2)
    assert times == [ppsim.simulate(value, costs=costs).times for value, costs in points]
    assert times == ppsim.simulate_many(points, threads=1)
    assert pickle.loads(pickle.dumps(times)) == times
    assert [ppsim.StepTimes.from_json(one.to_json()) for one in times] == times
    with pytest.raises(ppsim.Error, match="StepTimes.to_json"):
        ppsim.StepTimes.from_json("[1, 2]")
    assert len(times[0].ranks) == 4
    assert ppsim.simulate_many([]) == []


def test_simulate_many_names_the_point_that_cannot_run(hanging):
    with pytest.raises(ppsim.Deadlock, match="point 1"):
        ppsim.simulate_many([(zb_h1(), ppsim.Costs.unit()), (hanging, ppsim.Costs.unit())])


def test_a_sweep_is_simulate_many_from_arrays_to_an_array():
    program = ppsim.lower(zb_h1())
    transfers = numpy.linspace(0, 500_000, 100)
    forwards = numpy.random.default_rng(1).integers(0, 10**7, (100, 4))
    times = ppsim.sweep(program, {"c": transfers, "F": forwards}, unit={"F": 9, "I": 1, "W": 2})
    costs = [
        ppsim.Costs.unit(I=1, W=2)
        | ppsim.Costs.table(
            {
                "format": "ppsim-tables",
                "version": 1,
                "costs": [{"kind": "F", "stage": stage, "ns": int(ns)} for stage, ns in enumerate(row)]
                + [{"kind": kind, "ns": round(transfer)} for kind in ("SEND_F", "SEND_B")],
                "sizes": [],
            }
        )
        for row, transfer in zip(forwards, transfers, strict=True)
    ]
    each = ppsim.simulate_many([(program, point) for point in costs])
    for field in times.dtype.names:
        assert times[field].tolist() == [getattr(point, field) for point in each], field
    assert len(ppsim.sweep(zb_h1(), {})) == 0


@pytest.mark.parametrize(
    "durations, wrong",
    [
        ({"F": [1, 2], "W": [1]}, "number of points"),
        ({"F": [[1, 2]]}, "shape"),
        ({"F": 1}, "shape"),
        ({"F": [[1, 2, 3, 4], [1, 2]]}, "F is no array: its rows differ in length"),
        ({"F": numpy.ma.array([1, 2], mask=[0, 1])}, "F is masked at point 1 .found --"),
        ({"F": [numpy.ma.array([1, 2, 3, 4], mask=[0, 0, 1, 0])]}, "F is masked at point 0, stage 2"),
        ({"F": ["fast"]}, "nanoseconds"),
        ({"F": [1, float("nan")]}, "F is no number of nanoseconds at point 1 .found nan"),
        ({"F": [1e30]}, "too long"),
        ({"F": [1, -1]}, "F is negative at point 1 .found -1, expected 0 or more nanoseconds"),
        ({"F": [-5]}, "F is negative at point 0 .found -5,"),
        ({"I": [[1, 2, 3, 4], [1, 2, -3, 4]]}, "I is negative at point 1, stage 2 .found -3,"),
        ({"Q": [1]}, "unknown kind"),
        ({"RECV_F": [1]}, "unknown kind"),
        ({"B": [1]}, "no action of the Program is B .found B, expected F, I, W, SEND_F, SEND_B"),
        ({"SEND_A": [1]}, "no action of the Program is SEND_A"),
        ({"c": [1], "SEND_F": [2]}, "two arrays are of SEND_F .found c and SEND_F, expected one of them"),
        ([1, 2], "durations_ns is of another type .found .1, 2., expected a dictionary"),
        ({"FB": [1]}, "no action of the Program is FB"),
    ],
)
def test_a_sweep_refuses_what_is_no_duration(durations, wrong):
    with pytest.raises(ppsim.Error, match=wrong):
        ppsim.sweep(zb_h1(), durations)


def test_a_transfer_is_swept_by_either_name():
    plain = ppsim.generate("1f1b", ranks=2, microbatches=4)
    both = ppsim.sweep(plain, {"SEND_F": [5], "SEND_B": [5]}, unit={"F": 1})
    assert both.tolist() == ppsim.sweep(plain, {"c": [5]}, unit={"F": 1}).tolist()
    pairs = ppsim.generate("dualpipe-v", ranks=2, microbatches=8)
    assert len(ppsim.sweep(pairs, {"FB": [1, 2], "F": [1, 2], "I": [1, 2]}, unit={"F": 1})) == 2


def test_threads_are_one_or_more():
    for threads in (0, -1, True, 1.5):
        with pytest.raises(ppsim.Error, match="threads (out of range|is of another type)"):
            ppsim.sweep(zb_h1(), {"F": [1]}, threads=threads)
        with pytest.raises(ppsim.Error, match="threads (out of range|is of another type)"):
            ppsim.simulate_many([(zb_h1(), ppsim.Costs.unit())], threads=threads)
        with pytest.raises(ppsim.Error, match="threads (out of range|is of another type)"):
            ppsim.jitter(ppsim.simulate(zb_h1()), vary={"all": "lognormal:0.1"}, samples=2, threads=threads)
