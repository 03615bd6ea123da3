"""Runs the instructions of the ranks of a process, by the rules of the IR: what is ready starts, on threads."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from ppsim.errors import Deadlock
from ppsim.execution import COLLECTIVES, TRANSFERS, Action, Instruction, Plan
from ppsim.explain import explain

#: Does what actions say, and returns when it is done: one of computation; a SEND; a collective with its first member.
Perform = Callable[[int, Instruction, Action | None], None]


class Driver:
    """plans: of the ranks of this process. A transfer begins when both ends have started, a collective when all
    members have: here where all ranks are here, else wherever each waits for the others."""

    def __init__(self, plans: list[Plan], perform: Perform) -> None:
        self._plans, self._perform = plans, perform
        self._every = [(plan.rank, one) for plan in plans for one in plan.instructions]
        self._needs = self._predecessors()
        self._followers: list[list[int]] = [[] for _ in self._every]
        for number, needs in enumerate(self._needs):
            for need in needs:
                self._followers[need].append(number)
        self._joints: dict[int, list[_Joint]] = {}
        self._together = len(plans) == plans[0].program.ranks
        for joint in [*self._transfers(), *self._collectives()] if self._together else []:
            for member in joint.members:
                self._joints.setdefault(member, []).append(joint)
        queues = {(rank, queue) for rank, one in self._every for queue in one.queues}
        self._pool = ThreadPoolExecutor(max_workers=max(len(queues), 1), thread_name_prefix="ppsim")

    def run(self) -> list[tuple[int, int]]:
        """All instructions once. Returns when each started and completed, in ns, in the order of the Program.

        Raises Deadlock with who waits for whom, and whatever an instruction raises, after all that runs is over;
        at once where other ranks are in other processes.
        """
        return _Run(self).run()

    def close(self) -> None:
        self._pool.shutdown()

    def _predecessors(self) -> list[set[int]]:
        """Instructions that must complete before each: those that the Program names, and the earlier ones of its queues."""
        result, newest = list[set[int]](), dict[tuple[int, int], int]()
        for number, (rank, one) in enumerate(self._every):
            needs = {number - one.index + wait for wait in one.waits}
            needs |= {newest[rank, queue] for queue in one.queues if (rank, queue) in newest}
            newest.update({(rank, queue): number for queue in one.queues})
            result.append(needs)
        return result

    def _transfers(self) -> list[_Joint]:
        """The i-th SEND of a channel with its i-th RECV."""
        ends: dict[tuple[int, int, int], tuple[list[tuple[int, Action]], list[tuple[int, Action]]]] = {}
        for number, (rank, one) in enumerate(self._every):
            for action in one.actions:
                if action.kind in TRANSFERS:
                    way = (rank, action.peer_rank) if action.sends else (action.peer_rank, rank)
                    sends, receives = ends.setdefault((action.communicator, *way), ([], []))
                    (sends if action.sends else receives).append((number, action))
        return [
            _Joint((send, receive), send, action)
            for sends, receives in ends.values()
            for (send, action), (receive, _) in zip(sends, receives, strict=False)
        ]

    def _collectives(self) -> list[_Joint]:
        """The i-th of a communicator on each of its members."""
        members: dict[tuple[int, int], list[int]] = {}
        for rank in range(len(self._plans)):
            seen: dict[int, int] = {}
            for number, (of, one) in enumerate(self._every):
                communicator = one.actions[0].communicator
                if of == rank and communicator >= 0 and one.actions[0].kind in COLLECTIVES:
                    members.setdefault((communicator, seen.get(communicator, 0)), []).append(number)
                    seen[communicator] = seen.get(communicator, 0) + 1
        return [_Joint(tuple(numbers), numbers[0], None) for numbers in members.values()]


class _Joint:
    """Instructions that do one thing together; the first of them, or one of its actions, says what."""

    def __init__(self, members: tuple[int, ...], first: int, action: Action | None) -> None:
        self.members, self.first, self.action = members, first, action


class _Run:
    """One step. This thread decides what starts; others do it and report here."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._missing = [len(needs) for needs in driver._needs]
        self._states = bytearray(len(driver._every))
        self._spans = [(-1, -1)] * len(driver._every)
        self._absent = {id(m): len(m.members) for group in driver._joints.values() for m in group}
        self._open = {number: len(group) for number, group in driver._joints.items()}
        self._done: queue.SimpleQueue[tuple[tuple[int, ...], int, BaseException | None]] = queue.SimpleQueue()
        self._running, self._wrong = 0, list[BaseException]()

    def run(self) -> list[tuple[int, int]]:
        self._start([number for number, missing in enumerate(self._missing) if not missing])
        while self._running:
            members, end, wrong = self._done.get()
            self._running -= 1
            if wrong is not None:
                self._wrong.append(wrong)
                if not self._driver._together:
                    break  # what runs may wait for a process that is gone
            elif not self._wrong:
                self._complete(members, end)
        if self._wrong:
            raise self._wrong[0]
        if any(state != 2 for state in self._states):
            raise self._deadlock()
        return self._spans

    def _start(self, ready: Iterable[int]) -> None:
        now = time.monotonic_ns()
        for number in ready:
            self._states[number], self._spans[number] = 1, (now, -1)
            if number not in self._open:
                self._submit((number,), number, None)
                continue
            for joint in self._driver._joints[number]:
                self._absent[id(joint)] -= 1
                if not self._absent[id(joint)]:
                    self._submit(joint.members, joint.first, joint.action)

    def _submit(self, members: tuple[int, ...], first: int, action: Action | None) -> None:
        self._running += 1
        self._driver._pool.submit(self._work, members, first, action)

    def _work(self, members: tuple[int, ...], first: int, action: Action | None) -> None:
        rank, instruction = self._driver._every[first]
        wrong: BaseException | None = None
        try:
            self._driver._perform(rank, instruction, action)
        except BaseException as raised:
            raised.add_note(f"ppsim: in {instruction.text} on rank {rank}")
            wrong = raised
        self._done.put((members, time.monotonic_ns(), wrong))

    def _complete(self, members: tuple[int, ...], end: int) -> None:
        ready = []
        for number in members:
            if number in self._open:
                self._open[number] -= 1
                if self._open[number]:
                    continue
            self._states[number], self._spans[number] = 2, (self._spans[number][0], end)
            for follower in self._driver._followers[number]:
                self._missing[follower] -= 1
                if not self._missing[follower]:
                    ready.append(follower)
        self._start(ready)

    def _deadlock(self) -> Deadlock:
        plan = self._driver._plans[0]
        first = plan.program.first
        states = {rank: bytes(self._states[first[rank] : first[rank + 1]]) for rank in range(plan.program.ranks)}
        text = "\n".join(["the step cannot go on", *explain(plan, states)])
        return Deadlock(text, code="deadlock", property="deadlock_free")
