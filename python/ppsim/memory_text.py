"""Worst-case memory as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ppsim.verification import RankMemory


def size_text(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size} B"


def memory_line(rank: RankMemory) -> str:
    text = f"rank {rank.rank}: {size_text(rank.bytes)}"
    if rank.bytes_per_period:
        periods = "m" if rank.period == 1 else f"floor(m / {rank.period})"
        text += f" + {size_text(rank.bytes_per_period)} * {periods}"
    if rank.reached_at is not None:
        text += f", needed at m = {rank.reached_at}"
    if rank.pool_bytes is not None:
        text += f", pool of addresses {size_text(rank.pool_bytes)}"
    if rank.communicator_bytes:
        text += f", communicators {size_text(rank.communicator_bytes)}"
    return text
