"""Failures: a rank that dies, stops, raises or is late is named on every rank, with what all wait for."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pathlib
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ppsim.errors import Error
from ppsim.execution import Instruction, Plan
from ppsim.explain import explain
from ppsim.torch.queues import Progress

_LOOK_S = 0.1
_BEAT_S = 0.5
_GATHER_S = 3.0
#: How long a failed process may clean up before it is ended.
_GRACE_S = 10.0


class StepFailed(Error):
    """A step that cannot go on, on this rank or another one. The text says why, and who waits for whom.

    rank: that failed, -1 where nobody knows
    """

    def __init__(self, message: str, *, rank: int = -1) -> None:
        super().__init__(message, code="failed")
        self.rank = rank


def described(wrong: BaseException) -> str:
    """An exception with the place that raised it."""
    places = traceback.extract_tb(wrong.__traceback__)
    where = f" ({places[-1].filename}:{places[-1].lineno})" if places else ""
    return f"{type(wrong).__name__}: {wrong}{where}"


class Watch:
    """A thread beside the steps that looks after this rank and the others by way of the store.

    store: of its own, nobody else calls it; replicas: those of pipelines that share stages with this one, by their
    first process; silence_s: how long a rank may say nothing
    """

    def __init__(
        self, plan: Plan, store: Any, *, silence_s: float, replicas: Mapping[int, Any] | None = None
    ) -> None:
        self._plan = plan
        self.failure: StepFailed | None = None
        self._progress: Progress | None = None
        self._late_at: float | None = None
        self._deadline_s = 0.0
        self._step, self._complete = 0, 0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._reported: dict[str, Any] | None = None
        self._others = _Others(plan, store, silence_s, replicas or {})
        self._thread = threading.Thread(target=self._look, name="ppsim watch", daemon=True)
        self._thread.start()

    def begin(self, step: int, progress: Progress, deadline_s: float) -> None:
        with self._lock:
            self._step, self._progress = step, progress
            self._others.step = step
            self._deadline_s = deadline_s
            self._late_at = time.monotonic() + deadline_s if deadline_s > 0 else None

    def end(self) -> None:
        with self._lock:
            self._late_at = None
            self._complete = self._step

    def instruction_failed(self, instruction: Instruction, wrong: BaseException) -> None:
        """Here. What a library says of a peer that is gone is less than what the watch finds out of it."""
        self._report(f"{instruction.text} failed: {described(wrong)}", instruction.communicates)

    def fail(self, why: str) -> None:
        """Something else went wrong on this rank."""
        self._report(why, False)

    def await_failure(self, seconds: float) -> StepFailed | None:
        """The faults that are found within this time."""
        until = time.monotonic() + seconds
        while self.failure is None and time.monotonic() < until:
            time.sleep(0.01)
        return self.failure

    def close(self) -> None:
        """The others know from now on that this rank has ended well, after so many steps, or else why it has not."""
        if self._reported is not None:
            self.await_failure(_GATHER_S)
        self._over.set()
        self._thread.join(timeout=5)
        with contextlib.suppress(Exception):  # the store may have ended before
            self._others.leave(self._complete)

    def _report(self, why: str, perhaps_another: bool) -> None:
        with self._lock:
            if self._reported is None:
                self._reported = {"rank": self._plan.rank, "why": why, "perhaps_another": perhaps_another}

    def _look(self) -> None:
        beat_at = 0.0
        while not self._over.wait(_LOOK_S):
            try:
                if time.monotonic() >= beat_at:
                    beat_at = time.monotonic() + _BEAT_S
                    self._others.beat()
                found = self._find()
            except Exception as wrong:
                found = self._others.without_store(wrong)
            if found is not None:
                self._end_all(found)
                return

    def _find(self) -> dict[str, Any] | None:
        """The first fault on any rank."""
        told: dict[str, Any] | None = self._others.told()
        if told is not None:
            return told
        found = self._others.gone()
        mine = self._reported
        if found is None and mine is not None and mine.pop("perhaps_another", False):
            found = self._others.wait_for_gone(2.0)
        found = found or mine or self._lateness()
        return None if found is None else self._others.tell(found)

    def _lateness(self) -> dict[str, Any] | None:
        with self._lock:
            if self._late_at is None or time.monotonic() < self._late_at:
                return None
        return {"rank": -1, "why": f"step {self._step} passed its deadline of {self._deadline_s:g} s"}

    def _end_all(self, found: dict[str, Any]) -> None:
        states = {self._plan.rank: bytes(self._progress.states) if self._progress else b""}
        with contextlib.suppress(Exception):  # without the store this rank says what it knows itself
            states = self._others.gather_states(states[self._plan.rank])
            self._others.let_them_read(states)
        rank = int(found["rank"])
        headline = found["why"] if rank < 0 else f"rank {rank}: {found['why']}"
        text = "\n".join([headline, *explain(self._plan, states)])
        print(f"ppsim: rank {self._plan.rank}: the run has failed\n{text}", file=sys.stderr, flush=True)
        atexit.register(_leave)
        threading.Thread(target=_leave_late, name="ppsim end", daemon=True).start()
        self.failure = StepFailed(text, rank=rank)


def _leave() -> None:
    """Ends the process although threads wait for messages that never come."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _leave_late() -> None:
    time.sleep(_GRACE_S)
    _leave()


