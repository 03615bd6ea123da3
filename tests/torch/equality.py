"""Is each of PyTorch's orders ours, cell by cell?"""

import filecmp
import re
import subprocess
from collections import Counter

import generators

RANKS = range(1, 9)
MICROBATCHES = range(1, 33)

# PyTorch's 1F1B order counts the forwards of the last rank from 1: microbatch 0 never runs there and microbatch n, which
# is not, does. Its runtime of 1F1B does not read that order.
SHIFTED = "1f1b"


def _combinations(name):
    _, several = generators.GENERATORS[name]
    for ranks in RANKS:
        for microbatches in MICROBATCHES:
            for chunks in several or (1,):
                yield ranks, microbatches, chunks


def _reason(error):
    """The first line of a refusal without its numbers, which differ from case to case."""
    return re.sub(r"\d+\b", "N", str(error).splitlines()[0])


def generate_ours(ppsim, name, sizes, path):
    """ppsim's CSV; raises RuntimeError with its message where it refuses."""
    ranks, microbatches, chunks = sizes
    command = [ppsim, "generate", name, "--ranks", str(ranks), "--microbatches", str(microbatches), "-o", str(path)]
    if generators.GENERATORS[name][1]:
        command += ["--chunks", str(chunks)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())


def _unshifted(rows):
    return rows[:-1] + [[re.sub(r"F(\d+)$", lambda f: f"F{int(f[1]) - 1}", cell) for cell in rows[-1]]]


def _difference(theirs, ours):
    """The first cell that differs, or nothing."""
    if len(theirs) != len(ours):
        return f"{len(theirs)} ranks in PyTorch, {len(ours)} here"
    for rank, (their_row, our_row) in enumerate(zip(theirs, ours)):
        for column, (their_cell, our_cell) in enumerate(zip(their_row, our_row)):
            if their_cell != our_cell:
                return f"rank {rank}, action {column}: {their_cell} in PyTorch, {our_cell} here"
        if len(their_row) != len(our_row):
            return f"rank {rank}: {len(their_row)} actions in PyTorch, {len(our_row)} here"
    return None


def _not_read_back(ppsim, theirs, folder):
    """PyTorch's file through ppsim's reader and writer is the same to the byte, idle cells included."""
    back = folder / "back.csv"
    done = subprocess.run([ppsim, "convert", str(theirs), str(back)], capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()
    return None if filecmp.cmp(theirs, back, shallow=False) else "the file that ppsim writes back differs"


def _compare(ppsim, name, sizes, folder):
    theirs, ours = folder / "theirs.csv", folder / "ours.csv"
    try:
        generate_ours(ppsim, name, sizes, ours)
    except RuntimeError as error:
        return str(error)
    rows = generators.read(theirs)
    difference = _difference(_unshifted(rows) if name == SHIFTED else rows, generators.read(ours))
    if difference or not generators.GENERATORS[name][1]:
        return difference
    return _not_read_back(ppsim, theirs, folder)


def check(ppsim, name, folder):
    """Compares every combination that PyTorch accepts; counts what it accepts and why it refuses the rest."""
    refused, equal, cells, different = Counter(), 0, 0, []
    for sizes in _combinations(name):
        try:
            schedule = generators.generate(name, *sizes)
        except (ValueError, AssertionError) as error:
            refused[_reason(error)] += 1
            continue
        generators.write(schedule, folder / "theirs.csv")
        difference = _compare(ppsim, name, sizes, folder)
        equal += difference is None
        cells += sum(map(len, generators.read(folder / "theirs.csv")))
        if difference:
            different.append("p={} n={} v={}: {}".format(*sizes, difference))
    return {
        "compared": equal + len(different),
        "cells": cells,
        "equal": equal,
        "different": different,
        "refused": dict(refused),
    }
