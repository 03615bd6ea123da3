"""Runs the examples of docs/torch.md, with the definitions that they take for granted."""

import contextlib
import io
import os

from torch_runs.models import Block, batch


def guide(block: str) -> list[str]:
    """Runs one block on this rank. Returns: the lines that it printed."""
    printed = io.StringIO()
    names = {
        "rank": int(os.environ["RANK"]),
        "make_stage": Block,
        "batches": [batch(8, step) for step in range(2)],
    }
    with contextlib.redirect_stdout(printed):
        exec(block, names)  # the document's own text
    return printed.getvalue().splitlines()
