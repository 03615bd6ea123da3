"""Job configs of torchtitan, and annotations."""

import os
import pathlib
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import ppsim
import ppsim.torch
from ppsim.annotations import github
from ppsim.torch.jobs import read_job

DATA = pathlib.Path(__file__).parents[2] / "tests" / "data"


def job(
    training: dict[str, Any] | None = None, compile: dict[str, Any] | None = None, **parallelism: Any
) -> dict[str, Any]:
    """A config; the keys of its pipeline without `pipeline_parallel_`."""
    names = {key: key if key.startswith("module_") else f"pipeline_parallel_{key}" for key in parallelism}
    keys = {names[key]: value for key, value in parallelism.items()}
    return {"training": training or {}, "parallelism": keys, "compile": compile or {}}


def csv_of(name: str, folder: pathlib.Path, **parameters: Any) -> str:
    path = folder / f"{name}.csv"
    path.write_text(ppsim.generate(name, **parameters).to_csv())
    return str(path)


@pytest.mark.parametrize(
    "config, pipeline",
    [
        (job(degree=4), ("1F1B", 4, 4, 8)),
        (job(degree=4, schedule="gpipe", microbatch_size=4), ("GPipe", 4, 4, 2)),
        (job(degree=4, schedule="Interleaved1F1B", training={"local_batch_size": 16}), ("Interleaved1F1B", 4, 8, 16)),
        (job(degree=2, schedule="LoopedBFS", module_fqns_per_model_part=[["x"]] * 6), ("LoopedBFS", 2, 6, 8)),
        (job(degree=4, schedule="InterleavedZeroBubble"), ("InterleavedZeroBubble", 4, 8, 8)),
        (job(degree=4, schedule="ZBVZeroBubble"), ("ZBVZeroBubble", 4, 8, 8)),
        (job(degree=4, schedule="DualPipeV"), ("DualPipeV", 4, 8, 8)),
        (job(degree=4, schedule="Interleaved1F1B", layers_per_stage=2), ("Interleaved1F1B", 4, 12, 8)),
    ],
)
def test_a_job_means_a_pipeline_that_is_proved(config, pipeline):
    found = read_job(config, layers=22)
    assert (found.schedule, found.ranks, found.stages, found.microbatches) == pipeline
    assert found.problems == () and found.checked().stages == pipeline[2]
    verdict = ppsim.torch.check(config, layers=22)
    assert verdict.ok and verdict.about == f"{found}, for torch-2.15"
    assert verdict.report.startswith(str(found))
    assert ppsim.Verdict.from_json(verdict.to_json()).about == verdict.about


@pytest.mark.parametrize(
    "config, wrong",
    [
        (job(degree=1), "no pipeline"),
        (job(degree=4, schedule="ZBVZeroBuble"), "no such schedule.*expected ZBVZeroBubble"),
        (job(degree=4, microbatch_size=3), "not a multiple.*expected 6 or 9"),
        (job(degree=4, microbatch_size=16), "not a multiple.*expected 16.$"),
        (job(degree=4, microbatch_size=0), "out of range"),
        (job(degree=4, training={"local_batch_size": 2}), "1F1B refuses.*found 2, expected 4 or more"),
        (job(degree=4, schedule="DualPipeV", training={"local_batch_size": 4}), "expected 8 or more"),
        (job(degree=4, schedule="Interleaved1F1B", training={"local_batch_size": 9}), "the 2 rounds"),
        (job(degree=4, module_fqns_per_model_part=[["x"]] * 8), "found 8 stages, expected 4"),
        (job(degree=4, schedule="LoopedBFS", module_fqns_per_model_part=[["x"]] * 6), "multiple of 4"),
        (job(degree=2, schedule="ZBVZeroBubble", module_fqns_per_model_part=[["x"]] * 6), "expected 4"),
        (job(degree=4, schedule="Interleaved1F1B", layers_per_stage=2), "layers="),
        (job(degree=4, schedule="PipelineScheduleMulti"), "no order of its own"),
        (job(degree=4, schedule="ZBVZeroBubble", compile={"enable": True}), "split backward"),
        (job(degree=4, schedule_csv="missing.csv"), "missing.csv"),
        (job(degree=4, microbatchsize=2), "no such key.*expected pipeline_parallel_microbatch_size"),
        (job(degree=4, split_points=["layers.4"]), "no such key.*expected module_fqns_per_model_part"),
        (job(degree=4, training={"batch_size": 4}), "no such key.*expected local_batch_size"),
        (job(degree=4, scheduel="GPipe"), "no such key.*scheduel, expected pipeline_parallel_schedule"),
        (job(degree=4, number=1), "no such key.*expected pipeline_parallel_degree, .*_csv, "),
        (job(degree=4, module_fqn_per_model_part=[["x"]] * 4), "no such key.*expected module_fqns_per_model_part"),
        (job(degree=4, training={"local_batchsize": 4}), "no such key.*expected local_batch_size"),
        (job(degree=4, compile={"enabled": True}), "no such key.*expected enable"),
        (job(degree="4"), "degree is of another type .found '4' of type str, expected a whole number from 1 on"),
        (job(degree=4.0), "another type .found 4.0 of type float"),
        (job(degree=True), "another type .found True of type bool"),
        (job(degree=4, schedule=1), "another type.*expected the name of a schedule"),
        (job(degree=4, schedule_csv=1), "another type.*expected a path"),
        (job(degree=4, compile={"enable": "no"}), "compile.enable is of another type.*expected true or false"),
        (job(degree=4, compile={"enable": True, "components": "model"}), "another type.*expected a list of names"),
        (job(degree=4, schedule="LoopedBFS", module_fqns_per_model_part="abcdefgh"), "another type.*a list of names for"),
        (job(degree=4, schedule="LoopedBFS", module_fqns_per_model_part=list("abcdefgh")), "another type"),
        ({"parallelism": 4}, "parallelism is of another type.*expected a table"),
        ({"parallelism": {"pipeline_parallel_degree": 4}, "training": [8]}, "training is of another type"),
    ],
)
def test_what_torchtitan_would_refuse_is_said(config, wrong):
    with pytest.raises(ppsim.JobError, match=wrong) as refused:
        ppsim.torch.check(config)
    assert refused.value.code == "refused" and len(refused.value.problems) == 1


