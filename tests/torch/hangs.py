"""Whether a `compute_comms` file hangs, also one that mixes tensors up.

ppsim asks no more of a file after its first mismatch. Here the n-th receive of a channel gets what was sent n-th, whatever
both are called, and what computes waits for its receive by name. On files without mismatch the answers are ppsim's.
"""

import re
from collections import defaultdict

_ACTION = re.compile(r"(\d+)(WAIT_REDUCE_GRAD|WAIT_SEND_[FB]|SEND_[FB]|RECV_[FB]|REDUCE_GRAD|UNSHARD|RESHARD|F|B|I|W)(\d*)")


def _parts(cell):
    return [(int(stage), kind, number) for stage, kind, number in _ACTION.findall(cell)]


class _Run:
    """Launches in the order of each rank; transfers are rendezvous, one at a time on a communicator."""

    def __init__(self, rows, policy):
        self.rows = [[_parts(cell) for cell in row] for row in rows]
        self.rank_of = {stage: rank for rank, row in enumerate(self.rows) for cell in row for stage, kind, _ in cell if kind == "F"}
        self.policy = policy
        self.all = [{action for cell in row for action in cell} for row in self.rows]
        self.next = [0] * len(rows)
        self.done = [set() for _ in rows]
        self.queues = [defaultdict(lambda: None) for _ in rows]  # the transfer that a communicator is at
        self.ends = defaultdict(lambda: ([], []))  # of a channel: its sends and receives that have started

    def _channel(self, rank, action):
        stage, kind, _ = action
        peer_stage = stage + (1 if kind in ("SEND_F", "RECV_B") else -1)
        peer = self.rank_of[peer_stage]
        ranks, stages = (rank, peer), (stage, peer_stage)
        if kind.startswith("RECV"):
            ranks, stages = ranks[::-1], stages[::-1]
        name = {"per-rank": "world", "per-pair": tuple(sorted(ranks)), "per-edge": ranks, "per-stage-edge": stages}
        return name[self.policy], ranks

    def _needs(self, action):
        stage, kind, number = action
        if kind.startswith("WAIT_"):
            return (stage, kind[len("WAIT_") :], number)
        received = {"F": "RECV_F", "B": "RECV_B", "I": "RECV_B"}.get(kind)
        return (stage, received, number) if received else None

    def _can_start(self, rank, action):
        needed = self._needs(action)
        if needed and needed in self.all[rank] and needed not in self.done[rank]:
            return False
        if action[1].startswith(("SEND", "RECV")):
            return self.queues[rank][self._channel(rank, action)[0]] is None
        return True

    def _start(self, rank, action):
        kind = action[1]
        if kind.startswith(("SEND", "RECV")):
            communicator, ranks = self._channel(rank, action)
            self.queues[rank][communicator] = action
            self.ends[communicator, ranks][kind.startswith("RECV")].append((rank, action))
        else:
            self.done[rank].add(action)

    def _meet(self):
        met = False
        for (communicator, _), (sends, receives) in self.ends.items():
            while sends and receives:
                for rank, action in (sends.pop(0), receives.pop(0)):
                    self.done[rank].add(action)
                    self.queues[rank][communicator] = None
                met = True
        return met

    def hangs(self):
        moved = True
        while moved:
            moved = self._meet()
            for rank, row in enumerate(self.rows):
                while self.next[rank] < len(row) and all(self._can_start(rank, a) for a in row[self.next[rank]]):
                    for action in row[self.next[rank]]:
                        self._start(rank, action)
                    self.next[rank] += 1
                    moved = True
        return any(at < len(row) for at, row in zip(self.next, self.rows)) or any(
            sends or receives for sends, receives in self.ends.values()
        )


def hangs(path, policy):
    return _Run([line.split(",") for line in path.read_text().splitlines()], policy).hangs()
