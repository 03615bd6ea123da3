"""The Arrow C data interface, read as C has it; and by pyarrow where it is installed."""

import csv
import ctypes
import gc
from typing import Any

import pytest

import ppsim


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.POINTER(Schema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Schema))),
    ("private_data", ctypes.c_void_p),
]
Array._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.POINTER(Array)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))),
    ("private_data", ctypes.c_void_p),
]
Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))),
    ("private_data", ctypes.c_void_p),
]

FORMATS = {"rank": b"i", "index": b"i", "queue": b"u", "kind": b"u", "instruction": b"u", "start_ns": b"l", "end_ns": b"l"}


def run() -> ppsim.Run:
    return ppsim.simulate(ppsim.generate("dualpipe-v", ranks=2, microbatches=4), unit={"F": 1, "B": 2, "c": 0.1})


def pointer(capsule: object, name: bytes, kind: Any) -> Any:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(get(capsule, name), ctypes.POINTER(kind))


def values(array: Any, format: bytes) -> list[Any]:
    assert array.null_count == 0 and array.offset == 0 and array.n_buffers == (3 if format == b"u" else 2)
    assert not array.buffers[0]
    if format != b"u":
        kind = ctypes.c_int32 if format == b"i" else ctypes.c_int64
        return list(ctypes.cast(array.buffers[1], ctypes.POINTER(kind))[: array.length])
    ends = ctypes.cast(array.buffers[1], ctypes.POINTER(ctypes.c_int32))[: array.length + 1]
    text = ctypes.string_at(array.buffers[2], ends[-1]).decode()
    return [text[begin:end] for begin, end in zip(ends, ends[1:])]


def columns(schema: Any, array: Any) -> dict[str, list[Any]]:
    assert schema.format == b"+s" and schema.n_children == array.n_children
    result = {}
    for i in range(schema.n_children):
        column = schema.children[i].contents
        result[column.name.decode()] = values(array.children[i].contents, column.format)
        assert column.format == FORMATS[column.name.decode()]
    return result


def expected(of: ppsim.Run) -> dict[str, list[Any]]:
    trace, program = of.trace, of.program
    ranks = [rank for rank in range(program.ranks) for _ in range(program.first[rank], program.first[rank + 1])]
    return {
        "rank": ranks,
        "index": [i - program.first[rank] for i, rank in enumerate(ranks)],
        "start_ns": trace["start_ns"].tolist(),
        "end_ns": trace["end_ns"].tolist(),
    }


def check(found: dict[str, list[Any]], of: ppsim.Run) -> None:
    assert list(found) == list(FORMATS)
    for name, column in expected(of).items():
        assert found[name] == column, name
    assert "OVERLAP_F_B" in found["kind"] and set(found["kind"]) < set(ppsim.op_kinds)
    pair = found["kind"].index("OVERLAP_F_B")
    assert found["instruction"][pair].endswith(")OVERLAP_F_B") and found["queue"][pair] == "compute"
    assert [name for name, kind in zip(found["instruction"], found["kind"]) if kind == "F"][0] == "0F0"


def test_an_array_is_taken_as_the_interface_says():
    of = run()
    table = of.to_arrow()
    assert table.column_names == list(FORMATS) and len(table) == len(of.program)
    schema_capsule, array_capsule = table.__arrow_c_array__()
    del table
    gc.collect()
    schema = pointer(schema_capsule, b"arrow_schema", Schema).contents
    array = pointer(array_capsule, b"arrow_array", Array).contents
    check(columns(schema, array), of)
    array.release(array)
    assert not array.release  # the capsule leaves it alone
    assert schema.release


def test_a_group_has_every_queue_it_is_on(tmp_path):
    of = ppsim.simulate(ppsim.lower(ppsim.generate("dualpipe-v", ranks=4, microbatches=8), grouping="paired"))
    of.write_trace(tmp_path / "run.csv")
    with (tmp_path / "run.csv").open() as file:
        written = [row["queue"] for row in csv.DictReader(file)]
    schema_capsule, array_capsule = of.to_arrow().__arrow_c_array__()
    array = pointer(array_capsule, b"arrow_array", Array).contents
    found = columns(pointer(schema_capsule, b"arrow_schema", Schema).contents, array)
    assert found["queue"] == written and any("+" in queue for queue in written)


def test_a_child_that_is_moved_away_lives_on():
    of = run()
    _, capsule = of.to_arrow().__arrow_c_array__()
    array = pointer(capsule, b"arrow_array", Array).contents
    child = Array()
    ctypes.pointer(child)[0] = array.children[6].contents
    array.children[6].contents.release = type(array.release)()
    array.release(array)
    del capsule
    gc.collect()
    assert values(child, b"l") == of.trace["end_ns"].tolist()
    child.release(child)


def test_a_stream_has_one_batch():
    of = run()
    capsule = of.to_arrow().__arrow_c_stream__(None)
    stream = pointer(capsule, b"arrow_array_stream", Stream).contents
    schema, array, end = Schema(), Array(), Array()
    assert stream.get_schema(stream, schema) == 0 and stream.get_next(stream, array) == 0
    assert stream.get_next(stream, end) == 0 and not end.release
    stream.release(stream)
    check(columns(schema, array), of)
    schema.release(schema)
    array.release(array)


def test_a_schema_stands_alone():
    capsule = run().to_arrow().__arrow_c_schema__()
    schema = pointer(capsule, b"arrow_schema", Schema).contents
    assert [schema.children[i].contents.name.decode() for i in range(schema.n_children)] == list(FORMATS)


def test_pyarrow_reads_it():
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed; the interface is tested without it")
    of = run()
    table = pyarrow.table(of.to_arrow())
    table.validate(full=True)
    check(table.to_pydict(), of)
    batch = pyarrow.record_batch(of.to_arrow())
    assert batch.equals(table.to_batches()[0]) and batch.schema == pyarrow.schema(of.to_arrow())
