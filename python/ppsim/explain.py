"""Where all ranks are, and who waits for whom, in the words of the IR."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ppsim.execution import Plan

#: (instruction, what it waits for or -1, reason, in words)
Wait = tuple[int, int, str, str]


def explain(plan: Plan, states: Mapping[int, bytes]) -> list[str]:
    """Lines about a step that stands still. states: of each rank that answered, as Progress has them."""
    program = plan.program
    started, complete = [False] * len(program), [False] * len(program)
    for rank, state in states.items():
        for index, value in enumerate(state):
            started[program.first[rank] + index] = value >= 1
            complete[program.first[rank] + index] = value == 2
    lines = [_position(plan, rank, states.get(rank)) for rank in range(program.ranks)]
    silent = {rank for rank in range(program.ranks) if not states.get(rank)}
    waits = [wait for wait in plan.execution.waits_in(started, complete) if wait[2] != "running"]
    heads = _heads(plan, complete)
    lines += [words for waiter, _, _, words in waits if waiter in heads and _rank(plan, waiter) not in silent]
    return lines + _cycle_lines(waits)


def _position(plan: Plan, rank: int, state: bytes | None) -> str:
    if state is None:
        return f"rank {rank} did not answer"
    if not state:
        return f"rank {rank} is not in a step"
    texts = plan.execution.texts[plan.program.first[rank] : plan.program.first[rank + 1]]
    running = [texts[index] for index, value in enumerate(state) if value == 1]
    over = sum(value == 2 for value in state)
    where = f"in {', '.join(running)}" if running else "between instructions"
    return f"rank {rank} is {where}, {over} of {len(state)} instructions complete"


def _rank(plan: Plan, instruction: int) -> int:
    return next(rank for rank in range(plan.program.ranks) if instruction < plan.program.first[rank + 1])


def _heads(plan: Plan, complete: list[bool]) -> set[int]:
    """The first instruction of each queue that is not complete."""
    heads, seen = set[int](), set[tuple[int, int]]()
    queues = plan.execution.queues
    for rank in range(plan.program.ranks):
        for number in range(plan.program.first[rank], plan.program.first[rank + 1]):
            if complete[number]:
                continue
            if any((rank, queue) not in seen for queue in queues[number]):
                heads.add(number)
            seen.update((rank, queue) for queue in queues[number])
    return heads


def cycle(waits: Iterable[Wait]) -> list[Wait]:
    """Waits each of which is for the next one, and the last for the first; empty where there is none."""
    following: dict[int, list[Wait]] = {}
    for wait in waits:
        if wait[1] >= 0:
            following.setdefault(wait[0], []).append(wait)
    seen: set[int] = set()
    for first in following:
        found = [] if first in seen else _cycle_from(first, following, seen)
        if found:
            return found
    return []


def _cycle_from(first: int, following: Mapping[int, list[Wait]], seen: set[int]) -> list[Wait]:
    path: list[Wait] = []  #: from each of the stack to the next one
    stack = [(first, iter(following.get(first, ())))]
    places = {first: 0}
    seen.add(first)
    while stack:
        number, rest = stack[-1]
        wait = next(rest, None)
        if wait is None:
            stack.pop()
            del places[number]
            path = path[: max(0, len(stack) - 1)]
        elif wait[1] in places:
            return [*path[places[wait[1]] :], wait]
        elif wait[1] not in seen:
            seen.add(wait[1])
            places[wait[1]] = len(stack)
            path.append(wait)
            stack.append((wait[1], iter(following.get(wait[1], ()))))
    return []


def _cycle_lines(waits: Iterable[Wait]) -> list[str]:
    found = cycle(waits)
    return ["these wait for each other:", *(f"  {words}" for _, _, _, words in found)] if found else []
