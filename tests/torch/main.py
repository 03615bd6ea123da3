"""The tests against PyTorch: main.py PPSIM RESULTS runs them all and writes what they found as JSON.

scripts/test --torch makes the environment for it.
"""

import json
import os
import platform
import sys
import tempfile
from pathlib import Path

import torch

import equality
import generators
import lowering
import runtime


def _processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def _versions(ppsim):
    return {
        "ppsim": generators.version_of(ppsim),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.freedesktop_os_release()["PRETTY_NAME"],
        "processor": f"{_processor()}, {os.cpu_count()} cores",
    }


def _say(good, text):
    print(f"{'ok    ' if good else 'FAILED'}  {text}", flush=True)
    return good


def _check_equality(ppsim, folder):
    found, good = {}, True
    for name in generators.GENERATORS:
        found[name] = result = equality.check(ppsim, name, folder)
        text = f"order of {name}: {result['equal']} of {result['compared']} equal, {sum(result['refused'].values())} refused"
        good &= _say(result["equal"] == result["compared"] > 0, text)
        for difference in result["different"][:5]:
            print("        " + difference)
    return found, good


def _check_runtime(ppsim):
    found, good = [], True
    for run in runtime.RUNS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                result = runtime.check(ppsim, run, Path(folder))
            except Exception as error:  # whatever stops a process of PyTorch fails the case, not the others
                result = {"equal": False, "error": str(error).strip().splitlines()[-1]}
        found.append(vars(run) | result)
        shape = f"p={run.ranks} n={run.microbatches} v={run.chunks}"
        good &= _say(result["equal"], f"gradients of {run.schedule} {shape} under PyTorch's runtime: {result}")
    return found, good


def _check_lowering(ppsim, folder):
    found, good = {}, True
    for name, sizes in lowering.CASES:
        found[name] = result = lowering.check(ppsim, name, sizes, folder)
        good &= _say(result["proved"] and result["written_back"], f"PyTorch's lowering of {name} verifies")
        if not (result["proved"] and result["written_back"]):
            print(f"        {result}")
    return found, good


def main(ppsim, results):
    with tempfile.TemporaryDirectory() as name:
        orders, orders_good = _check_equality(ppsim, Path(name))
        lowered, lowered_good = _check_lowering(ppsim, Path(name))
    gradients, gradients_good = _check_runtime(ppsim)
    found = {"versions": _versions(ppsim), "orders": orders, "gradients": gradients, "lowering": lowered}
    Path(results).write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {results}")
    return 0 if orders_good and lowered_good and gradients_good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
