"""Who runs the instructions of a rank, and when: threads for queues on a CPU, streams on a GPU."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch

from ppsim.execution import COMPUTE_QUEUE, Instruction, Plan

#: Runs one instruction.
Perform = Callable[[Instruction], None]
_BETWEEN_LOOKS_S = 0.05
_SWITCH_S = 1e-4


class Progress:
    """How far a rank is in its step: 0 waiting, 1 started, 2 complete, by instruction; and what each took, from
    when all that it waits for was complete: what the host takes to get to an instruction is a part of it."""

    def __init__(self, count: int) -> None:
        self.states = bytearray(count)
        self.spans: list[tuple[int, int]] = [(-1, -1)] * count


class Failed(Protocol):
    """Asked whether the step has failed somewhere, and told what went wrong here."""

    @property
    def failure(self) -> BaseException | None: ...

    def instruction_failed(self, instruction: Instruction, wrong: BaseException) -> None: ...


class Queues(Protocol):
    """Runs all instructions of a step and returns when they are complete; raises the failure of the step."""

    def run(self, progress: Progress) -> None: ...

    def stop(self) -> None: ...


class HostQueues:
    """A thread for each queue, computation on the caller's. Each takes its instructions in issue order, waits
    until all that they need is complete, and runs them."""

    def __init__(self, plan: Plan, perform: Perform, failed: Failed) -> None:
        self._plan, self._perform, self._failed = plan, perform, failed
        self._lists: dict[int, list[Instruction]] = {COMPUTE_QUEUE: []}
        for instruction in plan.instructions:
            self._lists.setdefault(instruction.queue, []).append(instruction)
        self._followers: list[list[int]] = [[] for _ in plan.instructions]
        for instruction in plan.instructions:
            for wait in instruction.waits:
                self._followers[wait].append(instruction.index)
        self._lock = threading.Lock()
        self._wake = {queue: threading.Condition(self._lock) for queue in self._lists}
        self._missing: list[int] = []
        self._free_since: list[int] = []  #: when an instruction had nothing left to wait for
        self._progress = Progress(0)
        self._steps_begun, self._queues_over, self._stopped = 0, 0, False
        self._wrong: BaseException | None = None  #: the exception of this rank
        for queue in self._lists:
            if queue != COMPUTE_QUEUE:
                name = f"ppsim {plan.execution.queue_names[queue]}"
                threading.Thread(target=self._serve, args=(queue,), name=name, daemon=True).start()

    def run(self, progress: Progress) -> None:
        with self._lock:
            self._progress, self._queues_over = progress, 0
            self._missing = [len(instruction.waits) for instruction in self._plan.instructions]
            self._free_since = [time.monotonic_ns()] * len(self._missing)
            self._steps_begun += 1
            self._notify()
        with _quick_switches():
            self._run_queue(COMPUTE_QUEUE)
        with self._lock:
            while self._queues_over < len(self._lists) and self._failed.failure is None:
                self._wake[COMPUTE_QUEUE].wait(_BETWEEN_LOOKS_S)
        if self._failed.failure is not None:
            raise self._failed.failure from self._wrong

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._notify()

    def _notify(self) -> None:
        for condition in self._wake.values():
            condition.notify_all()

    def _serve(self, queue: int) -> None:
        served = 0
        while True:
            with self._lock:
                while self._steps_begun == served and not self._stopped:
                    self._wake[queue].wait()
                if self._stopped:
                    return
                served = self._steps_begun
            self._run_queue(queue)

    def _run_queue(self, queue: int) -> None:
        for instruction in self._lists[queue]:
            if not self._wait_for(instruction):
                return
            try:
                self._perform(instruction)
            except BaseException as wrong:
                self._wrong = wrong
                self._failed.instruction_failed(instruction, wrong)
                return
            self._complete(instruction)
        with self._lock:
            self._queues_over += 1
            self._wake[COMPUTE_QUEUE].notify_all()

    def _wait_for(self, instruction: Instruction) -> bool:
        """False: the step has failed."""
        index = instruction.index
        with self._lock:
            while self._missing[index] and not self._is_over():
                self._wake[instruction.queue].wait(_BETWEEN_LOOKS_S)
            if self._is_over():
                return False
            self._progress.spans[index] = (self._free_since[index], -1)
            self._progress.states[index] = 1
        return True

    def _is_over(self) -> bool:
        return self._stopped or self._failed.failure is not None

    def _complete(self, instruction: Instruction) -> None:
        index = instruction.index
        with self._lock:
            now = time.monotonic_ns()
            self._progress.spans[index] = (self._progress.spans[index][0], now)
            self._progress.states[index] = 2
            for follower in self._followers[index]:
                self._missing[follower] -= 1
                if self._missing[follower] == 0:
                    self._free_since[follower] = now
                    self._wake[self._plan.instructions[follower].queue].notify_all()


@contextlib.contextmanager
def _quick_switches() -> Iterator[None]:
    """A thread whose message is over waits for Python's lock, by default up to 5 ms: as long as an action may take."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class StreamQueues:
    """One thread issues all instructions in order, each on the stream of its queue, which waits for the events
    of what it needs. The host waits for blocking instructions alone."""

    def __init__(self, plan: Plan, perform: Perform, failed: Failed, device: Any) -> None:
        self._plan, self._perform, self._failed, self._device = plan, perform, failed, device
        self._streams: dict[int, Any] = {COMPUTE_QUEUE: torch.cuda.current_stream(device)}
        for instruction in plan.instructions:
            for queue in instruction.queues:
                if queue not in self._streams:
                    self._streams[queue] = torch.cuda.Stream(device)
        every = plan.instructions
        self._begins = [torch.cuda.Event() for _ in every]
        self._ends = [torch.cuda.Event(enable_timing=True) for _ in every]
        self._start = torch.cuda.Event(enable_timing=True)

    def run(self, progress: Progress) -> None:
        torch.cuda.synchronize(self._device)
        start_ns = time.monotonic_ns()
        self._start.record(self._streams[COMPUTE_QUEUE])
        issued = 0
        for instruction in self._plan.instructions:
            self._raise_failure()
            try:
                self._issue(instruction)
            except BaseException as wrong:
                self._failed.instruction_failed(instruction, wrong)
                break
            issued += 1
            if instruction.blocking:
                self._await(progress, issued, instruction.index)
        self._await(progress, issued, None)
        for instruction in self._plan.instructions[:issued]:
            end_ns = start_ns + int(self._start.elapsed_time(self._ends[instruction.index]) * 1e6)
            free_ns = max((progress.spans[wait][1] for wait in instruction.waits), default=start_ns)
            progress.spans[instruction.index] = (min(free_ns, end_ns), end_ns)

    def stop(self) -> None:
        pass

    def _issue(self, instruction: Instruction) -> None:
        stream = self._streams[instruction.queue]
        for wait in instruction.waits:
            if self._plan.instructions[wait].queue != instruction.queue:
                stream.wait_event(self._ends[wait])
        with torch.cuda.stream(stream):
            self._begins[instruction.index].record(stream)
            self._perform(instruction)
            self._ends[instruction.index].record(stream)

    def _await(self, progress: Progress, issued: int, one: int | None) -> None:
        """Until one of the issued instructions is complete, or all; looks for failures meanwhile."""
        while True:
            for index in range(issued):
                if progress.states[index] < 2:
                    begun, over = self._begins[index].query(), self._ends[index].query()
                    progress.states[index] = 2 if over else int(begun)
            self._raise_failure()
            rest = range(issued) if one is None else (one,)
            if all(progress.states[index] == 2 for index in rest):
                return
            time.sleep(0.0002)

    def _raise_failure(self) -> None:
        if self._failed.failure is not None:
            raise self._failed.failure
