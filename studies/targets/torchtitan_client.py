"""Does torchtitan run what `ppsim export torchtitan` writes?

    torchrun --nproc-per-node 4 studies/targets/torchtitan_client.py PPSIM

Needs torchtitan 0.3 and what its pipeline module imports. torchtitan's own functions cut a small model by the exported
module names, make the schedule of the exported settings and CSV, and run a step; gradients are compared with those of
the whole model.
"""

import json
import logging
import pathlib
import subprocess
import sys
import tempfile
import tomllib
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torchtitan.config.configs import ParallelismConfig
from torchtitan.distributed.pipeline_parallel import _build_pipeline_schedule, _pipeline_module_split

MICROBATCHES, WIDTH, VOCABULARY, TOKENS = 8, 8, 11, 4
#: name, options, layers of each stage
CASES = (
    ("gpipe", [], "3,4,4,3"),
    ("1f1b", [], "3,4,4,3"),
    ("eager-1f1b", [], "4,4,3,3"),
    ("zb-h1", [], "3,4,4,3"),
    ("interleaved-1f1b", ["--chunks", "2"], "1,2,2,2,2,2,2,1"),
    ("interleaved-zb", ["--chunks", "2"], "1,2,2,2,2,2,2,1"),
    ("zb-v", [], "1,2,2,2,2,2,2,1"),
    ("v-half", [], "2,2,2,1,1,2,2,2"),
    ("dualpipe-v", [], "1,2,2,2,2,2,2,1"),
)


class Model(torch.nn.Module):
    """With the names and the None-tolerant forward that torchtitan's models have."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        torch.manual_seed(3)
        kind = {"dtype": torch.float64}
        self.tok_embeddings: Any = torch.nn.Embedding(VOCABULARY, WIDTH, **kind)
        self.layers = torch.nn.ModuleDict({str(n): torch.nn.Linear(WIDTH, WIDTH, **kind) for n in range(layers)})
        self.norm: Any = torch.nn.LayerNorm(WIDTH, **kind)
        self.lm_head: Any = torch.nn.Linear(WIDTH, VOCABULARY, **kind)

    def forward(self, x: Any) -> Any:
        x = self.tok_embeddings(x) if self.tok_embeddings is not None else x
        for layer in self.layers.values():
            x = x + torch.tanh(layer(x))
        x = self.norm(x) if self.norm is not None else x
        return self.lm_head(x) if self.lm_head is not None else x


def loss_of(output: Any, target: Any) -> Any:
    return torch.nn.functional.cross_entropy(output.flatten(0, 1), target.flatten()) / MICROBATCHES


def batch() -> tuple[Any, Any]:
    torch.manual_seed(5)
    return tuple(torch.randint(VOCABULARY, (MICROBATCHES, TOKENS)) for _ in range(2))  # type: ignore[return-value]


def exported(ppsim: str, case: tuple[str, list[str], str], folder: pathlib.Path) -> dict[str, Any]:
    name, options, layers = case
    ranks = dist.get_world_size()
    if dist.get_rank() == 0:
        command = [ppsim, "export", "torchtitan", name, *options, "--ranks", str(ranks)]
        command += ["--microbatches", str(MICROBATCHES), "--layers", layers, "-o", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
    dist.barrier()
    settings: dict[str, Any] = tomllib.loads((folder / "torchtitan.toml").read_text())["parallelism"]
    return settings | {"pipeline_parallel_schedule_csv": str(folder / "schedule.csv")}


def difference(settings: dict[str, Any], layers: int, mesh: Any) -> float:
    """Between the gradients of a step and those of the whole model, as a share of the largest one."""
    parallelism = ParallelismConfig(**settings)
    stages, parts = _pipeline_module_split(
        Model(layers), mesh, parallelism.pipeline_parallel_schedule, torch.device("cpu"),
        parallelism.module_fqns_per_model_part,
    )
    schedule = _build_pipeline_schedule(
        parallelism=parallelism, local_batch_size=MICROBATCHES, stages=stages,
        loss_fn=lambda output, target: (loss_of(output, target), None),
    )
    inputs, targets = batch()
    first, last = any(s.is_first for s in stages), any(s.is_last for s in stages)
    schedule.step(*([inputs] if first else []), **({"target": targets, "losses": []} if last else {}))
    whole = Model(layers)
    for x, y in zip(inputs.split(1), targets.split(1), strict=True):
        loss_of(whole(x), y).backward()
    expected = {name: parameter.grad for name, parameter in whole.named_parameters()}
    pairs = [(p.grad, expected[name]) for part in parts for name, p in part.named_parameters()]
    return max(float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-30)) for ours, theirs in pairs)


def main(ppsim: str) -> None:
    logging.disable(logging.INFO)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("pp",))
    folder = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder)
    rows = {}
    for case in CASES:
        settings = exported(ppsim, case, pathlib.Path(folder[0]) / case[0])
        worst = torch.tensor(difference(settings, sum(map(int, case[2].split(","))), mesh))
        dist.all_reduce(worst, op=dist.ReduceOp.MAX)
        rows[case[0]] = {"class": settings["pipeline_parallel_schedule"], "largest_difference": float(worst)}
    if dist.get_rank() == 0:
        print(json.dumps({"torch": torch.__version__, "torchtitan": "0.3.0", "schedules": rows}, indent=2))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
