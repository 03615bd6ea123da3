"""`python -m ppsim.torch FILE...` proves CSV files and job configs of torchtitan as a release of PyTorch runs them."""

from __future__ import annotations

import argparse
import signal
import sys

from ppsim.errors import CheckFailed, DoesNotFit, Error, Unknown
from ppsim.targets import targets
from ppsim.torch.checks import check
from ppsim.torch.jobs import is_job


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code that `ppsim verify` would have; of several files the first of 2, 4, 3, 5."""
    parser = argparse.ArgumentParser(prog="python -m ppsim.torch", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="a CSV, or a job config (.toml)")
    parser.add_argument("--for", dest="target", choices=targets(), default=targets()[0], help="a release of PyTorch")
    parser.add_argument("--communicators", help="per-pair, per-rank or per-edge, of those that the release has")
    parser.add_argument("--layers", type=int, help="of the model, for a job with pipeline_parallel_layers_per_stage")
    parser.add_argument("--annotations", choices=["github"], help="print what is wrong for GitHub, too")
    options = vars(parser.parse_args(arguments))
    files = options.pop("files")
    codes = {_checked(file, options) for file in files}
    return next((code for code in (2, 4, 3, 5) if code in codes), 0)


def _checked(file: str, options: dict[str, object]) -> int:
    try:
        of_jobs = {} if is_job(file) else {"layers": None}
        print(f"{file} is safe\n{check(file, **options | of_jobs).report}")  # type: ignore[arg-type]
    except DoesNotFit as wrong:
        return _say(file, wrong, 3)
    except (CheckFailed, Unknown) as wrong:
        return _say(file, wrong, 5 if isinstance(wrong, Unknown) else 4)
    except Error as wrong:
        return _say(file, wrong, 4 if wrong.code == "refused" else 2)
    return 0


def _say(file: str, wrong: Error, code: int) -> int:
    print(f"{file} is not safe\n{wrong}")
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly where nobody reads any more
    sys.exit(main())
