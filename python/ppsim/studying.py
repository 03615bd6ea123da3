"""Many configurations of one question, in a store that resumes, on any executor."""

from __future__ import annotations

import importlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.errors import Error, FileError
from ppsim.simulation import MAX_THREADS, threads_of

_TRIES = 3  # of points whose worker was lost
_AHEAD = 4  # batches per worker that wait for one

Points = list[tuple[dict[str, str], dict[str, str]]]  # values, and hashes of the files that they name


@dataclass(frozen=True)
class StudyResults:
    """The results that a store has for a study.

    rows: a dictionary a point, in the order of the study, as `ppsim study export` writes it to .jsonl
    points: how many the study has; evaluated: how many this call has done; store: the file of the results
    """

    rows: list[dict[str, Any]]
    points: int
    evaluated: int
    store: str
    _csv: str

    @property
    def missing(self) -> int:
        return self.points - len(self.rows)

    @property
    def fits(self) -> list[dict[str, Any]]:
        """The points that fit, the fastest first."""
        return sorted((row for row in self.rows if row["status"] == "fits"), key=lambda row: row["step_ns"])

    def to_csv(self) -> str:
        """As `ppsim study export` writes it."""
        return self._csv

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """The columns of to_csv, with their types. Needs pyarrow. Raises Error without it, OSError for the file."""
        try:
            csv, parquet = importlib.import_module("pyarrow.csv"), importlib.import_module("pyarrow.parquet")
        except ImportError as missing:
            raise Error("Parquet needs pyarrow", found=str(missing), expected="pip install pyarrow, or to_csv()") from missing
        parquet.write_table(csv.read_csv(io.BytesIO(self._csv.encode())), os.fspath(path))

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return f"{self.store}: {len(self.rows)} of {self.points} points done; {len(self.fits)} fit"


@checked
def study(
    question: str | os.PathLike[str] | dict[str, Any],
    *,
    store: str | os.PathLike[str] | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    workers: int | None = None,
    batch: int = 32,
    merge: Iterable[str | os.PathLike[str]] = (),
    progress: Callable[[int, int], None] | None = None,
) -> StudyResults:
    """Evaluates the points that the store lacks (docs/study.md) and returns all results.

    question: a file, or what it holds as a dictionary; store: SQLite, default FILE.sqlite
    executor: any concurrent.futures.Executor, or a function that makes one, such as Dask's, loky's, mpi4py's;
    default: threads of this process. Points of a worker that is lost are done again, up to three times; an
    executor that breaks is made again where `executor` is a function
    workers: threads without an executor, up to 1024, else how many batches run at once; default: the processors
    batch: points that a worker gets at once; merge: other stores, whose results are added first
    progress: called with the points done and all of them whenever there are more: in the caller's thread with an
    executor, else in another one, whose work waits for it
    What is done is in the store when this is interrupted. Raises FileError for a study or a store that is none, Error
    for an executor that breaks, and what evaluating raises.
    """
    workers = min(os.cpu_count() or 1, MAX_THREADS) if workers is None else workers
    if workers < 1 or batch < 1:
        raise Error("a count is out of range", found=f"workers={workers}, batch={batch}", expected="1 or more")
    if executor is None:
        workers = threads_of(workers)
    opened, path = _opened(question, store)
    for other in merge:
        opened.merge(os.fspath(other))
    if executor is None:
        evaluated = opened.run(workers, progress)
    else:
        evaluated = _Spread(opened, executor, workers, progress).run(batch)
    rows = [json.loads(line) for line in opened.jsonl().split("\n") if line]
    return StudyResults(rows, opened.size, evaluated, path, opened.csv())


def _opened(question: str | os.PathLike[str] | dict[str, Any], store: str | os.PathLike[str] | None) -> tuple[Any, str]:
    if isinstance(question, dict):
        if store is None:
            raise Error("a store is missing", found="a study without a file", expected="store=")
        return _core.OpenStudy(_question_text(question), "the study", os.fspath(store)), os.fspath(store)
    file = os.fspath(question)
    path = f"{file}.sqlite" if store is None else os.fspath(store)
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as wrong:
        raise FileError(f"the study cannot be read: {wrong}", code="io", file=file) from wrong
    return _core.OpenStudy(text, file, path), path


