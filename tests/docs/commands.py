"""Runs the commands of the documents and compares what they print.

usage: commands.py REPOSITORY PPSIM [PATTERN...]

Runs the documents that match a pattern, or one of DOCUMENTS, and not one that begins with `!`.

Blocks with lines that begin with `$ ` are sessions: what follows a command is what it prints, with stderr or without. A
line of `...` stands for any lines, `...` within a line for any text; the line that names the transport may be left out.
A command whose output is not shown must succeed, and `$ cat FILE` of a file that is not there makes it. In other blocks, lines
that begin with `ppsim ` are commands that must succeed, unless they have a placeholder such as FILE or `<...>`. The
commands of a document run in one folder, in their order, beside some folders of the repository. Blocks of the
language `python` are programs that must succeed, where the packages of OPTIONAL that they import are installed. `<!-- not run: WHY -->` before a block
leaves it out.
"""

import concurrent.futures
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

DOCUMENTS = ("README.md", "docs/*.md", "docs/*/*.md", "studies/*/README.md")
FENCE = re.compile(r"(?P<skip><!-- not run: [^\n]*-->\n+)?^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<body>.*?)^ *```", re.S | re.M)
#: Folders of the repository that documents name.
BESIDE = ("docs", "examples", "studies", "tests")
LIMIT_S = 300
#: Packages that a machine may lack; a document ends before the first program that needs one.
OPTIONAL = {"jax", "numpy", "ppsim", "torch"}
PYTHON = f"{sys.executable} - <<'END'\n"


class Session:
    """A command, and what its document says that it prints; None: that it succeeds."""

    def __init__(self, line: int, command: str, expected: str | None) -> None:
        self.line, self.command, self.expected = line, command, expected


def sessions_of(text: str) -> list[Session]:
    found = []
    for block in FENCE.finditer(text):
        if block["skip"]:
            continue
        line = text.count("\n", 0, block.start("body")) + 1
        lines = [one.removeprefix(block["indent"]) for one in block["body"].splitlines()]
        if block["language"] == "python":
            found.append(Session(line, PYTHON + "\n".join(lines) + "\nEND", None))
            continue
        found += prompted(lines, line) if any(one.startswith("$ ") for one in lines) else plain(lines, line)
    return found


def prompted(lines: list[str], first: int) -> list[Session]:
    found: list[Session] = []
    for number, line in enumerate(lines):
        if line.startswith("$ "):
            found.append(Session(first + number, line[2:], ""))
        elif found and is_unfinished(found[-1].command):
            found[-1].command += "\n" + line
        elif found:
            found[-1].expected = str(found[-1].expected) + line + "\n"
    for one in found:
        one.expected = one.expected or None
    return found


def is_unfinished(command: str) -> bool:
    """It goes on in the next line, or in a here-document."""
    here = re.search(r"<<(\w+)", command)
    return command.endswith("\\") or (here is not None and command.splitlines()[-1] != here[1])


def plain(lines: list[str], first: int) -> list[Session]:
    """Comments behind commands are none of the shell's: `# such as this`."""
    found: list[Session] = []
    for number, line in enumerate(lines):
        if found and found[-1].command.endswith("\\"):
            found[-1].command += "\n" + line
        elif line.startswith("ppsim "):
            found.append(Session(first + number, line, None))
    return [one for one in found if not re.search(r"<|\b[A-Z]{2,}\b(?!=)", re.sub(r"'[^']*'|\S*=\S*", "", one.command))]


def has_modules(program: str) -> bool:
    imported = set(re.findall(r"^(?:import|from) +(\w+)", program, re.M))
    return all(importlib.util.find_spec(name) for name in imported & OPTIONAL)


def matches(expected: str, found: str) -> bool:
    pattern = "".join(
        "(?:.*\n)*" if line == "..." else ".*".join(map(re.escape, line.rstrip().split("..."))) + " *\n"
        for line in expected.splitlines()
    )
    return re.fullmatch("(?:transport .*\n)?" + pattern, found) is not None


def check(repository: pathlib.Path, document: pathlib.Path, environment: dict[str, str]) -> tuple[int, list[str]]:
    """Runs a document. Returns how many commands ran, and what was wrong."""
    wrong = []
    sessions = sessions_of(document.read_text(encoding="utf-8"))
    missing = [n for n, one in enumerate(sessions) if one.command.startswith(PYTHON) and not has_modules(one.command)]
    sessions = sessions[: missing[0]] if missing else sessions  # what follows may need what it writes
    with tempfile.TemporaryDirectory() as folder:
        for name in BESIDE:
            (pathlib.Path(folder) / name).symlink_to(repository / name)
        for one in sessions:
            problem = run(one, folder, environment)
            if problem:
                wrong.append(f"{document.relative_to(repository)}:{one.line}: {one.command}\n{problem}")
    return len(sessions), wrong


def run(one: Session, folder: str, environment: dict[str, str]) -> str:
    shown = re.fullmatch(r"cat ([\w.-]+)", one.command)
    if shown and one.expected and not (file := pathlib.Path(folder) / shown[1]).exists():
        file.write_text(one.expected, encoding="utf-8")
    command = ["bash", "-c", one.command]
    try:
        ended = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"it did not end within {LIMIT_S} s"
    if one.expected is None:
        return "" if ended.returncode == 0 else f"exit code {ended.returncode}:\n{ended.stderr}"
    every = (ended.stdout, ended.stdout + ended.stderr, ended.stderr + ended.stdout)
    says_nothing = not one.expected.replace("...", "").strip()
    if says_nothing and ended.returncode != 0:
        return f"exit code {ended.returncode}, which nothing shows:\n{ended.stderr}"
    return "" if any(matches(one.expected, found) for found in every) else (
        f"expected\n{one.expected}found\n{ended.stdout}stderr\n{ended.stderr}")


def main(repository: str, ppsim: str, *names: str) -> int:
    root = pathlib.Path(repository).resolve()
    left_out = {path for name in names if name.startswith("!") for path in root.glob(name[1:])}
    patterns = [name for name in names if not name.startswith("!")] or DOCUMENTS
    documents = sorted({path for pattern in patterns for path in root.glob(pattern)} - left_out)
    environment = os.environ | {
        "PATH": f"{pathlib.Path(ppsim).resolve().parent}:{os.environ['PATH']}", "COLUMNS": "80",
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",  # two processes on two processors would poll without a pause
    }
    count, wrong = 0, []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for ran, problems in pool.map(lambda document: check(root, document, environment), documents):
            count, wrong = count + ran, wrong + problems
    for problem in wrong:
        print(problem)
    print(f"{count} commands of {len(documents)} documents, {len(wrong)} of them wrong")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
