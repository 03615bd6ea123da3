"""Writes the pages of the site that are made and not written: pages.py PPSIM SOURCE.

A gallery of all schedules, lists of decisions and studies, the reference of the Python module, and the way to that of C++.
"""

import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys

#: The shape that the gallery draws; schedules that need other numbers say which.
RANKS, MICROBATCHES = 4, 8
UNIT = "F=1,I=1,W=1"
OTHER = {
    "terapipe": ["--microbatches", "2", "--slices", "4"],
    "seq-1f1b": ["--microbatches", "4", "--slices", "2"],
}


def first_heading(page: pathlib.Path) -> str:
    found = re.search(r"^# +(.*)$", page.read_text(encoding="utf-8"), re.M)
    return found[1] if found else page.stem


def write_list(folder: pathlib.Path, title: str, pages: list[pathlib.Path]) -> None:
    names = [str(page.relative_to(folder).with_suffix("")) for page in pages]
    lines = [f"# {title}", "", "```{toctree}", ":maxdepth: 1", *names, "```", ""]
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")


def mend_links(page: pathlib.Path) -> None:
    """A folder is its list of pages; what the site does not have, such as sources, is named and not linked."""

    def mended(link: re.Match[str]) -> str:
        path = link[2].partition("#")[0]
        target = page.parent / path
        if not path or re.match(r"[a-z]+:", path) or target.is_file():
            return link[0]
        return f"[{link[1]}]({path.rstrip('/')}/index.md)" if (target / "index.md").is_file() else link[1]

    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", mended, text), encoding="utf-8")


def write_gallery(ppsim: str, folder: pathlib.Path) -> None:
    said = subprocess.run([ppsim, "list", "schedules", "--json"], check=True, capture_output=True, text=True).stdout
    lines = ["# Gallery", "", f"Every schedule on {RANKS} ranks, with costs {UNIT}; a bubble is the idle share of the step.", ""]
    for schedule in json.loads(said)["schedules"]:
        name = schedule["name"]
        options = [name, "--ranks", str(RANKS), *OTHER.get(name, ["--microbatches", str(MICROBATCHES)])]
        options += ["--unit", UNIT]
        drawn = subprocess.run([ppsim, "show", *options, "-o", str(folder / f"{name}.svg")], check=False, capture_output=True)
        told = subprocess.run([ppsim, "simulate", *options, "--json"], check=False, capture_output=True, text=True)
        if drawn.returncode or told.returncode:
            sys.exit(f"pages: {name} cannot be drawn: {drawn.stderr.decode()}{told.stderr}")
        bubble = json.loads(told.stdout)["bubble_fraction"]
        lines += [f"## {name}", "", f"![{name}]({name}.svg)", "", f"bubble {100 * bubble:.1f} % · `ppsim show {' '.join(options)}`", ""]
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")


def write_python(folder: pathlib.Path) -> None:
    lines = ["# The Python module, call by call", "", "[The guide](../docs/python.md) has examples.", ""]
    if importlib.util.find_spec("ppsim") is None:
        lines += ["This site was built without the module.", ""]
    else:
        for module, options in (("ppsim", ["   :imported-members:"]), ("ppsim.testing", [])):
            lines += [f"## {module}", "", "```{eval-rst}", f".. automodule:: {module}", "   :members:", *options, "```", ""]
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")


def write_cpp(page: pathlib.Path) -> None:
    """Writes the links to Doxygen's pages, which scripts/site puts into cpp/ beside the page."""
    lines = ["# The C++ libraries, call by call", "", "[Using the libraries](docs/library.md) has an example, [the map](docs/architecture.md) says what is where.", ""]
    if shutil.which("doxygen") is None:
        lines += ["This site was built without Doxygen.", ""]
    else:
        for target, text in (("cpp/files.html", "Headers"), ("cpp/namespaces.html", "Namespaces"), ("cpp/annotated.html", "Types")):
            lines += [f'* <a href="{target}">{text}</a>']
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(ppsim: str, source: str) -> None:
    root = pathlib.Path(source)
    write_list(root / "docs/decisions", "Decisions", sorted(root.glob("docs/decisions/[0-9]*.md")))
    write_list(root / "studies", "Studies", sorted(root.glob("studies/*/README.md")))
    write_gallery(ppsim, root / "gallery")
    write_python(root / "python")
    write_cpp(root / "cpp.md")
    overview = root / "README.md"  # on the site, the name alone is the front page
    overview.write_text(overview.read_text(encoding="utf-8").replace("# ppsim\n", "# Overview\n", 1), encoding="utf-8")
    for page in root.rglob("*.md"):
        mend_links(page)


if __name__ == "__main__":
    main(*sys.argv[1:])
