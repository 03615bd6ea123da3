"""Parameters on their ranks: versions, gradients and their sums over microbatches and ranks, the norm, updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ppsim.errors import Error
from ppsim.jax.layout import Layout
from ppsim.jax.processes import Processes
from ppsim.jax.stage import Arrays

#: (parameters, gradients) of a block, by name -> the new parameters; or what has `init` and `update` as optax has them
Optimizer = Any
_OTHERS = "the optimizer gives other parameters than it was given"
_Update = Callable[[dict[str, Any], dict[str, Any], Any], tuple[dict[str, Any], Any]]


class Weights:
    """mean: gradients are divided by the microbatches of their update; clip_norm: of all gradients together."""

    def __init__(
        self, layout: Layout, parameters: Sequence[Any], devices: list[Any], *,
        mean: bool, clip_norm: float | None, optimizer: Optimizer, processes: Processes | None = None,
    ) -> None:
        self._processes = processes
        self._ranks = set(range(len(devices))) if processes is None else {processes.rank}
        self._layout, self._devices, self._mean, self._clip_norm = layout, devices, mean, clip_norm
        self._execution = layout.plan.execution
        self._updates = self._execution.updates
        self._optimizer = optimizer
        self._update = jax.jit(update_of(optimizer)) if optimizer is not None else None
        self._add = jax.jit(lambda a, b: [x + y for x, y in zip(a, b, strict=True)])
        self._states: dict[tuple[int, int], Any] = {}  #: of the optimizer, by block and rank
        #: Parameters whose gradients are summed across ranks for every microbatch.
        self._apart = {number for block in layout.plan.reduced_each_microbatch for number in layout.blocks[block]}
        self.set(parameters)

    def set(self, parameters: Sequence[Any]) -> None:
        """Puts all parameters on the devices of their stages."""
        ranks = [{self._layout.rank(stage) for stage in stages} for stages in self._layout.stages]
        self._values: dict[tuple[int, int], dict[int, Any]] = {}  #: by parameter and rank, and then by version
        for number, value in enumerate(parameters):
            for rank in ranks[number] & self._ranks:
                self._values[number, rank] = {0: jax.device_put(value, self._devices[rank])}
        self._clear()

    def get(self) -> list[Any]:
        """The newest of each parameter, on the device of the first stage that reads it; None of other processes'."""
        return [self._newest(number, self._home(number)) if self._is_here(number) else None for number in self._all()]

    def begin(self) -> None:
        """Of a step."""
        self._clear()
        self._kept = {key: dict(versions) for key, versions in self._values.items()}, dict(self._states)
        self._readers: dict[tuple[int, int, int], int] = {}
        for stage, microbatch in self._cells("F"):
            for key in self._reads(stage, microbatch):
                self._readers[key] = self._readers.get(key, 0) + 1

    def warm_up(self) -> None:
        """Compiles what adds gradients up and updates parameters, on zeros."""
        self.begin()
        microbatch = self._updates.index(0)
        for stage, part in enumerate(self._layout.parts):
            if self._layout.rank(stage) not in self._ranks:
                continue
            numbers = self._layout.split.parts[part].parameters
            zeros = [jnp.zeros_like(self._newest(number, self._layout.rank(stage))) for number in numbers]
            for _ in range(2):
                self.collect(stage, microbatch, zeros)
        if self._processes is None:
            for block in self._layout.plan.reduced_each_microbatch:
                self._reduce_part(block, microbatch, -1)
        for plan in (plan for plan in self._layout.plans if plan.rank in self._ranks):
            for block in sorted({block for block, _ in plan.cells("OPT")}):
                self.update(block, 0, plan.rank)
        jax.block_until_ready([self._gradient(number, 0) for number in self._all() if self._is_here(number)])
        self.undo()

    def undo(self) -> None:
        """Of a step that failed: parameters are what they were before it."""
        self._values, self._states = self._kept
        self._clear()

    def end(self) -> list[Any] | None:
        """Of a step. Returns the gradients, where the Program does not use them up in updates."""
        gradients = None
        if not self._cells("OPT"):
            gradients = [self._gradient(number, 0) if self._is_here(number) else None for number in self._all()]
        self._values = {(number, rank): {0: self._newest(number, rank)} for number, rank in self._values}
        self._clear()
        return gradients

    def read(self, stage: int, microbatch: int) -> Arrays:
        """The parameters of a stage, in the version of a microbatch; F takes each of them once."""
        found = []
        for key in self._reads(stage, microbatch):
            number, rank, version = key
            found.append(self._values[number, rank][version])
            self._readers[key] -= 1
            self._drop(key)
        return found

    def collect(self, stage: int, microbatch: int, gradients: Arrays) -> Arrays:
        """After B or W. Returns the sums of this stage, and what is summed across ranks microbatch by microbatch."""
        every = dict(zip(self._parameters(stage), gradients, strict=True))
        apart = {(number, stage): value for number, value in every.items() if number in self._apart}
        self._parts.setdefault(microbatch, {}).update(apart)
        mine = [value for number, value in every.items() if number not in self._apart]
        key = stage, self._updates[microbatch]
        before = self._sums.get(key)
        self._sums[key] = mine if before is None else self._add(before, mine)
        return [*self._sums[key], *apart.values()]

    def reduce(self, block: int, update: int, communicator: int) -> Arrays:
        """REDUCE_GRAD."""
        if block in self._layout.plan.reduced_each_microbatch:
            return self._reduce_part(block, update, communicator)
        numbers = self._layout.blocks[block]
        if self._processes is not None and numbers and len(self._layout.plan.members[communicator]) > 1:
            totals = self._processes.add(communicator, [self._local_sum(number, update) for number in numbers])
            for number, total in zip(numbers, totals, strict=True):
                self._totals[number, update] = self._scaled(total, update)
        return [self._gradient(number, update) for number in numbers]

    def _reduce_part(self, block: int, microbatch: int, communicator: int) -> Arrays:
        """Of one microbatch: added to the sums of those before. Where all ranks are here, the first of them does it."""
        parts, update = self._parts.get(microbatch, {}), self._updates[microbatch]
        numbers = [n for n in self._layout.blocks[block] if any((n, stage) in parts for stage in self._layout.stages[n])]
        found = [self._over_stages(n, {s: parts.pop((n, s)) for s in self._layout.stages[n] if (n, s) in parts}) for n in numbers]
        if self._processes is not None and len(self._layout.plan.members[communicator]) > 1 and found:
            found = self._processes.add(communicator, found)
        for number, part in zip(numbers, found, strict=True):
            before = self._reduced.get((number, update))
            self._reduced[number, update] = part if before is None else before + part
        return [self._reduced[number, update] for number in numbers]

    def norm(self, update: int, communicator: int) -> Arrays:
        """COLL norm: of the gradients of all parameters, each counted once."""
        mine = [number for number in self._all() if self._layout.rank(self._layout.stages[number][0]) in self._ranks]
        squares = [jnp.sum(jnp.square(_wide(jnp.abs(self._gradient(number, update))))) for number in mine]
        total = sum(float(square) for square in squares)
        if self._processes is not None and len(self._layout.plan.members[communicator]) > 1:
            total = float(self._processes.add(communicator, [jnp.asarray(total)])[0])
        self.norms[update] = total**0.5
        return []

    def update(self, block: int, update: int, rank: int) -> Arrays:
        """OPT: the next version of a block's parameters on a rank."""
        assert self._update is not None
        numbers, names = self._layout.blocks[block], self._layout.split.names
        values = {names[number]: self._newest(number, rank) for number in numbers}
        gradients = {names[n]: self._clipped(self._gradient(n, update), update, rank) for n in numbers}
        state = self._states.get((block, rank))
        if state is None and hasattr(self._optimizer, "init"):
            state = jax.device_put(self._optimizer.init(values), self._devices[rank])
        new, self._states[block, rank] = self._update(values, gradients, state)
        _check_update(values, new)
        for number in numbers:
            versions = self._values[number, rank]
            last = max(versions)
            versions[last + 1] = new[names[number]]
            self._drop((number, rank, last))
        return list(new.values())

    def _reads(self, stage: int, microbatch: int) -> list[tuple[int, int, int]]:
        """(parameter, rank, version)"""
        version = self._execution.version(stage, microbatch) if self._execution.asynchronous else 0
        part = self._layout.split.parts[self._layout.parts[stage]]
        return [(number, self._layout.rank(stage), version) for number in part.parameters]

    def _drop(self, key: tuple[int, int, int]) -> None:
        """A version that no F needs any more: what backwards need of it is in their cells."""
        number, rank, version = key
        versions = self._values[number, rank]
        if not self._readers.get(key) and version < max(versions):
            versions.pop(version, None)

    def _gradient(self, number: int, update: int) -> Any:
        """Of a parameter, over all its stages."""
        key = number, update
        if key not in self._totals:
            self._totals[key] = self._scaled(self._local_sum(number, update), update)
        return self._totals[key]

    def _local_sum(self, number: int, update: int) -> Any:
        """Over the stages of this process."""
        if number in self._apart:
            total = self._reduced.get((number, update))
            return jnp.zeros_like(self._newest(number, self._home(number))) if total is None else total
        found = {}
        for stage in self._layout.stages[number]:
            added = [other for other in self._parameters(stage) if other not in self._apart]
            if number in added and (stage, update) in self._sums:
                found[stage] = self._sums[stage, update][added.index(number)]
        return self._over_stages(number, found)

    def _over_stages(self, number: int, found: dict[int, Any]) -> Any:
        """The sum of what the stages of this process have, the lowest first; zeros of none."""
        device, total = self._devices[self._home(number)], None
        for _, value in sorted(found.items()):
            mine = jax.device_put(value, device)
            total = mine if total is None else total + mine
        return jnp.zeros_like(self._newest(number, self._home(number))) if total is None else total

    def _parameters(self, stage: int) -> list[int]:
        """Numbers of those that a stage reads."""
        return self._layout.split.parts[self._layout.parts[stage]].parameters

    def _scaled(self, total: Any, update: int) -> Any:
        return total / self._updates.count(update) if self._mean else total

    def _clipped(self, gradient: Any, update: int, rank: int) -> Any:
        gradient = jax.device_put(gradient, self._devices[rank])
        if self._clip_norm is None or update not in self.norms:
            return gradient
        scaled = _wide(gradient) * min(1.0, self._clip_norm / (self.norms[update] + 1e-6))
        return scaled.astype(gradient.dtype)

    def _cells(self, kind: str) -> list[tuple[int, int]]:
        return [cell for plan in self._layout.plans for cell in plan.cells(kind)]

    def _home(self, number: int) -> int:
        """The rank of the first stage here that reads it."""
        ranks = [self._layout.rank(stage) for stage in self._layout.stages[number]]
        return next(rank for rank in ranks if rank in self._ranks)

    def _is_here(self, number: int) -> bool:
        return any(self._layout.rank(stage) in self._ranks for stage in self._layout.stages[number])

    def _all(self) -> range:
        return range(len(self._layout.stages))

    def _newest(self, number: int, rank: int) -> Any:
        versions = self._values[number, rank]
        return versions[max(versions)]

    def _clear(self) -> None:
        self._sums: dict[tuple[int, int], Arrays] = {}  #: by stage and update
        self._totals: dict[tuple[int, int], Any] = {}  #: by parameter and update
        self._parts: dict[int, dict[tuple[int, int], Any]] = {}  #: by microbatch, parameter and stage, until their REDUCE_GRAD
        self._reduced: dict[tuple[int, int], Any] = {}  #: sums of these across ranks, by parameter and update
        self.norms: dict[int, float] = {}