@pytest.mark.parametrize(
    "degrees, wrong",
    [
        ((6, 1, 2, 1), "found 6, 1 x 1 x 2, expected a divisor of 2"),
        ((6, 3, 2, 1), ""),
        ((6, -1, 1, 1), ""),
        ((4, 1, 1, 4), ""),
        ((4, 2, 1, 1), "found 4, 2 x 1 x 1"),
        ((0, 2, 1, 1), "expert_parallel_degree is out of range"),
    ],
)
def test_experts_are_spread_over_shards_of_data(degrees, wrong):
    names = ("expert_parallel", "data_parallel_shard", "tensor_parallel", "context_parallel")
    config = job(degree=4)
    config["parallelism"] |= {f"{name}_degree": degree for name, degree in zip(names, degrees, strict=True)}
    if not wrong:
        assert ppsim.torch.check(config).ok
        return
    with pytest.raises(ppsim.JobError, match=wrong) as refused:
        ppsim.torch.check(config)
    assert len(refused.value.problems) == 1


def test_compiling_the_loss_alone_goes_with_a_split_backward():
    config = job(degree=4, schedule="ZBVZeroBubble", compile={"enable": True, "components": ["loss"]})
    assert ppsim.torch.check(config).ok
    assert ppsim.torch.check(job(degree=4, compile={"enable": True})).ok


def test_keys_of_other_releases_are_left_alone():
    assert ppsim.torch.check(job(degree=4, expert_parallel_overlap=True)).ok


def test_a_model_has_layers():
    for layers in (0, "30", True):
        with pytest.raises(ppsim.Error, match="a model has layers .found 0|layers is of another type .found ('30'|True)"):
            ppsim.torch.check(job(degree=4), layers=layers)


def test_torchtitan_runs_on_pytorch():
    for target in ("jaxpp-0.9.2", "torch-9"):
        with pytest.raises(ppsim.Error, match=f"runs on PyTorch .found {target}, expected torch-2.15, torch-2.14, leg"):
            ppsim.torch.check(job(degree=4), target=target)


def test_config_objects_are_taken():
    config = SimpleNamespace(
        training=SimpleNamespace(local_batch_size=12),
        parallelism=SimpleNamespace(
            pipeline_parallel_degree=2,
            pipeline_parallel_schedule="1F1B",
            pipeline_parallel_schedule_csv="",
            pipeline_parallel_microbatch_size=2,
        ),
        compile=SimpleNamespace(enable=False, components=["model"]),
    )
    assert str(read_job(config)) == "the job: 1F1B, 2 ranks, 2 stages, 6 microbatches"


def test_the_order_of_a_csv_is_held_against_the_settings(tmp_path):
    csv = csv_of("zb-v", tmp_path, ranks=2, microbatches=4)
    settings = dict(degree=2, schedule_csv=csv, training={"local_batch_size": 4})
    verdict = ppsim.torch.check(job(schedule="ZBVZeroBubble", **settings))
    assert "zb-v.csv on the stages of ZBVZeroBubble" in verdict.about
    for schedule, wrong in (("Interleaved1F1B", "on other ranks.*ZBVZeroBubble for a V"), ("1F1B", "other stages")):
        with pytest.raises(ppsim.JobError, match=wrong):
            ppsim.torch.check(job(schedule=schedule, **settings))
    with pytest.raises(ppsim.JobError, match="other microbatches.*8, the default / 1 = 8, expected 4 for its 4"):
        ppsim.torch.check(job(degree=2, schedule="ZBVZeroBubble", schedule_csv=csv))
    with pytest.raises(ppsim.JobError) as several:
        ppsim.torch.check(job(degree=4, schedule="ZBVZeroBubble", schedule_csv=csv))
    assert [problem.message for problem in several.value.problems] == [
        "the CSV is for other ranks",
        "the CSV is for other microbatches",
        "the CSV has other stages",
    ]


