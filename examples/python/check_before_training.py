"""Proves a CSV of PyTorch's before a cluster is booked for it, and mends it where it hangs.

    python check_before_training.py schedule.csv
"""

import pathlib
import sys

import ppsim
import ppsim.torch

EXAMPLE = pathlib.Path(__file__).parent / "deferred_receives.csv"


def main(path: str) -> int:
    try:
        verdict = ppsim.torch.check(path, communicators="per-rank")
    except ppsim.Deadlock as hang:
        if not hang.counterexample:  # the rows wait for each other whatever transfers there are
            print(hang)
            return 1
        print(f"{path} can hang:")
        for wait in hang.counterexample["cycle"]:
            print(f"  rank {wait['rank']}: {wait['action']} waits for {wait['waits_for']['action']}")
    except ppsim.Error as wrong:
        print(wrong)
        return 1
    else:
        print(f"{path} is proved for {verdict.transport}")
        return 0

    program = ppsim.torch.program(path, communicators="per-rank")
    repair = ppsim.repair(program, transport="nccl", changes=["move"])
    print("mended by:", *repair.changes or repair.why, sep="\n  ")
    if repair.program is not None:
        ppsim.check(repair.program, transport="nccl")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else str(EXAMPLE)))
