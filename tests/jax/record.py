"""Writes the results of pytest to a file, with the versions: record.py JUNIT_XML RESULTS_JSON."""

import collections
import importlib.metadata
import json
import pathlib
import platform
import sys
import xml.etree.ElementTree as xml


def outcome(case: xml.Element) -> str:
    kinds = {child.tag for child in case}
    return "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"


def main(junit: str, results: str) -> None:
    tests = collections.defaultdict(list)
    counts = collections.Counter()
    for case in xml.parse(junit).getroot().iter("testcase"):
        found = outcome(case)
        counts[found] += 1
        name = case.get("name") or ""
        tests[(case.get("classname") or "").rsplit(".", 1)[-1]].append(name if found == "passed" else f"{name}: {found}")
    versions = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy")}
    record = {
        "versions": {"python": platform.python_version(), **versions},
        "counts": dict(sorted(counts.items())),
        "tests": {file: sorted(names) for file, names in sorted(tests.items())},
    }
    pathlib.Path(results).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
