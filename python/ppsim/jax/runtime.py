"""A loss function under a Program: a device for each rank, of one process or of several."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppsim._native import _core
from ppsim.admission import admit, not_computed
from ppsim.arguments import checked
from ppsim.costs import Costs
from ppsim.errors import Error
from ppsim.execution import Plan
from ppsim.jax.data import Data, check_batch, cut_batch
from ppsim.jax.driver import Driver
from ppsim.jax.layout import Layout
from ppsim.jax.outputs import Outputs, combined, ways_of
from ppsim.jax.perform import Performer
from ppsim.jax.pieces import Pieces
from ppsim.jax.plain import check_loss_way
from ppsim.jax.processes import Processes
from ppsim.jax.split import LossFunction, arrays_of, split
from ppsim.jax.stage import Stage
from ppsim.jax.weights import Optimizer, Weights
from ppsim.lowering import lower
from ppsim.verification import Certificate, Verdict

#: The transport that a proof must hold for: every queue of a rank goes on by itself, and both ends of a transfer meet.
TRANSPORT = "in-process"


@dataclass(frozen=True)
class Step:
    """The results of a step.

    loss: of all microbatches, their mean or sum; losses: of each, in order; of a process: those of its last stages
    gradients: a pytree like the parameters, each on the device of its rank; None of a Program with OPT, and in the
    place of those of other processes
    outputs: what the function returns beside the loss; norm: of all gradients, where the Program has it
    seconds: from the call of `step` to its end
    """

    loss: Any
    losses: list[Any]
    gradients: Any
    outputs: Any
    norm: float | None
    seconds: float


class Runtime:
    """Runs a Program with a JAX function as its stages, on one device for each rank. With `prepare` before it, each rank
    has a process.

    program: a Program, or a Schedule, which is lowered with its REDUCE_GRADs
    loss_function: (params, batch) -> mean loss of a microbatch, or (loss, outputs), cut by `enter_stage`
    params: a pytree of arrays; example_batch: a pytree of arrays, or their shapes, as `step` gets it: the
    microbatches follow each other along the first dimension of each array
    certificate: of this Program, for a transport that covers TRANSPORT, or the Verdict that has it;
    unverified=True runs without one
    loss: "mean" or "add", of microbatches' losses and gradients; outputs: "concat", "add", "mean" or "max", or a
    pytree of these
    optimizer: for a Program with OPT: (parameters, gradients) -> parameters, dictionaries by name of a block's
    arrays; or what has `init(parameters)` and `update(gradients, state, parameters)` as optax has them
    clip_norm: for a Program with `norm`; devices: one for each rank; default: the first devices of JAX

    Without proof nothing is traced or compiled; then all stages are, before the first step. Raises Error.
    """

    @checked
    def __init__(
        self,
        program: _core.Program | _core.Schedule,
        loss_function: LossFunction,
        params: Any,
        example_batch: Any,
        certificate: Certificate | Verdict | None = None,
        *,
        unverified: bool = False,
        loss: str = "mean",
        outputs: Outputs = "concat",
        optimizer: Optimizer = None,
        clip_norm: float | None = None,
        devices: Sequence[Any] | None = None,
        kept_traces: int = 20,
    ) -> None:
        self.program = lower(program, with_="reduce-grad") if isinstance(program, _core.Schedule) else program
        proof = certificate.certificate if isinstance(certificate, Verdict) else certificate
        admit(self.program, TRANSPORT, proof, unverified, None)
        self._plans = Plan.of_all_ranks(self.program, TRANSPORT)
        check_features(self._plans)
        self._processes = Processes(self._plans, unverified) if jax.process_count() > 1 else None
        check_loss_way(loss)
        _check_updates(self._plans, optimizer, clip_norm)
        _check_limits(kept_traces, clip_norm)
        self._devices = self._processes.devices if self._processes else _devices(devices, self.program.ranks)
        params = arrays_of(params)
        microbatches, tree = cut_batch(example_batch, self.program.microbatches)
        self._split = split(loss_function, params, jax.tree.unflatten(tree, microbatches[0]))
        self._layout = Layout(self._plans, self._split)
        if self._processes is not None:
            self._processes.meet(self._layout)
        self._loss, self._ways = loss, ways_of(outputs, self._split.output_tree)
        self._stages = self._compiled()
        self._weights = Weights(self._layout, jax.tree.leaves(params), self._devices, mean=loss == "mean",
                                clip_norm=clip_norm, optimizer=optimizer, processes=self._processes)
        self._warm_up()
        self._data = Data(self._layout, self._stages, self._devices)
        performer = Performer(self._layout, self._stages, self._data, self._weights, self._devices, self._processes)
        mine = self._plans if self._processes is None else [self._plans[self._processes.rank]]
        self._driver = Driver(mine, performer.perform)
        self._traces: deque[list[tuple[int, int]]] = deque(maxlen=kept_traces)
        self._closed, self._busy = False, threading.Lock()

    @property
    def params(self) -> Any:
        """A pytree like the one that was given: the newest values, each on the device of its rank."""
        return jax.tree.unflatten(self._split.parameter_tree, self._weights.get())

    @params.setter
    def params(self, values: Any) -> None:
        """Raises Error for another structure or other shapes, and during a step."""
        leaves, tree = jax.tree.flatten(values)
        found = [(jnp.shape(leaf), jnp.asarray(leaf).dtype) for leaf in leaves]
        expected = [(shape.shape, shape.dtype) for shape in self._split.parameters]
        if tree != self._split.parameter_tree or found != expected:
            raise Error("other parameters than the runtime was made for", found=f"{tree}, {found}",
                        expected=f"{self._split.parameter_tree}, {expected}")
        with self._alone():
            self._weights.set([jnp.asarray(leaf) for leaf in leaves])

    def step(self, batch: Any) -> Step:
        """Runs all microbatches once. batch: as the example was.

        Where it raises, parameters are what they were before. Raises Error for another batch than the example and
        while another thread's step runs, Deadlock with who waits for whom where an unverified Program hangs, and
        what the function raises.
        """
        with self._alone():
            return self._step(batch)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread at a time changes parameters and what flows between stages."""
        if not self._busy.acquire(blocking=False):
            raise Error("a step of this runtime runs already", found="a call from another thread, or from within the step",
                        expected="one step after another, or a runtime for each thread")
        try:
            yield
        finally:
            self._busy.release()

    def _step(self, batch: Any) -> Step:
        if self._closed:
            raise Error("the runtime is closed")
        begin = time.monotonic()
        microbatches, tree = cut_batch(batch, self.program.microbatches)
        check_batch(microbatches, tree, self._split)
        self._data.begin(microbatches)
        self._weights.begin()
        try:
            spans = self._driver.run()
        except BaseException:
            if self._processes is not None:
                self._processes.leave()
            self._weights.undo()
            self._data.clear()
            for stage in self._stages.values():
                stage.cells.clear()
            raise
        self._traces.append(spans)
        norms = self._weights.norms
        norm = norms[max(norms)] if norms else None
        gradients = self._weights.end()
        trains = any(stage.trains for stage in self._stages.values())
        results = self._data.results
        every = [combined(way, results[n]) if n in results else None for n, way in enumerate([self._loss, *self._ways])]
        losses = results.get(0, {})
        return Step(
            loss=every[0],
            losses=[losses[number] for number in sorted(losses)],
            gradients=jax.tree.unflatten(self._split.parameter_tree, gradients) if gradients and trains else None,
            outputs=jax.tree.unflatten(self._split.output_tree, every[1:]),
            norm=norm,
            seconds=time.monotonic() - begin,
        )

    def trace(self) -> str:
        """The newest step as the CSV that `ppsim simulate --compare-trace` reads."""
        return self.traces()[-1]

    def traces(self) -> list[str]:
        """The same of all kept steps, oldest first. Raises Error before the first step."""
        if not self._traces:
            raise Error("no step was run yet")
        traces = list(self._traces) if self._processes is None else self._processes.gather(self._traces)
        return [self._plans[0].trace(spans) for spans in traces]

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """The newest step to a file, which rank 0 writes."""
        text = self.trace()
        if self._processes is None or self._processes.rank == 0:
            _core.write_text(os.fspath(path), text)

    def costs(self) -> Costs:
        """Times of the kept steps, without the first one, as a table."""
        return self._plans[0].measured(self.traces())

    def close(self) -> None:
        """Ends the threads."""
        self._closed = True
        self._driver.close()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _warm_up(self) -> None:
        """The last things to compile: what makes one result of those of the microbatches, and what adds gradients up."""
        if any(stage.trains for stage in self._stages.values()):
            self._weights.warm_up()
        last = next(iter(self._stages.values())).device if self._stages else jax.local_devices()[0]
        for way, shape in zip([self._loss, *self._ways], self._split.results, strict=True):
            zeros = jax.device_put(np.zeros(shape.shape, shape.dtype), last)
            combined(way, dict.fromkeys(range(self.program.microbatches), zeros))

    def _compiled(self) -> dict[int, Stage]:
        known: dict[int, Pieces] = {}
        stages = {}
        for number, part in enumerate(self._layout.parts):
            if self._devices[self._layout.rank(number)] is None:
                continue  # of another process
            pieces = known.setdefault(part, Pieces(self._split.parts[part], self._split))
            cells = {kind: _microbatches(self._plans, kind, number) for kind in "BIR"}
            stages[number] = Stage(
                number, pieces, self._devices[self._layout.rank(number)], trains=bool(cells["B"] or cells["I"]),
                recomputed=cells["R"], halved=cells["I"], whole=bool(cells["B"]),
            )
        return stages


