"""From a Schedule to a Program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.costs import Costs, costs_of, sources_of
from ppsim.errors import Error
from ppsim.targets import lower_for

#: The action that each adds.
_EXTRAS = {
    "load": "LOAD", "unshard": "UNSHARD", "reduce-grad": "REDUCE_GRAD", "reduce-grad-each-microbatch": "REDUCE_GRAD",
    "opt": "OPT", "clip": "COLL",
}


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
    send_done_delay: how many later sends of its channel keep what is sent, or "end" of the step; by default 0
    with_: load, unshard, reduce-grad, opt, clip; reduce-grad-each-microbatch: gradients of tied weights are summed
    across ranks for every microbatch, and not once
    tied: the first and the last stages share a parameter block, such as the weights of tokens
    target: torch-2.15, torch-2.14, legacy or jaxpp-0.9.2: with what that release needs, proved for it; under
    just-in-time and early:N a transfer then moves as a whole; with_ may name what the release needs, which is added
    anyway
    Raises Error for options that do not go together, Deadlock where rows wait for each other.
    """
    wanted = {with_} if isinstance(with_, str) else set(with_)
    if unknown := wanted.difference(_EXTRAS):
        raise Error("unknown with_", found=", ".join(sorted(unknown)), expected=", ".join(_EXTRAS))
    if tied:
        schedule = _core.with_tied_ends(schedule)
    if target is not None:
        keeps_all = recompute is None or recompute == "none"
        plain = grouping == offload == "none" and keeps_all and send_done_delay is None
        if not plain or receive_buffers:
            raise Error("a target decides this", expected="order, communicators and costs beside target")
        known = costs_of(costs, unit)
        program = lower_for(schedule, target=target, order=order, communicators=communicators, costs=known)
        _check_has(program, wanted, target)
        return program
    words = _core.LoweringWords()
    words.order, words.communicators, words.grouping = order or "timed", communicators or "per-edge", grouping
    words.recompute, words.offload, words.receive_buffers = recompute, offload, receive_buffers
    words.send_done_delay = str(send_done_delay or 0)
    words.load, words.unshard = "load" in wanted, "unshard" in wanted
    words.reduce_each_microbatch = "reduce-grad-each-microbatch" in wanted
    words.reduce_grad = "reduce-grad" in wanted or words.reduce_each_microbatch
    words.optimizer, words.clip = "opt" in wanted, "clip" in wanted
    words.costs = sources_of(costs_of(costs, unit))
    return _core.lower(schedule, words)


def _check_has(program: _core.Program, wanted: Iterable[str], target: str) -> None:
    kinds, used = _core.op_kinds(), set(program.actions["kind"].tolist())
    for extra in sorted(wanted):
        if kinds.index(_EXTRAS[extra]) not in used:
            raise Error("a target decides this", found=f"with_ {extra!r}, which the file for {target} cannot hold",
                        expected="order, communicators and costs beside target")


def program_of(
    value: _core.Schedule | _core.Program, costs: Costs | None, communicators: str | None = None
) -> _core.Program:
    """A Program as it is, or with other communicators; a Schedule lowered under its costs."""
    if isinstance(value, _core.Program):
        return value if communicators is None else value.with_communicators(communicators)
    return lower(value, costs=costs, communicators=communicators or "per-edge")
