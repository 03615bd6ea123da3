"""Times and sizes of the stages of a function, as Costs."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppsim.arguments import checked
from ppsim.costs import Costs
from ppsim.errors import Error
from ppsim.jax.pieces import Pieces
from ppsim.jax.split import LossFunction, Split, arrays_of, split
from ppsim.jax.stage import Stage
from ppsim.jax.weights import Optimizer, update_of

#: Rows of the tables in JSON.
Row = dict[str, Any]
Times = dict[str, list[int]]
_WHOLE, _HALVES, _REPEATED = 0, 1, 2  #: microbatches, by what is done with them


@checked
def profile(
    loss_function: LossFunction,
    params: Any,
    microbatch: Any,
    *,
    optimizer: Optimizer = None,
    devices: Sequence[Any] | None = None,
    repeats: int = 20,
    warmup: int = 3,
) -> Costs:
    """Measures F, B, I, W, R, OFFLOAD, RELOAD, REDUCE_GRAD, OPT and transfers of a function's stages, and the memory that each needs.

    microbatch: the batch of one, with values; optimizer: as for Runtime
    devices: stage after stage is measured on one of them in turn; transfers are those between the first two;
    default: all of JAX. repeats, warmup: of each measurement
    Units: medians in ns, with quartiles; bytes. Raises Error.
    """
    if repeats < 1 or warmup < 0:
        raise Error("so many measurements cannot be made", found=f"repeats={repeats}, warmup={warmup}",
                    expected="repeats of 1 or more, warmup of 0 or more")
    params = arrays_of(params)
    found = split(loss_function, params, microbatch)
    places = list(jax.devices() if devices is None else devices)
    values = jax.tree.leaves(params), [jnp.asarray(leaf) for leaf in jax.tree.leaves(microbatch)]
    rows, sizes, made = list[Row](), list[Row](), list[list[Any]]()
    for part in found.parts:
        measured = _Measured(found, part.number, places[part.number % len(places)], values, made)
        made.append(measured.outputs)
        rows += _stage_rows(part.number, _samples(measured.times, repeats, warmup))
        sizes += [{"tensor": tensor, "stage": part.number, "bytes": size} for tensor, size in _sizes(measured.stage.pieces).items()]
    for number, (stages, leaves) in enumerate(_blocks(found).items()):
        block = _Block(stages, {found.names[leaf]: values[0][leaf] for leaf in leaves}, optimizer, places)
        samples = _samples(block.times, repeats, warmup)
        rows += [{"kind": kind, "block": number, **_spread(some)} for kind, some in samples.items()]
        sizes += [{"tensor": tensor, "block": number, "bytes": size} for tensor, size in block.sizes().items()]
    rows += _transfers(found, made, places, repeats, warmup) if len(places) > 1 else []
    return Costs.table({"format": "ppsim-tables", "version": 1, "costs": rows, "sizes": sizes})


class _Measured:
    """One stage with the inputs that the stages before it have made."""

    def __init__(self, found: Split, number: int, device: Any, values: tuple[Any, Any], made: list[list[Any]]) -> None:
        part = found.parts[number]
        self._device = device
        self._parameters = self._here(values[0][leaf] for leaf in part.parameters)
        self._inputs = self._here(made[stage][place] for stage, place in part.inputs)
        self._batch = self._here(values[1][leaf] for leaf in part.batch)
        self.stage = Stage(number, Pieces(part, found), device, trains=True, recomputed=frozenset([_REPEATED]),
                           halved=frozenset([_HALVES]))
        self.outputs = self._forward(_WHOLE)
        cotangents = [self.outputs[place] for place in self.stage.pieces.differentiable]
        self._cotangents = [jnp.ones_like(value) for value in cotangents]

    def times(self) -> dict[str, int]:
        """One of each action, as a runtime does them."""
        stage, gradients, times = self.stage, self._cotangents, dict[str, int]()
        times["F"], _ = _timed(lambda: self._forward(_WHOLE))
        times["B"], _ = _timed(lambda: stage.backward(_WHOLE, gradients))
        self._forward(_HALVES)
        times["I"], _ = _timed(lambda: (stage.backward_input(_HALVES, gradients), list(stage.cells[_HALVES].values())))
        times["W"], _ = _timed(lambda: stage.backward_weight(_HALVES))
        self._forward(_REPEATED)
        times["R"], _ = _timed(lambda: stage.recompute(_REPEATED))
        stage.backward(_REPEATED, gradients)
        self._forward(_WHOLE)
        times["OFFLOAD"], host = _timed(lambda: [np.array(value) for value in stage.take_saved(_WHOLE)])
        times["RELOAD"], _ = _timed(lambda: self._here(host))
        stage.cells.clear()
        return times

    def _forward(self, microbatch: int) -> list[Any]:
        outputs, results = self.stage.forward(microbatch, self._parameters, self._inputs, self._batch)
        jax.block_until_ready([outputs, results, list(self.stage.cells[microbatch].values())])
        return outputs

    def _here(self, values: Iterable[Any]) -> list[Any]:
        return [jax.device_put(value, self._device) for value in values]


class _Block:
    """Parameters that are reduced and updated together; parameters are always the same."""

    def __init__(self, stages: tuple[int, ...], parameters: dict[str, Any], optimizer: Optimizer, places: list[Any]) -> None:
        self._parameters = {name: jax.device_put(value, places[0]) for name, value in parameters.items()}
        self._places = [places[number % len(places)] for number in range(len(stages))]
        self._gradients = [jax.device_put(self._parameters, place) for place in self._places]
        self._update = None if optimizer is None else jax.jit(update_of(optimizer))
        self._state = optimizer.init(self._parameters) if hasattr(optimizer, "init") else None

    def times(self) -> dict[str, int]:
        times = dict[str, int]()
        times["REDUCE_GRAD"], found = _timed(self._reduced)
        if self._update is not None:
            times["OPT"], _ = _timed(lambda: self._update(self._parameters, found, self._state) if self._update else None)
        return times

    def sizes(self) -> dict[str, int]:
        size = _bytes_of(self._parameters.values())
        return {"parameters": size, "gradients": size, "optimizer_state": _bytes_of(jax.tree.leaves(self._state))}

    def _reduced(self) -> dict[str, Any]:
        """The sum over the stages, where these are several, and its division by the microbatches."""
        total = self._gradients[0]
        for more in self._gradients[1:]:
            here = jax.device_put(more, self._places[0])
            total = {name: value + here[name] for name, value in total.items()}
        return {name: value / 2 for name, value in total.items()}


def _samples(measure: Callable[[], dict[str, int]], repeats: int, warmup: int) -> Times:
    result: Times = {}
    for number in range(-warmup, repeats):
        for kind, ns in measure().items():
            result.setdefault(kind, []).extend([ns] if number >= 0 else [])
    return result


def _blocks(found: Split) -> dict[tuple[int, ...], list[int]]:
    """Parameters by the stages that read them: a block for each stage, and then those that `tied` adds."""
    blocks: dict[tuple[int, ...], list[int]] = {(part.number,): [] for part in found.parts}
    for number in range(len(found.parameters)):
        blocks.setdefault(tuple(found.users(number) or [0]), []).append(number)
    return blocks


def _timed(work: Callable[[], Any]) -> tuple[int, Any]:
    begin = time.perf_counter_ns()
    found = jax.block_until_ready(work())
    return time.perf_counter_ns() - begin, found


def _stage_rows(stage: int, times: Times) -> list[Row]:
    rows: list[Row] = [{"kind": kind, "stage": stage, **_spread(samples)} for kind, samples in sorted(times.items())]
    both = int(statistics.median(times["F"]) + statistics.median(times["B"]))
    return [*rows, {"kind": "OVERLAP_F_B", "stage": stage, "ns": both}]


def _spread(samples: list[int]) -> Row:
    quarters = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else [float(samples[0])] * 3
    return {
        "ns": int(statistics.median(samples)),
        "samples": len(samples),
        "lower_quartile_ns": int(quarters[0]),
        "median_ns": int(statistics.median(samples)),
        "upper_quartile_ns": int(quarters[2]),
    }


def _transfers(found: Split, made: list[list[Any]], places: list[Any], repeats: int, warmup: int) -> list[Row]:
    """Of each edge that carries values, and of the gradients on it, which have the same sizes."""
    rows = []
    for part in found.parts:
        for producer in part.producers():
            values = [jax.device_put(made[producer][place], places[0]) for place in part.reads(producer)]
            send = functools.partial(jax.device_put, values, places[1])
            samples = [_timed(send)[0] for _ in range(warmup + repeats)][warmup:]
            rows.append({"kind": "SEND_F", "stage": producer, "peer": part.number, **_spread(samples)})
            rows.append({"kind": "SEND_B", "stage": part.number, "peer": producer, **_spread(samples)})
    return rows


def _sizes(pieces: Pieces) -> dict[str, int]:
    """Tensors that the forward saves for W live until W, whether I reads them too or not."""
    of_weights = set(pieces.backward_weight.reads)
    return {
        "boundary_input": _bytes(pieces.inputs),
        "boundary_output": _bytes(pieces.outputs),
        "incoming_gradient": _bytes(pieces.outputs[place] for place in pieces.differentiable),
        "outgoing_gradient": _bytes(pieces.inputs[place] for place in pieces.trained_inputs),
        "saved_for_input": _bytes(var for var in pieces.saved if var not in of_weights),
        "saved_for_weight": _bytes(var for var in pieces.saved if var in of_weights),
        "inner_gradients": _bytes(pieces.between),
        "workspace": 0,
    }


def _bytes(atoms: Iterable[Any]) -> int:
    return _bytes_of(atom.aval for atom in atoms)


def _bytes_of(arrays: Iterable[Any]) -> int:
    return sum(int(array.size) * int(array.dtype.itemsize) for array in arrays if hasattr(array, "dtype"))
