"""Job configs of torchtitan: the schedule that one means, and what in it does not go together. Imports no torch."""

from __future__ import annotations

import difflib
import math
import os
import pathlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ppsim._native import _core
from ppsim.arguments import checked
from ppsim.errors import Error, FileError, JobError
from ppsim.files import read
from ppsim.registry import generate
from ppsim.targets import load, targets
from ppsim.torch.job_settings import PP, JobSettings


@dataclass(frozen=True)
class _Kind:
    """A class of torch.distributed.pipelining; ours: its name here, "" if its order is that of a file."""

    name: str
    ours: str
    several_stages: bool
    is_v: bool = False
    min_a_stage: bool = False  # microbatches: as many as stages or more
    rounds: bool = False  # microbatches: in rounds of about the ranks


_KINDS = (
    _Kind("1F1B", "1f1b", False, min_a_stage=True),
    _Kind("GPipe", "gpipe", False),
    _Kind("Interleaved1F1B", "interleaved-1f1b", True, rounds=True),
    _Kind("LoopedBFS", "looped-bfs", True),
    _Kind("InterleavedZeroBubble", "interleaved-zb", True, rounds=True),
    _Kind("ZBVZeroBubble", "zb-v", True, is_v=True),
    _Kind("DualPipeV", "dualpipe-v", True, is_v=True, min_a_stage=True),
    _Kind("PipelineScheduleSingle", "", False),
    _Kind("PipelineScheduleMulti", "", True),
)


@dataclass(frozen=True)
class Job:
    """The pipeline of a torchtitan job config.

    file: "" for a config object; schedule: torchtitan's name; ranks, stages, microbatches: of the pipeline
    csv: the file whose order runs; "": the order is that of the class
    order: what runs; None where the problems leave none
    problems: what does not go together, each as an Error with its line
    """

    file: str
    schedule: str
    ranks: int
    stages: int
    microbatches: int
    csv: str = ""
    order: _core.Schedule | None = None
    problems: tuple[Error, ...] = field(default=())

    def __str__(self) -> str:
        order = f"the order of {self.csv} on the stages of {self.schedule}" if self.csv else self.schedule
        return (
            f"{self.file or 'the job'}: {order}, {self.ranks} ranks, {self.stages} stages, "
            f"{self.microbatches} microbatches"
        )

    def checked(self) -> _core.Schedule:
        """The order. Raises JobError where settings do not go together."""
        if self.problems or self.order is None:
            raise JobError(self.problems)
        return self.order


def is_job(value: Any) -> bool:
    """Whether this is a TOML file, or has the sections of torchtitan's config."""
    if isinstance(value, str | pathlib.PurePath):
        return os.fspath(value).lower().endswith(".toml")
    if isinstance(value, Mapping):
        return "parallelism" in value
    return hasattr(value, "parallelism") and hasattr(value, "training")


@checked
def read_job(config: Any, *, layers: int | None = None, target: str = "torch-2.15") -> Job:
    """Reads the pipeline of a torchtitan job.

    config: the path of a TOML file, its contents as a dictionary, or a config object (torchtitan 0.3)
    layers: transformer layers of the model, for pipeline_parallel_layers_per_stage
    target: the release of PyTorch that loads its CSV
    Raises FileError for what is no job config. What torchtitan would refuse, or run differently from what is
    written, is in `problems`.
    """
    if layers is not None and layers < 1:
        raise Error("a model has layers", found=str(layers), expected="1 or more")
    releases = [name for name in targets() if not name.startswith("jaxpp")]
    if target not in releases:
        raise Error("torchtitan runs on PyTorch", found=target, expected=", ".join(releases))
    return _Reader(JobSettings(config), layers, target).job()


