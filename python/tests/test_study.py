"""ppsim.study: the rows of the command, on any executor, whatever worker is lost."""

import json
import os
import sqlite3
import subprocess
import sys
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import ppsim

STUDY: dict[str, Any] = {
    "base": {"model": "llama3-8b:layers=8,sequence=2048", "cluster": "dgx-h100", "nodes": 1, "global_batch_size": 16},
    "axes": {
        "tp": [1, 2, 3], "pp": [1, 2, 4], "schedule": ["1f1b", "zb-v"], "microbatch_size": [1, 2],
        "recompute": ["none", "full"],
    },
    "constraints": ["tp*pp <= 8"],
}


def rows_of(store) -> list[Any]:
    with sqlite3.connect(store) as base:
        return base.execute("SELECT * FROM points ORDER BY key").fetchall()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[list[Any], list[dict[str, Any]]]:
    """The rows of the command: of its store, and as it exports them."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.json").write_text(json.dumps(STUDY))
    for words in (["run", "study.json"], ["export", "study.json", "-o", "rows.jsonl"]):
        subprocess.run([sys.executable, "-m", "ppsim", "study", *words], cwd=folder, check=True, capture_output=True)
    lines = (folder / "rows.jsonl").read_text().splitlines()
    return rows_of(folder / "study.json.sqlite"), [json.loads(line) for line in lines]


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


def dask() -> Executor:
    distributed = pytest.importorskip("distributed")
    client = distributed.Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
    distributed.gc.disable_gc_diagnosis(force=True)  # it would take the interrupts of later tests
    return client.get_executor()


def loky() -> Executor:
    return pytest.importorskip("loky").get_reusable_executor(max_workers=2)


def test_threads_have_a_limit(tmp_path):
    with pytest.raises(ppsim.Error, match="threads out of range .found 1000000"):
        ppsim.study(STUDY, store=tmp_path / "store.sqlite", workers=10**6)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("make", [None, lambda: ThreadPoolExecutor(2), processes, dask, loky],
                         ids=["none", "threads", "processes", "dask", "loky"])
def test_every_executor_has_the_rows_of_the_command(make, whole, tmp_path):
    executor = make and make()
    results = ppsim.study(STUDY, store=tmp_path / "store.sqlite", executor=executor, workers=2, batch=5)
    if executor is not None:
        executor.shutdown()
    assert rows_of(tmp_path / "store.sqlite") == whole[0]
    assert results.rows == whole[1]
    assert (results.points, results.evaluated, results.missing) == (len(whole[1]), len(whole[1]), 0)
    assert results.fits[0]["step_ns"] == min(row["step_ns"] for row in results.rows if row["status"] == "fits")
    again = ppsim.study(STUDY, store=tmp_path / "store.sqlite", workers=1)
    assert again.evaluated == 0 and again.to_csv() == results.to_csv()


def test_results_are_a_parquet_file(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    results = ppsim.study(STUDY, store=tmp_path / "store.sqlite", workers=1)
    results.to_parquet(tmp_path / "rows.parquet")
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert table.column_names == results.to_csv().splitlines()[0].split(",")
    assert table.num_rows == len(results)
    assert str(table.schema.field("step_ns").type) == "int64"
    assert [row["step_ns"] for row in table.to_pylist()] == [row.get("step_ns") for row in results.rows]


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch, tmp_path):
    results = ppsim.study(STUDY, store=tmp_path / "store.sqlite", workers=1)
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    with pytest.raises(ppsim.Error, match="pip install pyarrow"):
        results.to_parquet(tmp_path / "rows.parquet")
    assert not (tmp_path / "rows.parquet").exists()


class LosesAWorker(ProcessPoolExecutor):
    """Its first worker dies with the points that it got; all that are made later do their work."""

    made = 0

    def __init__(self) -> None:
        super().__init__(2, mp_context=get_context("spawn"))
        type(self).made += 1
        self._dies = type(self).made == 1

    def submit(self, work: Any, /, *words: Any, **more: Any) -> Future[Any]:
        if self._dies and words and words[0]:
            self._dies = False
            return super().submit(os._exit, 1)
        return super().submit(work, *words, **more)


def test_points_of_a_lost_worker_are_done_again(whole, tmp_path):
    LosesAWorker.made = 0
    results = ppsim.study(STUDY, store=tmp_path / "store.sqlite", executor=LosesAWorker, workers=2, batch=5)
    assert LosesAWorker.made == 2
    assert rows_of(tmp_path / "store.sqlite") == whole[0] and results.missing == 0


def test_an_executor_that_breaks_leaves_a_store_that_resumes(whole, tmp_path):
    LosesAWorker.made = 0
    with pytest.raises(ppsim.Error, match="another call goes on") as failure:
        ppsim.study(STUDY, store=tmp_path / "store.sqlite", executor=LosesAWorker(), batch=5)
    assert failure.value.code == "io"
    ppsim.study(STUDY, store=tmp_path / "store.sqlite", workers=2)
    assert rows_of(tmp_path / "store.sqlite") == whole[0]


class Refuses(ThreadPoolExecutor):
    def submit(self, work: Any, /, *words: Any, **more: Any) -> Future[Any]:
        def refuse() -> None:
            raise OSError("no room")

        return super().submit(refuse)


def test_points_that_no_worker_survives_are_named(tmp_path):
    with pytest.raises(ppsim.Error, match="lost 3 times with the same 5 points"):
        ppsim.study(STUDY, store=tmp_path / "store.sqlite", executor=Refuses(1), batch=5)


def test_shards_merge_and_progress_is_told(whole, tmp_path):
    file = tmp_path / "study.json"
    file.write_text(json.dumps(STUDY))
    for shard in (0, 1):
        words = ["run", str(file), "--shard", f"{shard}/2", "--store", f"{tmp_path}/part{shard}.sqlite"]
        subprocess.run([sys.executable, "-m", "ppsim", "study", *words], check=True, capture_output=True)
    told: list[tuple[int, int]] = []
    merged = ppsim.study(file, executor=ThreadPoolExecutor(1), merge=[tmp_path / "part0.sqlite"], workers=1, batch=20,
                         progress=lambda done, all_points: told.append((done, all_points)))
    assert told[-1] == (len(whole[1]), len(whole[1])) and [done for done, _ in told] == sorted(done for done, _ in told)
    assert 0 < merged.evaluated < merged.points
    assert merged.store == f"{file}.sqlite" and rows_of(merged.store) == whole[0]


def test_what_is_no_study_is_refused(tmp_path):
    with pytest.raises(ppsim.FileError, match="modle"):
        ppsim.study({"base": {"modle": "llama3-8b"}}, store=tmp_path / "store.sqlite")
    with pytest.raises(ppsim.FileError, match="cannot be read"):
        ppsim.study(tmp_path / "none.json")
    with pytest.raises(ppsim.Error, match="a store is missing"):
        ppsim.study(STUDY)
    with pytest.raises(ppsim.Error, match="a count is out of range"):
        ppsim.study(STUDY, store=tmp_path / "store.sqlite", batch=0)
    odd = dict(STUDY["base"], tp=8, schedule="1f1b\u2028x")
    row = ppsim.study({"base": odd}, store=tmp_path / "odd.sqlite").rows[0]
    assert row["status"] == "impossible" and row["point"]["schedule"] == "1f1b\u2028x"
    (tmp_path / "text.sqlite").write_text("text")
    with pytest.raises(ppsim.FileError):
        ppsim.study(STUDY, store=tmp_path / "text.sqlite")


def test_progress_is_told_of_threads_and_what_it_raises_ends_the_study(whole, tmp_path):
    told: list[tuple[int, int]] = []
    done = ppsim.study(STUDY, store=tmp_path / "store.sqlite", workers=2, progress=lambda *pair: told.append(pair))
    assert told[-1] == (done.points, done.points) and rows_of(done.store) == whole[0]

    part, told = tmp_path / "part.sqlite", []
    ppsim.study({**STUDY, "axes": {**STUDY["axes"], "tp": [1]}}, store=part)
    resumed = ppsim.study(STUDY, store=part, progress=lambda *pair: told.append(pair))
    before = resumed.points - resumed.evaluated
    assert before > 0 and told[0][0] > before and told[-1] == (resumed.points, resumed.points)
    assert told == sorted(set(told))

    def ends(done: int, points: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        ppsim.study(STUDY, store=tmp_path / "other.sqlite", progress=ends)


def test_whole_numbers_of_numpy_are_values(tmp_path):
    numpy = pytest.importorskip("numpy")
    question = {**STUDY, "axes": {**STUDY["axes"], "tp": [numpy.int64(1)]}}
    assert ppsim.study(question, store=tmp_path / "store.sqlite").points > 0