def test_a_csv_with_transfers_is_none_for_torchtitan(tmp_path):
    order = ppsim.generate("zb-v", ranks=2, microbatches=8)
    with_waits, without = tmp_path / "waits.csv", tmp_path / "lowered.csv"
    ppsim.write(ppsim.lower(order, target="torch-2.15"), with_waits, target="torch-2.15")
    ppsim.write(ppsim.lower(order), without)
    for csv in (with_waits, without):
        with pytest.raises(ppsim.JobError, match="torchtitan loads compute_only files") as refused:
            ppsim.torch.check(job(degree=2, schedule="ZBVZeroBubble", schedule_csv=str(csv)))
        assert len(refused.value.problems) == 1 and "WAIT" not in str(refused.value)


TOML = """\
[training]
local_batch_size = 7   # sequences

[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_schedule_csv = "1f1b.csv"

[compile]
enable = true
"""


def test_a_file_is_named_with_its_lines(tmp_path):
    csv_of("1f1b", tmp_path, ranks=2, microbatches=8)
    path = tmp_path / "job.toml"
    path.write_text(TOML)
    with pytest.raises(ppsim.JobError, match=f"{path}:2: the CSV is for other microbatches") as refused:
        ppsim.torch.check(path)
    assert github(refused.value) == [
        f"::error file={path},line=2,title=ppsim%3A refused::the CSV is for other microbatches "
        "(found 7 / 1 = 7, expected 8 for its 8)"
    ]
    path.write_text(TOML.replace("7 ", "8 "))
    assert ppsim.torch.check(path).ok
    path.write_text("[parallelism\n")
    with pytest.raises(ppsim.FileError, match=f"{path}:1:13: no TOML"):
        ppsim.torch.check(path)
    with pytest.raises(ppsim.FileError, match="missing.toml"):
        ppsim.torch.check(tmp_path / "missing.toml")


def test_what_export_writes_is_a_job(tmp_path):
    command = ["export", "torchtitan", "zb-v", "--ranks", "2", "--microbatches", "8", "-o", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "ppsim", *command], check=True, capture_output=True)
    verdict = ppsim.torch.check(tmp_path / "torchtitan.toml")
    assert verdict.ok and str(tmp_path / "schedule.csv") in verdict.about


def test_annotations_are_printed_at_the_cells(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # paths under the folder of a job on GitHub are relative
    path = DATA / "deferred_receives.csv"
    with pytest.raises(ppsim.Deadlock):
        ppsim.torch.check(path, annotations="github")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[0].startswith(f"::error file={path},line=1,col=18,endColumn=25,")
    with pytest.raises(ppsim.Error, match="unknown annotations"):
        ppsim.torch.check(path, annotations="gitlab")
    with pytest.raises(ppsim.DoesNotFit) as above:
        ppsim.torch.check(
            ppsim.generate("gpipe", ranks=2, microbatches=4), costs=ppsim.Costs.unit(A=10), memory_limit=20
        )
    assert github(above.value, "a.csv")[0].startswith("::error file=a.csv")


def run(*arguments: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=folder, env=alone)


def test_the_plugin_takes_jobs_and_annotates(tmp_path):
    csv_of("1f1b", tmp_path, ranks=2, microbatches=8)
    (tmp_path / "good.toml").write_text(TOML.replace("7 ", "8 "))
    (tmp_path / "bad.toml").write_text(TOML)
    (tmp_path / "hangs.csv").write_text((DATA / "deferred_receives.csv").read_text())
    plugin = ("pytest", "-p", "ppsim.pytest_plugin", "--ppsim", "*.toml", "--ppsim", "hangs.csv")
    done = run(*plugin, "--ppsim-annotations", "github", folder=tmp_path)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "\n::error file=bad.toml,line=2,title=" in done.stdout
    assert "\n::error file=hangs.csv,line=1,col=18," in done.stdout
    assert "::error" not in run(*plugin, folder=tmp_path).stdout


def test_the_module_is_a_command(tmp_path):
    good = csv_of("1f1b", tmp_path, ranks=2, microbatches=8)
    (tmp_path / "good.toml").write_text(TOML.replace("7 ", "8 "))
    done = run("ppsim.torch", good, "good.toml", folder=tmp_path)
    assert done.returncode == 0 and "good.toml: the order of 1f1b.csv" in done.stdout, done.stdout + done.stderr
    (tmp_path / "bad.toml").write_text(TOML)
    done = run("ppsim.torch", good, "bad.toml", "--annotations", "github", folder=tmp_path)
    assert done.returncode == 4 and "::error file=bad.toml,line=2" in done.stdout
    assert run("ppsim.torch", "missing.csv", folder=tmp_path).returncode == 2
