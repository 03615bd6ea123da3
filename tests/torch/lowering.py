"""Does PyTorch's own lowering (compute_comms) verify here?"""

import filecmp
import json
import subprocess

import generators

CASES = (
    ("looped-bfs", (4, 8, 2)),
    ("interleaved-1f1b", (4, 8, 2)),
    ("interleaved-zb", (4, 8, 2)),
    ("zb-v", (4, 8, 2)),
    ("dualpipe-v", (4, 10, 2)),
)


def _count_waits(path):
    return path.read_text().count("WAIT_")


def _written_back(ppsim, path):
    """PyTorch's file through ppsim's reader and writer is the same to the byte, waits included where it has any."""
    back = path.with_name("back.csv")
    dialect = "torch-2.15" if _count_waits(path) else "torch"
    subprocess.run([ppsim, "convert", str(path), str(back), "--dialect", dialect], check=True)
    return filecmp.cmp(path, back, shallow=False)


def _verify(ppsim, path, communicators):
    command = [ppsim, "verify", str(path), "--communicators", communicators, "--json"]
    return subprocess.run(command, capture_output=True, text=True)


def check(ppsim, name, sizes, folder):
    """The verdicts under one communicator a rank and one a directed edge, the waits of PyTorch 2.15 included."""
    path = folder / "lowered.csv"
    generators.write(generators.generate(name, *sizes), path, "compute_comms")
    result = {"waits": _count_waits(path), "written_back": _written_back(ppsim, path)}
    for communicators in ("per-edge", "per-rank"):
        done = _verify(ppsim, path, communicators)
        verdicts = {key: p["verdict"] for key, p in json.loads(done.stdout).get("properties", {}).items()}
        result[communicators] = verdicts or done.stderr.strip()
    result["proved"] = all(
        isinstance(result[c], dict) and set(result[c].values()) == {"proved"} for c in ("per-edge", "per-rank")
    )
    return result
