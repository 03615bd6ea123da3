"""How slow may the network be until zero bubbles no longer pay? Many simulations at once, as rows of a table.

    python sweep.py [points]
"""

import sys
from typing import Any

import ppsim


def sweep(points: int) -> list[dict[str, Any]]:
    names = ("1f1b", "zb-h1", "zb-h2")
    programs = {name: ppsim.lower(ppsim.generate(name, ranks=8, microbatches=32)) for name in names}
    transfers = [i / points for i in range(points)]
    cases = [(name, transfer) for name in names for transfer in transfers]
    times = ppsim.simulate_many(
        (programs[name], ppsim.Costs.unit(F=1, B=2, I=1, W=1, c=transfer)) for name, transfer in cases
    )
    return [
        {"schedule": name, "transfer": transfer, "step_ms": time.makespan_ns / 1e6, "bubble": time.bubble_fraction}
        for (name, transfer), time in zip(cases, times, strict=True)
    ]


def main(points: int = 20) -> None:
    rows = sweep(points)
    try:
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        for row in rows:
            print(f"{row['schedule']:8} {row['transfer']:.2f} {row['step_ms']:8.2f} {row['bubble']:7.2%}")
    else:
        print(pandas.DataFrame(rows).pivot(index="transfer", columns="schedule", values="step_ms"))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
