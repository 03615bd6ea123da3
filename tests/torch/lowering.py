"""Does PyTorch's own lowering (compute_comms) verify here?"""

import csv
import json
import subprocess

import generators

# PyTorch 2.15 states when its runtime waits for a send or a reduction to be done with. The IR has no such action: a
# SEND is complete when its transfer is, and whoever needs that depends on it.
WAITS = ("WAIT_SEND_F", "WAIT_SEND_B", "WAIT_REDUCE_GRAD")

CASES = (
    ("looped-bfs", (4, 8, 2)),
    ("interleaved-1f1b", (4, 8, 2)),
    ("interleaved-zb", (4, 8, 2)),
    ("zb-v", (4, 8, 2)),
    ("dualpipe-v", (4, 10, 2)),
)


def _drop_waits(path):
    """Rewrites the file without waits; returns how many there were."""
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    kept = [[cell for cell in row if not any(wait in cell for wait in WAITS)] for row in rows]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(kept)
    return sum(map(len, rows)) - sum(map(len, kept))


def _verify(ppsim, path, communicators):
    command = [ppsim, "verify", str(path), "--communicators", communicators, "--json"]
    return subprocess.run(command, capture_output=True, text=True)


def check(ppsim, name, sizes, folder):
    """The verdicts under one communicator a rank and one a directed edge; waits alone are refused by name."""
    path = folder / "lowered.csv"
    generators.write(generators.generate(name, *sizes), path, "compute_comms")
    as_dumped = _verify(ppsim, path, "per-edge")
    waits = _drop_waits(path)
    result = {"waits": waits, "named": waits == 0 or (as_dumped.returncode == 2 and "WAIT_" in as_dumped.stderr)}
    for communicators in ("per-edge", "per-rank"):
        done = _verify(ppsim, path, communicators)
        verdicts = {key: p["verdict"] for key, p in json.loads(done.stdout).get("properties", {}).items()}
        result[communicators] = verdicts or done.stderr.strip()
    result["proved"] = all(
        isinstance(result[c], dict) and set(result[c].values()) == {"proved"} for c in ("per-edge", "per-rank")
    )
    return result
