"""From a Schedule to a Program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.costs import Costs, costs_of, sources_of
from ppsim.errors import Error

_EXTRAS = ("load", "unshard", "reduce-grad", "reduce-grad-each-microbatch", "opt", "clip")


@checked
def lower(
    schedule: _core.Schedule,
    *,
    order: str | None = None,
    communicators: str | None = None,
    grouping: str = "none",
    recompute: str | None = None,
    offload: str = "none",
    receive_buffers: int | None = None,
    send_done_delay: int | str | None = None,
    with_: str | Iterable[str] = (),
    tied: bool = False,
    costs: Costs | None = None,
    unit: Mapping[str, float] | None = None,
    target: str | None = None,
) -> _core.Program:
    """Inserts transfers and puts every instruction on its queue, in issue order.

    order: timed (the default; by costs, without them by units), global, just-in-time, early:N, issue-ordered,
    as-written, jaxpp
    communicators: per-rank, per-pair, per-edge (the default without target), per-stage-edge
    grouping: none, paired, as-written; offload: none, all, half, 25%
    recompute: none, full, stages=0,2; by default what the costs were made for, see Costs.from_model
    send_done_delay: how many later sends of its channel keep what is sent, or "end" of the step; by default 0, and what
    the target does
    with_: load, unshard, reduce-grad, opt, clip; reduce-grad-each-microbatch: gradients of tied weights are summed
    across ranks for every microbatch, and not once
    tied: the first and the last stages share a parameter block, such as the weights of tokens
    target: torch-2.15, torch-2.14, legacy or jaxpp-0.9.2: as `ppsim lower --for` makes it, with what that release needs,
    proved for it; under just-in-time and early:N a transfer then moves as a whole
    Raises Error for options that do not go together, and (code refused) for what the target cannot run; Deadlock where
    rows wait for each other.
    """
    wanted = {with_} if isinstance(with_, str) else set(with_)
    if unknown := wanted.difference(_EXTRAS):
        raise Error("unknown with_", found=", ".join(sorted(unknown)), expected=", ".join(_EXTRAS))
    if tied:
        schedule = _core.with_tied_ends(schedule)
    words = _core.LoweringWords()
    words.target, words.order, words.communicators = target, order, communicators
    words.grouping, words.recompute, words.offload = grouping, recompute, offload
    words.receive_buffers = receive_buffers
    words.send_done_delay = None if send_done_delay is None else str(send_done_delay)
    words.load, words.unshard = "load" in wanted, "unshard" in wanted
    words.reduce_each_microbatch = "reduce-grad-each-microbatch" in wanted
    words.reduce_grad = "reduce-grad" in wanted or words.reduce_each_microbatch
    words.optimizer, words.clip = "opt" in wanted, "clip" in wanted
    words.costs = sources_of(costs_of(costs, unit))
    return _core.lower(schedule, words)


def program_of(
    value: _core.Schedule | _core.Program, costs: Costs | None, communicators: str | None = None
) -> _core.Program:
    """A Program as it is, or with other communicators; a Schedule lowered under its costs."""
    if isinstance(value, _core.Program):
        return value if communicators is None else value.with_communicators(communicators)
    return lower(value, costs=costs, communicators=communicators)
