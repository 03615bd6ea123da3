"""The questions of `ppsim --plugin FILE.py` to a Python file that calls `ppsim.register` or `ppsim.register_costs`.

`python -m ppsim.plugin FILE.py` prints a line for each schedule and cost model that the file registers, between BEGIN and END: its kind
(`schedule` or `costs`), its name and the first line of its docstring, with tabs between. `python -m ppsim.plugin FILE.py schedule NAME ranks=4
microbatches=8 ...` prints the schedule as native JSON, and `costs NAME ranks=4 microbatches=8 slices=1 rank_of_stage=0,1,2,3 ...` a table of
costs. What is wrong is the one line that is printed, with exit code 1, or 3 where a function of the file refuses.
"""

from __future__ import annotations

import contextlib
import runpy
import sys
from collections.abc import Callable
from typing import Any

from ppsim import cost_models, registry

# Around the answer: Python's warnings and what the file does at its exit are on the same stream.
BEGIN, END = "<ppsim>", "</ppsim>"
REFUSED = 3  # the exit code, which the program tells from a file or a Python that does not work
COUNTS = ("ranks", "microbatches", "chunks", "slices")


def offer(kind: str, name: str, function: Callable[..., Any]) -> str:
    summary = (function.__doc__ or "").strip().partition("\n")[0].replace("\t", " ")
    return f"{kind}\t{name}\t{summary}\n"


def offers(published: set[str]) -> str:
    """A line for each thing that was registered since `published` was all."""
    names = [name for name in registry.schedules() if name not in published]
    schedules = [own for name in names if (own := registry.registered(name)) is not None]
    lines = [offer("schedule", own.name, own.function) for own in schedules]
    lines += [offer("costs", own.name, own.function) for own in cost_models.registered_costs().values()]
    return "".join(lines)


def pairs(words: list[str]) -> dict[str, str]:
    return dict((key, value) for key, _, value in (word.partition("=") for word in words))


def generated(name: str, words: list[str]) -> str:
    values: dict[str, Any] = pairs(words)
    for count in COUNTS:
        if count in values:
            values[count] = int(values[count])
    return registry.generate(name, **values).to_json()


def costs_of(name: str, words: list[str]) -> str:
    settings = pairs(words)
    shape = cost_models.PipelineShape(
        ranks=int(settings.pop("ranks")),
        microbatches=int(settings.pop("microbatches")),
        slices=int(settings.pop("slices")),
        rank_of_stage=tuple(int(rank) for rank in settings.pop("rank_of_stage").split(",")),
    )
    return cost_models.table_text(name, shape, settings) + "\n"


def answered(arguments: list[str]) -> str:
    """Runs the file, and returns what it is asked for."""
    published = set(registry.schedules())
    runpy.run_path(arguments[0])
    if len(arguments) == 1:
        return offers(published)
    kind, name, *words = arguments[1:]
    try:
        return (costs_of if kind == "costs" else generated)(name, words)
    except (Exception, SystemExit) as wrong:  # whatever a function of a user raises
        raise _RefusedError(str(wrong) if isinstance(wrong, ValueError) else in_words(wrong)) from wrong


class _RefusedError(Exception):
    """Of a function that the file registers, in its own words."""


def in_words(wrong: BaseException) -> str:
    return f"{type(wrong).__name__}: {wrong}"


def main(arguments: list[str]) -> int:
    """Runs the file, and prints what it is asked for."""
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the file prints is no answer
            text = answered(arguments)
    except _RefusedError as refused:
        print(str(refused).replace("\n", " ") or "it refuses without a word")
        return REFUSED
    except (Exception, SystemExit) as wrong:  # whatever a file of a user raises
        print(in_words(wrong).replace("\n", " "))
        return 1
    print(f"{BEGIN}\n{text}{END}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
