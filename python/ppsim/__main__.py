"""`python -m ppsim` is the command line."""

import os
import signal
import sys

from ppsim._native import _core


def main() -> int:
    """Runs the command line, and returns its exit code. Signals end the process from then on."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # where nobody reads any more, as the command itself
    os.environ.setdefault("PPSIM_PYTHON", sys.executable)  # --plugin FILE.py asks a Python with this module
    return _core.run_program(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
