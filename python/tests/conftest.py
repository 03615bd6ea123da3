"""Fixtures and helpers of all tests."""

import pathlib

import pytest

import ppsim

DATA = pathlib.Path(__file__).parents[2] / "tests" / "data"


@pytest.fixture
def hanging() -> "ppsim.Program":
    """Receives that stand where they are needed: with one communicator per rank this hangs."""
    program = ppsim.read(DATA / "deferred_receives.csv", communicators="per-rank")
    assert isinstance(program, ppsim.Program)
    return program


@pytest.fixture
def forget():
    """Names that a test registers are forgotten after it."""
    before = set(ppsim.schedules())
    yield
    for name in set(ppsim.schedules()) - before:
        ppsim.unregister(name)
