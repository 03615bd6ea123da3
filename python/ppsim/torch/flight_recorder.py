"""Dumps of PyTorch's flight recorder in the words of a Program: where each rank is, and who waits for whom.

    python -m ppsim.torch.flight_recorder program.json /tmp/nccl_trace_rank_*

PyTorch writes a file for each rank where TORCH_FR_BUFFER_SIZE (TORCH_NCCL_TRACE_BUFFER_SIZE before) is above 0 and
TORCH_NCCL_DUMP_ON_TIMEOUT=1. It records calls of the communication library, by process group; Runtime names the
groups after the communicators of its Program. Needs no torch.
"""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.errors import Error, FileError
from ppsim.execution import Instruction, Plan
from ppsim.explain import explain
from ppsim.files import read

_GROUP_PREFIX = "ppsim "


@dataclass(frozen=True)
class Call:
    """An entry of a dump. number: of the group's calls on the rank, from 0; state: scheduled, started or completed"""

    communicator: int
    number: int
    name: str
    state: str


@dataclass(frozen=True)
class FlightReport:
    """step: in which the slowest rank is, from 1; positions: what each rank waits in, by rank; lines: why"""

    step: int
    positions: dict[int, list[str]]
    lines: list[str]

    def __str__(self) -> str:
        return "\n".join([f"step {self.step}", *self.lines])


class _Plain(pickle.Unpickler):
    """A dump has lists, dictionaries, texts and numbers; a file with anything else could run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a dump has no {module}.{name}")


@checked
def read_dumps(program: _core.Program, paths: Mapping[int, str | os.PathLike[str]]) -> FlightReport:
    """The position of each rank. paths: the dump of each rank; ranks without one are not known.

    Raises FileError for a file that is no dump, Error where no call belongs to the program.
    """
    calls = {rank: _calls(program, path) for rank, path in paths.items()}
    plans = {rank: Plan(program, rank, "nccl") for rank in calls}
    places = {rank: _places(plans[rank], calls[rank]) for rank in calls}
    if not any(places.values()):
        raise Error("no call of these dumps belongs to a process group of the program",
                    expected=f"groups that Runtime made, named {_GROUP_PREFIX}0>1 and so on")
    step = min(max((place[0] for place in found), default=1) for found in places.values())
    states = {rank: _states(plans[rank], places[rank], step) for rank in calls}
    positions = {
        rank: [plans[rank].instructions[index].text for index, state in enumerate(found) if state == 1]
        for rank, found in states.items()
    }
    return FlightReport(step, positions, explain(plans[min(plans)], states))


def _calls(program: _core.Program, path: str | os.PathLike[str]) -> list[Call]:
    names = {f"{_GROUP_PREFIX}{name}": number for number, name in enumerate(program.communicators)}
    result = []
    for entry in _entries(os.fspath(path)):
        group = str(entry.get("process_group", ("", ""))[1])
        if group in names and not str(entry["profiling_name"]).endswith(":coalesced"):
            number = int(entry["op_id"]) - 1 if "op_id" in entry else int(entry["collective_seq_id"]) - 1
            result.append(Call(names[group], number, str(entry["profiling_name"]), str(entry["state"])))
    return result


def _entries(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            dump = json.load(file) if path.endswith(".json") else _Plain(file).load()
        entries = dump["entries"]
        for entry in entries:
            entry["profiling_name"], entry["state"], entry["process_group"]
        return list(entries)
    except OSError as wrong:
        raise FileError(str(wrong), code="io", file=path) from wrong
    except Exception as wrong:
        raise FileError(f"no dump of the flight recorder: {wrong}", code="bad_file", file=path,
                        expected="what PyTorch writes on a time-out") from wrong


#: Step from 1, instruction, state
_Place = tuple[int, int, str]


def _places(plan: Plan, calls: Iterable[Call]) -> list[_Place]:
    """The instruction of each call, behind those with which Runtime opens the groups."""
    lists = _calls_of_a_step(plan)
    warm = {communicator: 0 for communicator in lists}
    for communicator, source, destination in plan.channels():
        warm[communicator] = warm.get(communicator, 0) + (plan.rank in (source, destination))
    for block, stages in enumerate(plan.execution.blocks):
        if len(plan.owners(block)) > 1 and any(plan.is_local(stage) for stage in stages):
            summed = next((a for a in plan.actions() if a.kind == "REDUCE_GRAD" and a.subject == block), None)
            if summed is not None:
                warm[summed.communicator] = warm.get(summed.communicator, 0) + 1
    result = []
    for call in calls:
        number = call.number - warm.get(call.communicator, 0)
        every = lists.get(call.communicator, [])
        if number >= 0 and every:
            result.append((number // len(every) + 1, every[number % len(every)].index, call.state))
    return result


def _calls_of_a_step(plan: Plan) -> dict[int, list[Instruction]]:
    """Instructions by communicator, once for each call that they make."""
    lists: dict[int, list[Instruction]] = {}
    for instruction in plan.instructions:
        for action in instruction.actions:
            if action.communicator >= 0 and len(plan.members[action.communicator]) > 1:
                lists.setdefault(action.communicator, []).append(instruction)
    return lists


def _states(plan: Plan, places: Iterable[_Place], step: int) -> bytes:
    """As Progress has them. What has started needed others to be complete, computation as well."""
    states = bytearray(len(plan.instructions))
    unfinished = {index for number, index, state in places if number == step and state != "completed"}
    for number, index, state in places:
        if number > step or (number == step and state == "completed" and index not in unfinished):
            states[index] = 2
        elif number == step and state == "started":
            states[index] = max(states[index], 1)
    if any(number > step for number, _, _ in places):
        return bytes([2] * len(states))
    for instruction in reversed(plan.instructions):
        if states[instruction.index]:
            for wait in instruction.waits:
                states[wait] = 2
    return _with_waiting(plan, states, places, step)


def _with_waiting(plan: Plan, states: bytearray, places: Iterable[_Place], step: int) -> bytes:
    """A call that is scheduled has started where nothing else keeps it: the library does not say."""
    for number, index, state in places:
        if number == step and state == "scheduled" and not states[index]:
            states[index] = int(all(states[wait] == 2 for wait in plan.instructions[index].waits))
    return bytes(states)


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit code."""
    if len(arguments) < 2:
        print("usage: python -m ppsim.torch.flight_recorder PROGRAM.json DUMP...", file=sys.stderr)
        return 2
    try:
        program = read(arguments[0])
        if not isinstance(program, _core.Program):
            raise Error("a Schedule has no communicators", expected="the Program that ran")
        print(read_dumps(program, {_rank_of(path): path for path in arguments[1:]}))
    except Error as wrong:
        print(f"flight_recorder: {wrong}", file=sys.stderr)
        return 2
    return 0


def _rank_of(path: str) -> int:
    number = re.search(r"(\d+)$", pathlib.Path(path).stem)
    if number is None:
        raise FileError("the name of a dump ends with its rank", code="bad_file", file=path,
                        expected="nccl_trace_rank_3")
    return int(number[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
