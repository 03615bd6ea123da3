"""Modules of your own under a Program: one process a rank, torch.distributed between them."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ppsim._native import _core
from ppsim.admission import admit
from ppsim.arguments import checked
from ppsim.costs import Costs
from ppsim.errors import Error
from ppsim.execution import Plan
from ppsim.lowering import lower
from ppsim.simulation import simulate
from ppsim.torch import meeting
from ppsim.torch.admission import check_features, check_replicas, transport_of
from ppsim.torch.data import Data
from ppsim.torch.devices import device_of
from ppsim.torch.perform import Performer
from ppsim.torch.queues import HostQueues, Progress, Queues, StreamQueues
from ppsim.torch.replicas import replicas_of
from ppsim.torch.stage import Loss, Stage
from ppsim.torch.ties import Tied, Ties, in_words
from ppsim.torch.traces import Traces
from ppsim.torch.transfers import Transfers
from ppsim.torch.watch import StepFailed, Watch, described
from ppsim.torch.weights import MakeOptimizer, Weights
from ppsim.verification import Certificate, Verdict

#: A rank that is well says something twice a second; one that computes on every core is late with it.
_MIN_SILENCE_S = 2.0
#: The rule of the C++ executor: a multiple of the known time, and more for a busy machine.
_DEADLINE_TIMES, _DEADLINE_MORE_S, _FIRST_DEADLINE_S = 10.0, 30.0, 600.0
_MIN_SHAPES_S = 60.0


@dataclass(frozen=True)
class Step:
    """The results of a step on this rank.

    losses: by microbatch, on ranks with a last stage; outputs: the same of a program without backwards
    norm: of all gradients, where the program has it; seconds: on the clock of this rank
    """

    losses: dict[int, Any] = field(default_factory=dict)
    outputs: dict[int, Any] = field(default_factory=dict)
    norm: Any = None
    seconds: float = 0.0

    @property
    def loss(self) -> Any:
        """The mean over the microbatches of this rank; None where it has no last stage."""
        return torch.stack(list(self.losses.values())).mean() if self.losses else None


class Runtime:
    """Runs a Program with modules as its stages; `torchrun` starts a process for each of its ranks.

    program: a Program, or a Schedule, which is lowered with REDUCE_GRAD, and with OPT and norm where they are asked for
    stages: the modules of this rank's stages, on their device; in DistributedDataParallel or fully_shard where
    further pipelines have copies or shards of them
    certificate: of this Program, for a transport that covers the backend's, or the Verdict that has it;
    unverified=True runs without one
    tied: of each block that stages share beside their own, by stage the names of its parameters in the stage's module:
    [{0: "embedding.weight", 3: "head.weight"}]; the same on all ranks
    loss: (output, target) -> mean loss of a microbatch; without it the program must have no backward
    optimizer: parameters of a block -> optimizer, for a program with OPT
    backend: gloo or nccl; default: that of the default process group, else nccl on GPUs and gloo on CPUs
    scale_gradients: divides gradients by the number of microbatches, as PyTorch's schedules do
    clip_norm: for a program with `norm`
    processes: the pipeline's, by rank of the program, where it is not all of torchrun's
    costs: what the deadline of a step follows from; deadline_s: the deadline itself, 0 for none
    silence_s: how long a rank may be silent before it is taken for dead; meeting_s: how long it may take to come

    All is refused before any process group exists. Raises Error; StepFailed, on all ranks, for a step that fails.
    """

    @checked
    def __init__(
        self,
        program: _core.Program | _core.Schedule,
        stages: Mapping[int, Any],
        certificate: Certificate | Verdict | None = None,
        *,
        loss: Loss | None = None,
        tied: Tied = (),
        optimizer: MakeOptimizer | None = None,
        backend: str | None = None,
        unverified: bool = False,
        scale_gradients: bool = True,
        clip_norm: float | None = None,
        processes: Iterable[int] | None = None,
        costs: Costs | None = None,
        deadline_s: float | None = None,
        silence_s: float = 15.0,
        meeting_s: float = 60.0,
        kept_traces: int = 20,
    ) -> None:
        added = ["reduce-grad", *(["opt"] if optimizer else []), *(["clip"] if clip_norm is not None else [])]
        self.program = lower(program, with_=added) if isinstance(program, _core.Schedule) else program
        self.backend = backend or meeting.default_backend(stages)
        proof = certificate.certificate if isinstance(certificate, Verdict) else certificate

        def refuse_or_plan() -> tuple[Plan, meeting.Pipeline]:
            _check_limits(deadline_s, silence_s, kept_traces, clip_norm, meeting_s)
            meeting.prepare(self.backend)
            transport = transport_of(self.backend)
            admit(self.program, transport, proof, unverified, None)
            _check_modules(stages)
            wrapped = {number: replicas_of(number, module) for number, module in stages.items()}
            replicas = {number: stage.processes for number, stage in wrapped.items() if stage.processes}
            pipeline = meeting.pipeline_of(self.program.ranks, processes, replicas)
            plan = Plan(self.program, pipeline.rank, transport)
            check_features(plan)
            check_replicas(plan, wrapped)
            _check_stages(plan, stages, loss, self.backend)
            Ties(plan, tied).check(wrapped)
            _check_updates(plan, optimizer is not None, clip_norm is not None)
            return plan, pipeline

        # Differences of programs come before their hash: the error names the first difference.
        says = {"number of stages": self.program.stages, "number of microbatches": self.program.microbatches,
                "program": self.program.hash, "backend": self.backend, "tied": in_words(tied), "scale_gradients": scale_gradients, "clip_norm": clip_norm, "torch": torch.__version__}
        self._plan, self._pipeline, stores = meeting.meet_others(refuse_or_plan, says, meeting_s)
        self._watch = Watch(self._plan, stores.own(), silence_s=silence_s, replicas=stores.of_replicas())
        self._steps, self._closed, self._failed = 0, False, False
        try:
            self._open(stages, loss, optimizer, stores, meeting_s, tied=tied, scale=scale_gradients, clip_norm=clip_norm)
        except BaseException as wrong:  # the others wait for this rank
            self._watch.fail(described(wrong))
            self._watch.close()
            raise
        self._deadline_s, self._first_s = deadline_s, 0.0
        self._simulated_s = None if costs is None else simulate(self.program, costs=costs).step_ns / 1e9
        self._traces = Traces(self._plan, self._store, kept_traces)
        atexit.register(self.close)
        self._restore_signal = _on_termination(self._watch)

    def _open(
        self, stages: Mapping[int, Any], loss: Loss | None, optimizer: MakeOptimizer | None,
        stores: meeting.Stores, meeting_s: float, *, tied: Tied, scale: bool, clip_norm: float | None,
    ) -> None:
        self._device = device_of(stages.values(), self.backend)
        self._stages = {number: self._stage(number, module, loss) for number, module in stages.items()}
        ties = Ties(self._plan, tied)
        self._weights = Weights(self._plan, self._stages, ties, scale=scale, clip_norm=clip_norm, optimizer=optimizer)
        meeting.open_default_group(self.backend, stores, self._plan, self._device)
        self._store = stores.own()
        meeting.compare_shared(self._store, self._plan, self._weights.shared_shapes(), meeting_s)
        self._transfers = Transfers(self._plan, self._pipeline.processes, self.backend, self._device)
        self._transfers.warm_up()
        self._transfers.open_replicas({number: stage.replicas for number, stage in self._stages.items()})
        self._weights.spread(self._transfers.broadcast)
        self._data = Data(self._plan, self._stages, self._device)
        self._performer = Performer(self._plan, self._stages, self._data, self._weights, self._transfers)
        self._queues = self._make_queues()

    @property
    def rank(self) -> int:
        return self._plan.rank

    @property
    def optimizers(self) -> dict[int, Any]:
        """By parameter block, of a program with OPT."""
        return self._weights.optimizers

    def step(self, inputs: Any = None, targets: Any = None) -> Step:
        """Runs all microbatches once.

        inputs, targets: a tensor that is cut along its first dimension, or a sequence with an item for each
        microbatch; needed on ranks with a first stage, with a last stage
        Gradients are in `.grad` afterwards, added to what was there, where the program has no OPT.
        """
        if self._closed or self._failed:
            raise Error("the runtime is closed" if self._closed else "a step has failed, and no step can follow it")
        self._steps += 1
        begin = time.monotonic()
        progress = Progress(len(self._plan.instructions))
        self._watch.begin(self._steps, progress, self._shapes_deadline() if self._steps == 1 else self._deadline())
        try:
            self._data.begin(inputs, targets)
            if self._steps == 1:
                self._data.find_shapes(self._store, lambda: self._watch.failure)
                if self._device.type == "cuda":
                    self._performer.prepare(self._device)
                self._watch.begin(self._steps, progress, self._deadline())
            self._weights.begin()
            self._queues.run(progress)
            self._weights.end()
        except BaseException as wrong:
            self._failed = True
            if not isinstance(wrong, StepFailed):
                self._watch.fail(described(wrong))
            raise
        self._watch.end()
        self._traces.add(progress.spans)
        seconds = time.monotonic() - begin
        self._first_s = self._first_s or seconds
        norm = self._weights.norms[max(self._weights.norms)] if self._weights.norms else None
        return Step(self._data.losses(), self._data.results(), norm, seconds)

    def trace(self) -> str:
        """The newest step of all ranks as the CSV that `ppsim simulate --compare-trace` reads. All ranks call it."""
        return self._traces.gather(lambda: self._watch.failure)[-1]

    def traces(self) -> list[str]:
        """The same of all kept steps, oldest first."""
        return self._traces.gather(lambda: self._watch.failure)

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """The same to a file, which rank 0 writes. All ranks call it."""
        path = os.fspath(path)
        text = self.trace()
        if self.rank == 0:
            _core.write_text(path, text)

    def costs(self) -> Costs:
        """Times of the kept steps, without the first one, as a table. All ranks call it."""
        return self._plan.measured(self._traces.gather(lambda: self._watch.failure))

    def close(self) -> None:
        """Ends the threads and the groups that this runtime made. It is called when Python ends, too."""
        if self._closed:
            return
        self._closed = True
        self._queues.stop()
        self._watch.close()
        atexit.unregister(self.close)
        self._restore_signal()
        if self._watch.failure is None:
            for stage in self._stages.values():
                stage.replicas.close()
            self._transfers.close()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _stage(self, number: int, module: Any, loss: Loss | None) -> Stage:
        plan = self._plan
        moved = plan.cells("OFFLOAD") | plan.cells("SEND_A") | plan.cells("RECV_A")
        return Stage(
            number,
            module,
            is_first=not plan.feeders(number),
            loss=None if plan.readers(number) else loss,
            trains=any(stage == number for kind in "BI" for stage, _ in plan.cells(kind)),
            splits=any(stage == number for stage, _ in plan.cells("I")),
            recomputed=frozenset(mb for stage, mb in plan.cells("R") if stage == number),
            moved=frozenset(mb for stage, mb in moved if stage == number),
            side_inputs=len(plan.side_feeders(number)),
            side_outputs=len(plan.side_readers(number)),
            device=self._device,
        )

    def _make_queues(self) -> Queues:
        if self._device.type == "cuda":
            return StreamQueues(self._plan, self._performer.perform, self._watch, self._device)
        return HostQueues(self._plan, self._performer.perform, self._watch)

    def _shapes_deadline(self) -> float:
        """Of what comes before the first step: modules are loaded, shapes found."""
        if not self._deadline_s:
            return _FIRST_DEADLINE_S
        return max(_DEADLINE_TIMES * self._deadline_s, _MIN_SHAPES_S)

    def _deadline(self) -> float:
        if self._deadline_s is not None:
            return self._deadline_s
        if self._simulated_s is not None and self._steps > 1:
            return _DEADLINE_TIMES * self._simulated_s + _DEADLINE_MORE_S
        return _FIRST_DEADLINE_S if self._steps <= 1 else _DEADLINE_TIMES * self._first_s + _DEADLINE_MORE_S


def _check_modules(stages: Mapping[int, Any]) -> None:
    for number, module in stages.items():
        if not isinstance(module, torch.nn.Module):
            raise Error(f"stage {number} is not a module", found=type(module).__name__, expected="torch.nn.Module")


def _check_limits(
    deadline_s: float | None, silence_s: float, kept_traces: int, clip_norm: float | None, meeting_s: float
) -> None:
    """Those that no run can keep, or that would end one in which nothing is wrong."""
    if deadline_s is not None and deadline_s < 0:
        raise Error("a deadline is no negative time", found=f"deadline_s={deadline_s:g}", expected="seconds, or 0 for no deadline")
    if meeting_s <= 0:
        raise Error("ranks need time to meet", found=f"meeting_s={meeting_s:g}", expected="seconds above 0")
    if silence_s < _MIN_SILENCE_S:
        raise Error("a rank that is well can be silent for longer", found=f"silence_s={silence_s:g}",
                    expected=f"{_MIN_SILENCE_S:g} seconds or more")
    if kept_traces < 1:
        raise Error("the newest step is always kept", found=f"kept_traces={kept_traces}", expected="1 or more")
    if clip_norm is not None and clip_norm <= 0:
        raise Error("gradients cannot be clipped to this norm", found=f"clip_norm={clip_norm:g}", expected="a number above 0")


def _check_updates(plan: Plan, optimizer: bool, clips: bool) -> None:
    """Arguments without a use are refused instead of dropped silently."""
    if plan.cells("OPT") and not optimizer:
        raise Error("the program updates parameters (OPT) and there is no optimizer",
                    expected="optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1)")
    trains = plan.has("B") or plan.has("I")
    if optimizer and trains and not plan.cells("OPT"):
        raise Error("there is an optimizer, and the program updates nothing", expected='with_=("reduce-grad", "opt")')
    if clips and trains and not plan.execution.clips:
        raise Error("there is a clip_norm, and the program has no norm",
                    expected='with_=("reduce-grad", "opt", "clip")')


def _check_stages(plan: Plan, stages: Mapping[int, Any], loss: Loss | None, backend: str) -> None:
    if sorted(stages) != plan.stages:
        raise Error(f"other stages than the program places on rank {plan.rank}", found=f"modules for {sorted(stages)}",
                    expected=f"modules for {plan.stages}")
    for number, module in stages.items():
        found = {str(parameter.device.type) for parameter in module.parameters()}
        wanted = "cpu" if plan.transport == "in-process" else "cuda"
        if found - {wanted}:
            raise Error(f"the module of stage {number} is on another device than its backend transfers from",
                        found=", ".join(sorted(found)), expected=wanted)
    if any(True for module in stages.values() for _ in module.parameters()):
        device_of(stages.values(), backend)
    last = [stage for stage in plan.stages if not plan.readers(stage)]
    if last and loss is None and (plan.has("B") or plan.has("I")):
        raise Error(f"stage {last[0]} is a last one, and there is no loss to start backwards from",
                    expected="loss=torch.nn.functional.mse_loss")


def _on_termination(watch: Watch) -> Callable[[], None]:
    """torchrun ends all processes when one has ended: each says first what it finds out about that. Returns what
    takes the handler away again."""

    def leave(number: int, _: Any) -> None:
        failure = watch.await_failure(4.0)
        signal.signal(number, signal.SIG_DFL)
        if failure is not None:
            raise failure
        os.kill(os.getpid(), number)

    def restore() -> None:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is leave:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, leave)
    return restore