def _wide(values: Any) -> Any:
    """In float32 where it was narrower: squares of half precision overflow, and small factors vanish."""
    return values.astype(jnp.promote_types(values.dtype, jnp.float32))


def update_of(optimizer: Optimizer) -> _Update:
    """(parameters, gradients, state) -> (parameters, state)"""
    if hasattr(optimizer, "init") and hasattr(optimizer, "update"):

        def by_steps(values: dict[str, Any], gradients: dict[str, Any], state: Any) -> tuple[dict[str, Any], Any]:
            changes, state = optimizer.update(gradients, state, values)
            _check_names(changes, values)
            return {name: values[name] + changes[name].astype(values[name].dtype) for name in values}, state

        return by_steps
    if not callable(optimizer):
        raise Error("no optimizer", found=type(optimizer).__name__,
                    expected="a function (parameters, gradients) -> parameters, or what has init and update")
    return lambda values, gradients, state: (optimizer(values, gradients), state)


def _check_update(before: dict[str, Any], after: Any) -> None:
    _check_names(after, before)
    shapes = [{name: (jnp.shape(value), jnp.result_type(value)) for name, value in some.items()} for some in (before, after)]
    if shapes[0] != shapes[1]:
        raise Error(_OTHERS, found=str(shapes[1]), expected=str(shapes[0]))


def _check_names(found: Any, expected: Mapping[str, Any]) -> None:
    if not isinstance(found, Mapping):
        raise Error(_OTHERS, found=f"a {type(found).__name__}", expected=f"a dictionary of {', '.join(expected)}")
    if set(found) != set(expected):
        raise Error(_OTHERS, found=", ".join(map(str, found)) or "none", expected=", ".join(expected))