def _question_text(question: dict[str, Any]) -> str:
    try:
        return json.dumps(question, default=_plain)
    except (TypeError, ValueError) as wrong:
        raise Error(f"no study: {wrong}", expected="what a file of a study has") from wrong


def _plain(value: Any) -> Any:
    """Paths, ranges, and numbers and arrays of NumPy as JSON has them."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, range):
        return list(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} is of a type that files of studies do not have")


def _evaluate(points: Points) -> dict[str, Any]:
    """Runs in a worker."""
    return dict(_core.evaluate_points(points))


class _Spread:
    """Points that pass through an executor into a store."""

    def __init__(
        self,
        opened: Any,
        executor: Executor | Callable[[], Executor],
        workers: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._opened = opened
        self._made = executor if callable(executor) else None
        self._executor = executor() if callable(executor) else executor
        self._workers = workers
        self._progress = progress
        self._running: dict[Future[dict[str, Any]], tuple[Points, int]] = {}
        self._done = 0

    def run(self, batch: int) -> int:
        """How many points were done."""
        points = self._opened.missing()
        self._done = self._opened.size - len(points)
        batches = iter([points[i : i + batch] for i in range(0, len(points), batch)])
        try:
            self._feed(batches)
            while self._running:
                self._take_finished()
                self._feed(batches)
                if self._progress is not None:
                    self._progress(self._done, self._opened.size)
        finally:
            for future in self._running:
                future.cancel()
            if self._made is not None:
                self._executor.shutdown(wait=True, cancel_futures=True)
        return len(points)

    def _feed(self, batches: Iterator[Points]) -> None:
        while len(self._running) < _AHEAD * self._workers and (points := next(batches, None)) is not None:
            self._submit(points, 1)

    def _submit(self, points: Points, tries: int) -> None:
        try:
            future = self._executor.submit(_evaluate, points)
        except BrokenExecutor as broken:
            future = self._again(broken).submit(_evaluate, points)
        self._running[future] = (points, tries)

    def _take_finished(self) -> None:
        finished, _ = wait(self._running, return_when=FIRST_COMPLETED)
        rows: dict[str, Any] = {}
        lost: list[tuple[Points, int, BaseException]] = []
        for future in finished:
            points, tries = self._running.pop(future)
            failure = CancelledError() if future.cancelled() else future.exception()
            if failure is None:
                rows.update(future.result())
            else:
                lost.append((points, tries, failure))
        if rows:
            self._opened.add(rows)
            self._done += len(rows)
        for points, tries, failure in lost:
            if isinstance(failure, Error):
                raise failure
            self._retry(points, tries, failure)

    def _retry(self, points: Points, tries: int, failure: BaseException) -> None:
        if tries == _TRIES:
            raise Error(
                f"a worker was lost {tries} times with the same {len(points)} points: {failure!r}; what is done is in the "
                "store, and another call goes on",
                code="io",
            ) from failure
        if isinstance(failure, BrokenExecutor):
            self._again(failure)
        self._submit(points, tries + 1)

    def _again(self, broken: BaseException) -> Executor:
        """Another executor in place of one that has lost a worker and takes no more work."""
        if self._made is None:
            raise Error(
                f"the executor broke: {broken!r}; what is done is in the store, and another call goes on",
                code="io",
                expected="executor= a function that makes one, to go on by itself",
            ) from broken
        if _is_broken(self._executor):
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = self._made()
        return self._executor


def _is_broken(executor: Executor) -> bool:
    """Whether it takes no more work. Several batches fail for one lost worker, and one new executor is enough."""
    try:
        executor.submit(_evaluate, []).cancel()
    except (BrokenExecutor, RuntimeError):
        return True
    return False


__all__: Sequence[str] = ["StudyResults", "study"]
