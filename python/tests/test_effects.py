"""Sensitivities, break-even points and random costs."""

from fractions import Fraction

import pytest

import ppsim

UNIT = {"F": 1, "B": 2, "c": 0.25}


def run_of(name: str, **unit: float) -> ppsim.Run:
    return ppsim.simulate(ppsim.generate(name, ranks=4, microbatches=8), unit=unit or UNIT)


def test_gpipe_owes_what_its_closed_form_says():
    found = {of.group: of for of in ppsim.sensitivity(run_of("gpipe"))}
    assert list(found) == ["F", "B", "SEND_F", "SEND_B", "compute", "transfers"]
    assert [of.path_ns[1] for of in found.values()] == [11_000_000, 22_000_000, 750_000, 750_000, 33_000_000, 1_500_000]
    assert found["SEND_F"].holds == (0, 4) and found["B"].holds[1] is None
    assert found["B"].one_percent_more_ns == pytest.approx(34_720_000)
    assert [of.group for of in ppsim.sensitivity(run_of("gpipe"), by="rank")] == [f"rank:{r}" for r in range(4)]


def test_a_step_with_slowdowns_is_refused():
    """Its times are no longest paths of its costs."""
    schedule = ppsim.generate("1f1b", ranks=4, microbatches=8)
    slow = ppsim.simulate(schedule, unit=UNIT, slowdowns=ppsim.Slowdowns(ranks_per_device=4, others=0.5))
    refused = [
        lambda: ppsim.sensitivity(slow),
        lambda: ppsim.jitter(slow, slow_ranks={3: 1.2}),
        lambda: ppsim.break_even(slow, run_of("gpipe"), "transfers"),
        lambda: ppsim.break_even(run_of("gpipe"), slow, "transfers"),
    ]
    for call in refused:
        with pytest.raises(ppsim.Error, match="slow each other down"):
            call()


def test_break_even_is_exact():
    # Two chunks of a rank have half of its work each.
    plain = run_of("1f1b", F=1, B=2, c=0.1)
    chunked = ppsim.simulate(
        ppsim.generate("interleaved-1f1b", ranks=4, microbatches=8, chunks=2), unit={"F": 0.5, "B": 1, "c": 0.1}
    )
    found = ppsim.break_even(plain, chunked, "transfers")
    assert found.points == (0, Fraction(55, 4)) and not found.added
    assert found.shorter[0] is chunked and found.shorter[1] is plain
    forward_only = run_of("forward-only", F=1, B=2, c=0.1)
    for pair in ((plain, forward_only), (forward_only, plain)):
        with pytest.raises(ppsim.Error, match="the same work .found forward-only without a backward"):
            ppsim.break_even(*pair, "transfers")
    free = ppsim.break_even(run_of("gpipe", F=1, B=2), run_of("1f1b", F=1, B=2), "transfers")
    assert free.added


def test_jitter_is_reproducible_and_names_the_slow_rank():
    run = run_of("1f1b")
    drawn = ppsim.jitter(run, vary={"compute": "lognormal:0.05", "transfers": "gamma:0.3"}, samples=50, threads=2)
    assert drawn == ppsim.jitter(run, vary={"compute": "lognormal:0.05", "transfers": "gamma:0.3"}, samples=50, threads=1)
    assert drawn.percentile(50) <= drawn.percentile(99) <= max(drawn.steps_ns) == drawn.percentile(100)
    assert ppsim.jitter(run, vary={"all": "normal:0"}, samples=3).steps_ns == (run.makespan_ns,) * 3
    slow = ppsim.jitter(run, slow_ranks={3: 1.2}, slow_links={(1, 2): 2}, samples=1)
    assert max(range(4), key=lambda rank: slow.gains_ns[rank]) == 3


def test_what_is_no_answer_is_an_error():
    run = run_of("1f1b")
    with pytest.raises(ppsim.Error, match="unknown cost grouping"):
        ppsim.sensitivity(run, by="gpu")
    with pytest.raises(ppsim.Error, match="no cost group"):
        ppsim.break_even(run, run, "G")
    with pytest.raises(ppsim.Error, match="no spread of factors"):
        ppsim.jitter(run, vary={"F": "uniform:1"})
    with pytest.raises(ppsim.Error, match="a slow rank that the Program does not have"):
        ppsim.jitter(run, slow_ranks={7: 2})
    with pytest.raises(ppsim.Error, match="percentile out of range"):
        ppsim.jitter(run, slow_ranks={0: 2}, samples=1).percentile(101)


def test_percentiles_are_exact_as_written():
    steps = ppsim.Jitter(0, tuple(map(float, range(1, 1001))), 0, 0, ())
    assert [steps.percentile(p) for p in (16.1, 32.2, 64.4, 32.7, 0, 100)] == [161, 322, 644, 327, 1, 1000]
    assert all(steps.percentile(tenths / 10) == max(1, tenths) for tenths in range(1001))


def test_one_step_where_nothing_is_drawn_and_no_more_than_a_million():
    run = ppsim.simulate(ppsim.generate("1f1b", ranks=4, microbatches=8))
    assert len(ppsim.jitter(run, slow_ranks={3: 1.2}).steps_ns) == 1
    assert len(ppsim.jitter(run, vary_ranks="normal:0.1").steps_ns) == 1000
    with pytest.raises(ppsim.Error, match="samples out of range"):
        ppsim.jitter(run, vary_ranks="normal:0.1", samples=10**9)


def test_the_network_of_a_model_has_rows_by_kind():
    costs = ppsim.Costs.from_model("llama3-8b", "dgx-h100", tp=2, pp=4, global_batch_size=32)
    run = ppsim.simulate(ppsim.generate("1f1b", ranks=4, microbatches=32), costs=costs)
    assert "nvlink-byte" in {of.group for of in ppsim.sensitivity(run)}
    assert "nvlink-byte" not in {of.group for of in ppsim.sensitivity(run, by="rank")}