class _Process:
    """One process, as the store of its pipeline tells of it."""

    def __init__(self, store: Any, rank: int) -> None:
        self._store, self._rank = store, rank
        self._seen, self._since = "", time.monotonic()
        self._place: dict[str, Any] = {}

    def has_left(self) -> int | None:
        """After how many steps it has ended well; None where it has not."""
        beat = self._beat()
        return int(beat.split()[1]) if beat.startswith("bye") else None

    def trouble(self, silence_s: float) -> str | None:
        """Its process has ended, or says nothing any more."""
        beat, now = self._beat(), time.monotonic()
        if self.has_ended():
            return f"{self.name()} has ended"
        if beat != self._seen or not beat:
            self._seen, self._since = beat, now
        elif now - self._since > silence_s:
            return f"{self.name()} has said nothing for {silence_s:g} s"
        return None

    def has_ended(self) -> bool:
        """Known of processes of this host; of others silence tells."""
        place = self.place()
        if not place or {**own_place(), "pid": place["pid"], "started": place["started"]} != place:
            return False
        return _started(int(place["pid"])) != str(place["started"])

    def is_known(self) -> bool:
        return bool(self._place)

    def place(self) -> dict[str, Any]:
        if not self._place and self._store.check([f"place/{self._rank}"]):
            self._place = json.loads(self._store.get(f"place/{self._rank}"))
        return self._place

    def name(self) -> str:
        place = self.place()
        return f"process {place.get('pid', '?')} on {place.get('host', '?')}"

    def _beat(self) -> str:
        """Empty before the first one."""
        key = f"beat/{self._rank}"
        return str(self._store.get(key).decode()) if self._store.check([key]) else ""


