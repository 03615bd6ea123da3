"""Several schedules beside each other."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.costs import Costs, costs_of
from ppsim.errors import Error
from ppsim.lowering import program_of
from ppsim.registry import generate, registered
from ppsim.simulation import Run, simulate
from ppsim.values import Value


@dataclass(frozen=True)
class Comparison(Value):
    """Runs of the same ranks and microbatches. Iterates over its runs."""

    runs: tuple[Run, ...]

    def rows(self) -> list[dict[str, Any]]:
        """A dictionary of figures for each run: pandas.DataFrame(comparison.rows())."""
        return [run.row() for run in self.runs]

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __str__(self) -> str:
        cells = [["schedule", "step ms", "bubble", "of span", "peak GB", "activations"]]
        for run in self.runs:
            peak = "-" if run.peak_bytes is None else f"{run.peak_bytes / 1e9:.2f}"
            cells.append(
                [
                    run.name,
                    f"{run.makespan_ns / 1e6:.2f}",
                    f"{run.bubble_fraction:.2%}",
                    f"{run.bubble_fraction_span:.2%}",
                    peak,
                    str(run.peak_live_activations),
                ]
            )
        widths = [max(len(row[c]) for row in cells) for c in range(len(cells[0]))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if c == 0 else cell.rjust(width)
                for c, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in cells
        )

    @checked
    def show(self, *, width: int = 100) -> None:
        """Prints the table and all timelines."""
        print(self)
        for run in self.runs:
            print(f"\n{run.name}")
            run.show(width=width)

    @checked
    def svg(self, *, width: int = 1200) -> str:
        """All timelines in one picture, one below the other, each to its own scale of time. width: 20 to 20000."""
        pictures, top = [], 0
        for run in self.runs:
            picture = run.svg(title=repr(run)[1:-1], width=width)
            pictures.append(picture.replace("<svg ", f'<svg y="{top}" ', 1))
            top += _height(picture)
        head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}">'
        return head + "".join(_without_prolog(picture) for picture in pictures) + "</svg>"

    @checked
    def write_report(self, path: str | os.PathLike[str]) -> None:
        """A self-contained HTML page of all runs, one of which can be laid over another. Raises Error without runs."""
        if not self.runs:
            raise Error("a report needs runs", found="none", expected="1 or more")
        _core.write_report([run._step for run in self.runs], os.fspath(path))

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>{self.svg()}"


def _without_prolog(picture: str) -> str:
    return picture[picture.index("<svg") :]


def _height(picture: str) -> int:
    head = picture[picture.index("<svg") :].split(">", 1)[0]
    return round(float(head.split('height="', 1)[1].split('"', 1)[0]))


@checked
def compare(
    what: Iterable[str | _core.Schedule | _core.Program | Run],
    *,
    costs: Costs | None = None,
    unit: Mapping[str, float] | None = None,
    ranks: int | None = None,
    microbatches: int | None = None,
    chunks: int | None = None,
    transport: str = "any",
) -> Comparison:
    """Simulates names, with these ranks, microbatches and chunks, Schedules and Programs under the same costs and on the
    same transport. A Run is taken as it is, with costs and a transport of its own.

    costs, unit: default: those of the first Run, or else one unit for F, I, W, two for B

    Costs that are the same for every stage say nothing of how much of the model a stage is: compare schedules
    of as many stages under such costs.
    Raises Error for another number of ranks or microbatches, or of stages under unit costs.
    """
    items = list(what)
    of_runs = [item.costs for item in items if isinstance(item, Run)]
    given = costs_of(costs, unit)
    if len(of_runs) == len(items) > 0 and (given is not None or transport != "any"):
        raise Error("runs have costs and a transport of their own", found="runs alone", expected="compare(runs)")
    if not any(isinstance(item, str) for item in items) and (ranks, microbatches, chunks) != (None, None, None):
        raise Error("ranks, microbatches and chunks are for names", found="no name", expected='such as compare(["1f1b"], ...)')
    known = given or next(iter(of_runs), Costs.unit())
    runs: list[Run] = []
    for item in items:
        if isinstance(item, str):
            if ranks is None or microbatches is None:
                raise Error("a name needs ranks= and microbatches=", found=item)
            schedule = generate(item, ranks=ranks, microbatches=microbatches, chunks=chunks, costs=known)
            name = item if registered(item) else schedule.name  # a function may leave its schedule without one
            runs.append(Run(program_of(schedule, known), known, name=name, transport=transport))
        else:
            runs.append(item if isinstance(item, Run) else simulate(item, costs=known, transport=transport))
    _check_same_work(runs)
    return Comparison(tuple(runs))


def _check_same_work(runs: list[Run]) -> None:
    by_stage = all(run.costs.by_stage for run in runs)

    def work(run: Run) -> tuple[int, ...]:
        program = run.program
        return (program.ranks, program.microbatches - program.padding) + (() if by_stage else (program.stages,))

    for run in runs:
        if work(run) != work(runs[0]):
            raise Error(
                "a comparison needs the same ranks, microbatches and, where all stages cost the same, stages",
                found=f"{run.name} with {run.program!r}",
                expected=f"as {runs[0].name} with {runs[0].program!r}",
            )
