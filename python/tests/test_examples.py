"""Every example runs as it stands, and so does what the documentation shows."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tomllib

import pytest

import ppsim

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "python").glob("*.py"))
WITH_JAX = sorted((ROOT / "examples" / "jax").glob("*.py"))
#: It needs PyTorch, and torchrun starts it.
ON_PROCESSES = "choose_and_run"


def run(*arguments: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=folder, env=dict(os.environ), timeout=540
    )


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.stem != ON_PROCESSES], ids=lambda path: path.stem)
def test_examples_run(example, tmp_path):
    done = run(str(example), folder=tmp_path)
    assert done.stderr == ""
    assert done.stdout
    assert done.returncode == (1 if example.stem == "check_before_training" else 0)


def test_choose_and_run(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is missing; `scripts/test --torch` runs this")
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4")
    os.environ["OMP_NUM_THREADS"] = "1"
    done = run(*launch, str(ROOT / "examples/python" / f"{ON_PROCESSES}.py"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("simulated") >= 4 and "measured" in done.stdout and "loss" in done.stdout
    assert '"overlay":true' in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("example", WITH_JAX, ids=lambda path: f"jax-{path.stem}")
def test_examples_with_jax_run(example, tmp_path):
    pytest.importorskip("jax", reason="JAX is missing; `scripts/test --jax` runs this")
    done = run(str(example), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "False" not in done.stdout
    if example.stem == "choose_a_schedule":
        assert done.stdout.count("simulated") >= 5 and "measured" in done.stdout
        assert '"overlay":true' in (tmp_path / "report.html").read_text()


def test_the_example_says_what_hangs_and_what_mends_it(tmp_path):
    done = run(str(ROOT / "examples/python/check_before_training.py"), folder=tmp_path)
    assert "rank 0: 0SEND_F1 waits for 1RECV_F1" in done.stdout
    assert "move rank" in done.stdout


def test_the_example_draws_three_schedules(tmp_path):
    done = run(str(ROOT / "examples/python/new_schedule.py"), "three.svg", folder=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "three.svg").read_text().count("<svg") == 4
    assert [line.split()[0] for line in done.stdout.splitlines()[2:]] == ["grouped-v", "zb-v", "dualpipe-v"]


@pytest.mark.parametrize("page", ["python", "jax"])
def test_the_guides_run_as_they_stand(page, tmp_path):
    if page == "jax":
        pytest.importorskip("jax", reason="JAX is missing; `scripts/test --jax` runs this")
    page = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        (tmp_path / f"block{number}.py").write_text(block, encoding="utf-8")
        done = run(f"block{number}.py", folder=tmp_path)
        assert done.returncode == 0, done.stderr


def test_the_command_line_is_the_same_program(tmp_path):
    done = run("-m", "ppsim", "list", "schedules", folder=tmp_path)
    assert done.returncode == 0 and "zb-v" in done.stdout
    wrong = run("-m", "ppsim", "simulate", "1f1b", "--json", folder=tmp_path)
    assert wrong.returncode == 2 and '"error"' in wrong.stdout


@pytest.mark.parametrize("module", ["ppsim", "ppsim.torch"])
def test_a_reader_that_leaves_ends_the_command_line_quietly(module, tmp_path):
    words = ["list", "schedules"] if module == "ppsim" else [str(ROOT / "no-such.csv")]
    command = [sys.executable, "-m", module, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as left:
        left.stdout.close()
        assert left.stderr.read() == b""
        assert left.wait() == -signal.SIGPIPE


def test_importing_needs_neither_numpy_nor_torch_nor_jax(tmp_path):
    check = "import ppsim, ppsim.jax, sys; assert not {'jax', 'numpy', 'torch', 'z3'} & set(sys.modules), sys.modules"
    assert run("-c", check, folder=tmp_path).returncode == 0


def test_the_wheel_has_the_version_of_the_libraries():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == ppsim.__version__