class _Others:
    """The other ranks, as the store tells of them. replicas: stores of other pipelines, by their first process."""

    def __init__(self, plan: Plan, store: Any, silence_s: float, replicas: Mapping[int, Any]) -> None:
        self._plan, self._store, self._silence_s, self._replicas = plan, store, silence_s, replicas
        self._ranks = range(plan.program.ranks)
        self._processes = {rank: _Process(store, rank) for rank in self._ranks}
        self._twins = {first: _Process(other, plan.rank) for first, other in replicas.items()}
        self._count = 0
        self.step = 0  #: that this rank is in, from 1; the last one where it is in none
        store.set(f"place/{plan.rank}", json.dumps(own_place()))

    def beat(self) -> None:
        self._count += 1
        self._processes[0].place()  # while there is a store: without one, whether rank 0 has ended is what matters
        self._store.set(f"beat/{self._plan.rank}", str(self._count))

    def told(self) -> dict[str, Any] | None:
        if self._store.check(["failure"]):
            result: dict[str, Any] = json.loads(self._store.get("failure"))
            return result
        for first, store in self._replicas.items():
            if store.check(["failure"]):
                why = json.loads(store.get("failure"))["why"]
                return self.tell({"rank": -1, "why": f"the replica that begins with process {first} has failed: {why}"})
        return None

    def tell(self, found: dict[str, Any]) -> dict[str, Any]:
        """The first failure is everybody's."""
        text = self._store.compare_set("failure", "", json.dumps(found))
        result: dict[str, Any] = json.loads(text)
        return result

    def gone(self) -> dict[str, Any] | None:
        """The next rank that has not left, where something is wrong with it: each rank looks after one, and after the
        same rank of its replicas, so the store is asked little whatever the number of ranks."""
        for step in range(1, len(self._ranks)):
            rank = (self._plan.rank + step) % len(self._ranks)
            why = self._wrong_with(self._processes[rank])
            if why:
                return {"rank": rank, "why": why}
            if self._processes[rank].has_left() is None:
                break
        for first, twin in self._twins.items():
            why = self._wrong_with(twin)
            if why:
                twin_name = f"rank {self._plan.rank} of the replica that begins with process {first}"
                return {"rank": -1, "why": f"{twin_name}: {why}"}
        return None

    def _wrong_with(self, process: _Process) -> str | None:
        left = process.has_left()
        if left is None:
            return process.trouble(self._silence_s)
        return f"{process.name()} has left after {left} steps" if left < self.step else None

    def wait_for_gone(self, seconds: float) -> dict[str, Any] | None:
        """A connection breaks a moment before the kernel says that the process is gone. Looks at all ranks."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = self.told() or self.gone() or self._ended()
            if found is not None:
                return found
            time.sleep(0.05)
        return None

    def _ended(self) -> dict[str, Any] | None:
        for rank, process in self._processes.items():
            if rank != self._plan.rank and process.has_ended() and process.has_left() is None:
                return {"rank": rank, "why": f"{process.name()} has ended"}
        return None

    def gather_states(self, mine: bytes) -> dict[int, bytes]:
        """Of all ranks that answer in time."""
        self._store.set(f"state/{self._plan.rank}", mine.hex() or "-")
        states = {self._plan.rank: mine}
        until = time.monotonic() + _GATHER_S
        while len(states) < len(self._ranks) and time.monotonic() < until:
            for rank in self._ranks:
                if rank not in states and self._store.check([f"state/{rank}"]):
                    text = self._store.get(f"state/{rank}").decode()
                    states[rank] = b"" if text == "-" else bytes.fromhex(text)
            if all(rank in states or self._processes[rank].has_ended() for rank in self._ranks):
                break
            time.sleep(0.05)
        self._store.set(f"done/{self._plan.rank}", "")
        return states

    def without_store(self, wrong: BaseException) -> dict[str, Any]:
        """Rank 0 holds it unless torchrun does."""
        first = self._processes[0]
        if first.is_known() and self._plan.rank != 0 and first.has_ended():
            return {"rank": 0, "why": f"{first.name()} has ended, and the store of the processes with it"}
        return {"rank": -1, "why": f"the store of the processes is gone ({_first_line(wrong)})"}

    def let_them_read(self, states: Iterable[int]) -> None:
        """Rank 0 may hold the store, so it goes last."""
        until = time.monotonic() + _GATHER_S
        keys = [f"done/{rank}" for rank in states]
        while self._plan.rank == 0 and time.monotonic() < until and not self._store.check(keys):
            time.sleep(0.05)

    def leave(self, steps: int) -> None:
        self._store.set(f"beat/{self._plan.rank}", f"bye {steps}")


def own_place() -> dict[str, Any]:
    """Which process this is, for others on this host, too."""
    return {
        "host": socket.gethostname(),
        "boot": _read("/proc/sys/kernel/random/boot_id"),
        "space": os.readlink("/proc/self/ns/pid"),
        "pid": os.getpid(),
        "started": _started(os.getpid()),
    }


def _started(pid: int) -> str:
    """When a process began; "" where it has ended, be it that nobody has asked for its exit code yet."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return "" if len(fields) < 20 or fields[0] in "ZX" else fields[19]


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _first_line(wrong: BaseException) -> str:
    return str(wrong).strip().splitlines()[0] if str(wrong).strip() else type(wrong).__name__


#: Looks at the failure of a step while something else is waited for.
Look = Callable[[], BaseException | None]


def get(store: Any, key: str, look: Look) -> bytes:
    """A value that another rank sets, unless the run fails."""
    while not store.check([key]):
        failure = look()
        if failure is not None:
            raise failure
        time.sleep(0.002)
    value: bytes = store.get(key)
    return value