class _Reader:
    """Reads the job and collects all its errors."""

    def __init__(self, settings: JobSettings, layers: int | None, target: str) -> None:
        self._settings, self._layers, self._target = settings, layers, target
        self._problems: list[Error] = []

    def job(self) -> Job:
        try:
            self._problems += self._settings.unread()
            self._check_experts()
            kind = self._kind()
            ranks = self._settings.number("parallelism", PP + "degree")
            microbatches = self._microbatches()
            compiles_stages = self._compiles_stages()
            csv = self._csv()
            if ranks == 1:
                raise self._error("the job has no pipeline", "degree", found="1", expected="2 or more")
            order = self._loaded(csv) if csv else None
            stages = self._stages(kind, ranks, order)
        except Error as wrong:
            if isinstance(wrong, FileError):
                raise
            raise JobError((*self._problems, wrong)) from None
        if csv:
            if order is not None:
                self._check_order(order, kind, (ranks, stages, microbatches))
        else:
            order = self._generated(kind, (ranks, stages, microbatches))
        if order is not None and compiles_stages:
            self._check_compile(order)
        return Job(self._settings.file, kind.name, ranks, stages, microbatches, csv, order, tuple(self._problems))

    def _error(self, message: str, key: str, **details: str) -> Error:
        return self._settings.error(message, "parallelism", PP + key, **details)

    def _note(self, message: str, key: str, **details: str) -> None:
        self._problems.append(self._error(message, key, **details))

    def _check_experts(self) -> None:
        """Checks the assertion of ParallelDims: experts are spread over ranks that have other parts of the tokens."""
        experts = self._settings.number("parallelism", "expert_parallel_degree")
        shards = self._settings.typed("parallelism", "data_parallel_shard_degree", int, "a whole number, or -1")
        if experts == 1 or shards < 1:  # -1: as many as the GPUs leave
            return
        context, tensor = (
            self._settings.number("parallelism", f"{group}_parallel_degree") for group in ("context", "tensor")
        )
        if shards * context * tensor % experts:
            self._problems.append(
                self._settings.error(
                    "expert_parallel_degree does not divide data_parallel_shard_degree x context x tensor",
                    "parallelism",
                    "expert_parallel_degree",
                    found=f"{experts}, {shards} x {context} x {tensor}",
                    expected=f"a divisor of {shards * context * tensor}, or another data_parallel_shard_degree",
                )
            )

    def _kind(self) -> _Kind:
        name = self._settings.typed("parallelism", PP + "schedule", str, "the name of a schedule")
        for kind in _KINDS:
            if kind.name.lower() == name.lower():
                return kind
        near = difflib.get_close_matches(name, [kind.name for kind in _KINDS], 1)
        expected = near[0] if near else ", ".join(kind.name for kind in _KINDS)
        raise self._error("PyTorch has no such schedule", "schedule", found=name, expected=expected)

    def _microbatches(self) -> int:
        batch = self._settings.number("training", "local_batch_size")
        size = self._settings.number("parallelism", PP + "microbatch_size")
        if batch % size == 0:
            return batch // size
        near = [str(multiple) for multiple in (batch - batch % size, batch - batch % size + size) if multiple]
        raise self._settings.error(
            f"the batch is not a multiple of {PP}microbatch_size",
            "training",
            "local_batch_size",
            found=f"{batch}, microbatches of {size}",
            expected=" or ".join(near),
        )

    def _stages(self, kind: _Kind, ranks: int, order: _core.Schedule | None) -> int:
        """As torchtitan counts them; it reads none of it from a CSV."""
        modules = self._settings.modules()
        per_stage = self._settings.given("parallelism", PP + "layers_per_stage")
        if modules:
            stages, key = len(modules), "module_fqns_per_model_part"
        elif per_stage:
            count = self._settings.number("parallelism", PP + "layers_per_stage")
            stages, key = self._stages_of_layers(count, order), PP + "layers_per_stage"
        else:
            return ranks * 2 if kind.several_stages else ranks
        expected = f"{2 * ranks}" if kind.is_v else f"a multiple of {ranks}" if kind.several_stages else f"{ranks}"
        fits = stages % ranks == 0 and (kind.several_stages or stages == ranks)
        if not fits or (kind.is_v and stages != 2 * ranks) or (not modules and kind.several_stages and stages == ranks):
            self._problems.append(
                self._settings.error(
                    f"{kind.name} on {ranks} ranks has another number of stages",
                    "parallelism",
                    key,
                    found=f"{stages} stages",
                    expected=expected,
                )
            )
        return stages

    def _stages_of_layers(self, per_stage: int, order: _core.Schedule | None) -> int:
        if self._layers is None:
            if order is not None:
                return order.stages
            raise self._error(
                "the number of stages follows from the layers of the model", "layers_per_stage",
                found=str(per_stage), expected="layers=, the transformer layers of the model",
            )
        ends = sum(
            self._settings.number("parallelism", f"{PP}{end}_stage_less_layers", 0) for end in ("first", "last")
        )
        return math.ceil((self._layers + ends) / per_stage)

    def _csv(self) -> str:
        """The path from where torchtitan would start, or from the job."""
        if not self._settings.get("parallelism", PP + "schedule_csv"):
            return ""
        given = self._settings.typed("parallelism", PP + "schedule_csv", (str, pathlib.PurePath), "a path")
        csv: str = os.fspath(given)
        beside = pathlib.Path(self._settings.file).parent / csv
        return csv if pathlib.Path(csv).exists() or not beside.exists() else os.fspath(beside)

    def _loaded(self, csv: str) -> _core.Schedule | None:
        try:
            order = load(csv, target=self._target)
        except Error as wrong:
            if not _has_transfers(csv):
                self._problems.append(wrong)
                return None
        else:
            if isinstance(order, _core.Schedule):
                return order
        self._problems.append(
            Error(
                "torchtitan loads compute_only files, and its PyTorch adds the transfers",
                code="refused", file=csv, found="transfers",
                expected="ppsim convert IN OUT.csv --flavor compute_only",
            )
        )
        return None

    def _check_order(self, order: _core.Schedule, kind: _Kind, numbers: tuple[int, int, int]) -> None:
        ranks, stages, microbatches = numbers
        if order.ranks != ranks:
            self._note("the CSV is for other ranks", "degree", found=str(ranks), expected=f"{order.ranks}, its rows")
        if order.microbatches != microbatches:
            size = self._settings.number("parallelism", PP + "microbatch_size")
            given = self._settings.given("training", "local_batch_size") is not None
            self._problems.append(
                self._settings.error(
                    "the CSV is for other microbatches",
                    "training",
                    "local_batch_size",
                    found=f"{microbatches * size}{'' if given else ', the default'} / {size} = {microbatches}",
                    expected=f"{order.microbatches * size} for its {order.microbatches}",
                )
            )
        if order.stages != stages:
            self._note(
                "the CSV has other stages",
                "schedule",
                found=f"{kind.name}, for which torchtitan makes {stages}",
                expected=f"settings that make {order.stages}: another schedule, or module_fqns_per_model_part",
            )
        elif order.ranks == ranks and list(order.placement) != _placement(kind, ranks, stages):
            self._note(
                f"the CSV has stages on other ranks than {kind.name}",
                "schedule",
                found=f"ranks {', '.join(map(str, order.placement))}",
                expected="ZBVZeroBubble for a V" if not kind.is_v else "Interleaved1F1B for stage s on rank s mod P",
            )

    def _generated(self, kind: _Kind, numbers: tuple[int, int, int]) -> _core.Schedule | None:
        ranks, stages, microbatches = numbers
        if not kind.ours:
            self._note(f"{kind.name} has no order of its own", "schedule", found="no CSV",
                       expected=f"{PP}schedule_csv, or another schedule")
            return None
        rounds = max(1, microbatches // ranks)
        if kind.min_a_stage and microbatches < stages:
            self._refuse_microbatches(kind, microbatches, f"{stages} or more, as many as stages")
        elif kind.rounds and microbatches % rounds:
            self._refuse_microbatches(kind, microbatches, f"a multiple of the {rounds} rounds")
        if self._problems:
            return None
        chunks = stages // ranks if kind.several_stages else None
        try:
            return generate(kind.ours, ranks=ranks, microbatches=microbatches, chunks=chunks)
        except Error as wrong:
            self._note(f"{kind.name}: {wrong.message}", "schedule", found=wrong.found, expected=wrong.expected)
            return None

    def _refuse_microbatches(self, kind: _Kind, found: int, expected: str) -> None:
        self._problems.append(
            self._settings.error(
                f"PyTorch's {kind.name} refuses this number of microbatches", "training", "local_batch_size",
                found=str(found), expected=expected,
            )
        )

    def _compiles_stages(self) -> bool:
        enabled = self._settings.typed("compile", "enable", bool, "true or false")
        return enabled and "model" in self._settings.names("compile", "components")

    def _check_compile(self, order: _core.Schedule) -> None:
        if re.search(r"\dW\d", order.to_csv()):
            self._problems.append(
                self._settings.error(
                    "PyTorch's split backward (I and W) does not go with torch.compile of the stages",
                    "compile", "enable", found="true", expected="false, or a schedule with whole backwards",
                )
            )


def _has_transfers(csv: str) -> bool:
    try:
        return isinstance(read(csv), _core.Program)
    except Error:
        return False


def _placement(kind: _Kind, ranks: int, stages: int) -> list[int]:
    if kind.is_v:
        return [s if s < ranks else 2 * ranks - 1 - s for s in range(stages)]
    return [s % ranks for s in range(stages)]
