"""Are the schedules in the tests of PyTorch and torchtitan read, written back, and judged as this PyTorch runs them?

artifacts.py PPSIM RESULTS FOLDER... takes every CSV in the folders, such as `test/distributed/pipelining/artifacts` of a
checkout of PyTorch. Each is verified for the PyTorch that runs this, or for `legacy` where it has the old letters, and
converted to its own alphabet, which has to give the same cells. What PyTorch loads it also executes, on one process a
row with gloo, and gradients are compared with those of the plain model.
"""

import csv
import json
import re
import sys
import tempfile
from pathlib import Path

import torch
import torch.multiprocessing as processes

import targets

TRANSFERS = re.compile(r"SEND|RECV")


def _rows(path):
    with open(path, newline="") as file:
        return [[cell.strip() for cell in row] for row in csv.reader(file)]


def _dialect(text):
    if "WAIT_" in text:
        return "torch-2.15"
    is_old = "BW" in text or ("W" in text and not re.search(r"\dI\d", text))
    return "legacy" if is_old else "torch"


def _case(path):
    text = path.read_text()
    microbatches = 1 + max(map(int, re.findall(r"F(\d+)", text)))
    return targets.Case(f"{path.parent.name}/{path.stem}", "artifact", path, bool(TRANSFERS.search(text)), microbatches=microbatches)


def _keeps_its_cells(ppsim, path, folder, dialect):
    back = folder / "back.csv"
    writes = ["--for", "legacy"] if dialect == "legacy" else []
    targets.ppsim_says(ppsim, "convert", path, back, "--dialect", dialect, *writes)
    same = back.exists() and _rows(back) == _rows(path)
    back.unlink(missing_ok=True)
    return same


def _verdict(ppsim, path, target):
    done = targets.ppsim_says(ppsim, "verify", path, "--for", target)
    return "proved" if done.returncode == 0 else (done.stderr or done.stdout).strip().splitlines()[0].split(": ", 1)[-1]


def _loads(case):
    """The error with which this PyTorch refuses the file; the stages of a rank stand in for the real ones."""
    stages = [targets.stages_of(row) for row in case.rows]
    count, ranks = sum(map(len, stages)), len(stages)
    try:
        targets.loaded(
            [targets.stand_in(stage, count, ranks) for stage in stages[0]], case.path, case.microbatches, case.lowered
        )
    except Exception as error:  # whatever PyTorch says of a file is its answer
        return type(error).__name__
    return "loads"


def _execute(cases, folder):
    for number, case in enumerate(cases):
        place = folder / str(number)
        place.mkdir()
        ranks = len(case.rows)
        processes.spawn(targets.run_rank, args=([case], place, ranks), nprocs=ranks)
        case.found = targets.compared(case, 0, place, ranks)


def _checked(ppsim, case, folder):
    dialect = _dialect(case.path.read_text())
    target = "legacy" if dialect == "legacy" else targets.TARGET
    return {
        "file": case.name,
        "alphabet": dialect,
        "written_back": _keeps_its_cells(ppsim, case.path, folder, dialect),
        "target": target,
        "verdict": _verdict(ppsim, case.path, target),
        "pytorch": None if dialect == "legacy" else _loads(case),
    }


def _is_as_said(result):
    if not result["written_back"]:
        return False
    if result["pytorch"] is None:
        return result["verdict"] == "proved"
    runs_right = result["pytorch"] == "loads" and result["equal"]
    return runs_right == (result["verdict"] == "proved")


def main(ppsim, results, *folders):
    cases = [_case(path) for folder in folders for path in sorted(Path(folder).rglob("*.csv"))]
    if not cases:
        print(f"artifacts: no CSV in {' '.join(folders)}")
        return 2
    with tempfile.TemporaryDirectory() as place:
        found = [_checked(ppsim, case, Path(place)) for case in cases]
        runs = [(case, result) for case, result in zip(cases, found, strict=True) if result["pytorch"] == "loads"]
        _execute([case for case, _ in runs], Path(place))
    for case, result in runs:
        result["equal"] = case.found["equal"]
    Path(results).write_text(json.dumps({"torch": torch.__version__, "files": found}, indent=1) + "\n")
    wrong = [result["file"] for result in found if not _is_as_said(result)]
    print(f"{len(found)} files, " + (f"NOT as said: {wrong}" if wrong else "all as said"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
