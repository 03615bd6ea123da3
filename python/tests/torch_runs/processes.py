"""Starts the processes of a run, as torchrun does, and waits for what each of them says.

As a program: processes.py MODULE:FUNCTION ARGUMENTS runs one of them.
"""

import importlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

FOLDER = pathlib.Path(__file__).parents[1]
MOST_S = 540


@dataclass
class Ended:
    """A process that has ended. value: what the function returned, None where it raised."""

    code: int
    value: Any
    error: str
    seconds: float


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start(function: str, ranks: int, folder: pathlib.Path, *arguments: Any) -> list[subprocess.Popen[str]]:
    port = free_port()
    processes = []
    for rank in range(ranks):
        env = os.environ | {
            "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
        }
        said = str(folder / f"rank{rank}")
        command = [sys.executable, "-m", "torch_runs.processes", function, said, json.dumps(arguments)]
        processes.append(subprocess.Popen(command, env=env, cwd=FOLDER, stderr=subprocess.PIPE, text=True))
    return processes


def ends(processes: list[subprocess.Popen[str]], folder: pathlib.Path) -> list[Ended]:
    """Waits for all of them; kills those that are late."""
    begin, result = time.monotonic(), []
    for rank, process in enumerate(processes):
        try:
            _, error = process.communicate(timeout=max(1.0, MOST_S - (time.monotonic() - begin)))
        except subprocess.TimeoutExpired:
            process.kill()
            _, error = process.communicate()
            error += f"\nkilled after {MOST_S} s"
        said = folder / f"rank{rank}"
        value = json.loads(said.read_text()) if said.exists() else None
        result.append(Ended(process.returncode, value, error, time.monotonic() - begin))
    return result


def run(function: str, ranks: int, folder: pathlib.Path, *arguments: Any) -> list[Ended]:
    return ends(start(function, ranks, folder, *arguments), folder)


def values(function: str, ranks: int, folder: pathlib.Path, *arguments: Any) -> list[Any]:
    """Returns the result of each rank; every rank must have one."""
    done = run(function, ranks, folder, *arguments)
    for rank, one in enumerate(done):
        assert one.code == 0, f"rank {rank} ended with {one.code}:\n{one.error}"
    return [one.value for one in done]


def main(function: str, path: str, arguments: str) -> None:
    module, name = function.split(":")
    value = getattr(importlib.import_module(f"torch_runs.{module}"), name)(*json.loads(arguments))
    pathlib.Path(path).write_text(json.dumps(value))


if __name__ == "__main__":
    main(*sys.argv[1:])