def _microbatches(plans: Iterable[Plan], kind: str, stage: int) -> frozenset[int]:
    return frozenset(number for plan in plans for subject, number in plan.cells(kind) if subject == stage)


def check_features(plans: list[Plan]) -> None:
    """Raises Error naming what a runtime for functions cannot compute."""
    problems = [*not_computed(plans[0], "function"), *_of_blocks(plans)]
    if problems:
        raise Error("a JAX function cannot run this program: " + "; ".join(problems), code="refused")


def _of_blocks(plans: list[Plan]) -> Iterable[str]:
    reduced = {block for plan in plans for block, _ in plan.cells("REDUCE_GRAD")}
    updated = {block for plan in plans for block, _ in plan.cells("OPT")}
    for block in sorted(updated - reduced):
        if len(plans[0].owners(block)) > 1:
            owners = plans[0].owners(block)
            yield f"ranks {owners} update parameter block {block} without a REDUCE_GRAD: lower it with reduce-grad"


def _check_updates(plans: list[Plan], optimizer: Optimizer, clip_norm: float | None) -> None:
    """An optimizer where the Program updates parameters, and nothing that it would not use."""
    updates = any(plan.cells("OPT") for plan in plans)
    if optimizer is None and updates:
        raise Error("the program updates parameters (OPT) and there is no optimizer",
                    expected="optimizer=lambda parameters, gradients: ...")
    if optimizer is not None and not updates:
        raise Error("the program updates no parameters (OPT) and there is an optimizer", found=f"a {type(optimizer).__name__}",
                    expected="with_=('reduce-grad', 'opt'), or no optimizer")
    if clip_norm is not None and not plans[0].execution.clips:
        raise Error("the program has no norm of all gradients to clip by", found=f"clip_norm={clip_norm}",
                    expected="with_=('reduce-grad', 'opt', 'clip'), or no clip_norm")


def _check_limits(kept_traces: int, clip_norm: float | None) -> None:
    if kept_traces < 1:
        raise Error("the newest step is always kept", found=f"kept_traces={kept_traces}", expected="1 or more")
    if clip_norm is not None and clip_norm <= 0:
        raise Error("gradients cannot be clipped to this norm", found=f"clip_norm={clip_norm:g}", expected="a number above 0")


def _devices(devices: Sequence[Any] | None, ranks: int) -> list[Any]:
    found = list(jax.devices() if devices is None else devices)
    for device in found:
        if not isinstance(device, jax.Device):
            raise Error("devices= has something else than devices", found=repr(device), expected="some of jax.devices()")
    if len(found) < ranks or len(set(found[:ranks])) < ranks:
        raise Error("every rank needs a device", found=f"{len(set(found))} devices", expected=(
            f"{ranks}: jax.config.update('jax_num_cpu_devices', {ranks}), or "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={ranks}, before JAX is used first"))
    return found[:ranks]
