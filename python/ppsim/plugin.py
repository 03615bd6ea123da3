"""What `ppsim --plugin FILE.py` asks of a Python file that calls `ppsim.register`.

`python -m ppsim.plugin FILE.py` prints a line for each schedule that the file registers, its name, a tab and the first line of its
docstring, between BEGIN and END; `python -m ppsim.plugin FILE.py NAME ranks=4 microbatches=8 ...` prints the schedule as native JSON. What is wrong is
the one line that is printed, with exit code 1.
"""

from __future__ import annotations

import contextlib
import runpy
import sys

from ppsim import registry

# Around the answer: Python's warnings and what the file does at its exit are on the same stream.
BEGIN, END = "<ppsim>", "</ppsim>"
COUNTS = ("ranks", "microbatches", "chunks", "slices")


def summary_of(name: str) -> str:
    own = registry.registered(name)
    text = (own.function.__doc__ or "") if own is not None else ""
    return text.strip().partition("\n")[0].replace("\t", " ")


def generated(name: str, words: list[str]) -> str:
    counts: dict[str, int] = {}
    settings: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key in COUNTS:
            counts[key] = int(value)
        else:
            settings[key] = value
    return registry.generate(name, **counts, **settings).to_json()  # type: ignore[arg-type]


def main(arguments: list[str]) -> int:
    """Runs the file, and prints what it is asked for."""
    published = set(registry.schedules())
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what the file prints is no answer
            runpy.run_path(arguments[0])
            own = [name for name in registry.schedules() if name not in published]
            if len(arguments) == 1:
                text = "".join(f"{name}\t{summary_of(name)}\n" for name in own)
            else:
                text = generated(arguments[1], arguments[2:])
    except Exception as wrong:  # whatever a file of a user raises
        print(f"{type(wrong).__name__}: {wrong}".replace("\n", " "))
        return 1
    print(f"{BEGIN}\n{text}{END}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
