"""`python -m ppsim` is the command line."""

import sys

from ppsim._native import _core


def main() -> int:
    """Runs the command line, and returns its exit code. Signals end the process from then on."""
    return _core.run_program(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
