"""Parameter blocks of a rank: gradients, their sums and scale, the norm, updates, and versions of the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ppsim.errors import Error
from ppsim.execution import Plan
from ppsim.torch.replicas import local
from ppsim.torch.shelf import used_here
from ppsim.torch.stage import Stage
from ppsim.torch.ties import Ties

#: parameters of a block -> what updates them
MakeOptimizer = Callable[[list[Any]], Any]
#: (tensor, communicator) -> sums it over the members, in place
Sum = Callable[[Any, int], None]
#: (tensor, communicator, processes) -> sums it over the processes, in place
SumOfShards = Callable[[Any, int, Sequence[int]], None]


class Weights:
    """scale: gradients are divided by the microbatches of their update; clip_norm: of all gradients together."""

    def __init__(
        self,
        plan: Plan,
        stages: dict[int, Stage],
        ties: Ties,
        *,
        scale: bool,
        clip_norm: float | None,
        optimizer: MakeOptimizer | None,
    ) -> None:
        self._plan, self._scale, self._clip_norm = plan, scale, clip_norm
        self._copies: dict[int, list[list[Any]]] = {}  #: by block, of each stage on this rank
        self._shares: dict[tuple[int, int], list[Any]] = {}  #: the same by block and stage
        for number, stage in stages.items():
            for block in plan.blocks_of[number]:
                share = self._shares[block, number] = ties.parameters(block, number, stage.module)
                self._copies.setdefault(block, []).append(share)
        self._stages = stages
        self._check_copies()
        self.optimizers = self._make_optimizers(optimizer)
        self._updates = plan.execution.updates
        self._sums: dict[tuple[int, int], list[Any]] = {}  #: gradients by block and update, of asynchronous steps
        self._parts: dict[tuple[int, int], list[Any]] = {}  #: by block and microbatch, until their REDUCE_GRAD
        self._scaled: set[tuple[int, int]] = set()
        self._readers: dict[tuple[int, int], int] = {}  #: microbatches that still need a version, by stage
        self.norms: dict[int, Any] = {}  #: by update
        self._earlier: dict[int, list[Any]] = {}  #: by block: gradients of the steps before, which are complete

    def begin(self) -> None:
        """Of a step."""
        self._scaled.clear()
        self._set_earlier_aside()
        self._sums.clear()
        self._parts.clear()
        self.norms.clear()
        if self._plan.execution.asynchronous:
            self._count_readers()
            for number, stage in self._stages.items():
                stage.versions.clear()
                self._make_version(number, 0)

    def shared_shapes(self) -> dict[int, list[list[int]]]:
        """Returns the shapes of the trained parameters of each block that several ranks own: all of them must train the same."""
        shared = (block for block in sorted(self._copies) if len(self._plan.owners(block)) > 1)
        return {block: [list(p.shape) for p in self._copies[block][0]] for block in shared}

    def spread(self, broadcast: Callable[[Any, int], None]) -> None:
        """Gives all copies of a block the parameters of its first owner, as DistributedDataParallel does."""
        for block in sorted(self._copies):
            tensors = [p.detach() for p in self._copies[block][0]]
            if len(self._plan.owners(block)) > 1 and tensors:
                flat = _flat(tensors)
                broadcast(flat, self._communicator(block))
                _unflatten(flat, tensors)
            for copy in self._copies[block][1:]:
                for mine, first in zip(copy, self._copies[block][0], strict=True):
                    mine.detach().copy_(first.detach())

    def collect(self, stage: int, microbatch: int) -> None:
        """After B or W: gradients that are summed across ranks microbatch by microbatch are set apart. In an
        asynchronous step gradients go to the update that the microbatch feeds, and a version that no microbatch needs
        any more is dropped."""
        for block in self._plan.reduced_each_microbatch.intersection(self._plan.blocks_of[stage]):
            _move_gradients(self._shares[block, stage], self._parts, (block, microbatch))
        if not self._plan.execution.asynchronous:
            return
        version = self._version(stage, microbatch)
        (block,) = self._plan.blocks_of[stage]
        _move_gradients(self._stages[stage].parameters(version), self._sums, (block, self._updates[microbatch]))
        self._readers[stage, version] -= 1
        if self._readers[stage, version] == 0:
            del self._stages[stage].versions[version]

    def version(self, stage: int, microbatch: int) -> int:
        """Returns the version that a stage reads for a microbatch; 0 where a step has one."""
        return self._version(stage, microbatch) if self._plan.execution.asynchronous else 0

    def reduce(self, block: int, number: int, communicator: int, add: Sum) -> None:
        """REDUCE_GRAD. Replicas have the mean over them, as in PyTorch."""
        if block in self._plan.reduced_each_microbatch:
            return self._reduce_part(block, number, communicator, add)
        for stage in self._local_stages(block)[:1]:
            self._stages[stage].replicas.reduce([] if self._is_sharded(block) else self.gradients(block, number))
        self._add_ranks(self.gradients(block, number), communicator, add)
        self._scale_once(block, number)

    def _reduce_part(self, block: int, microbatch: int, communicator: int, add: Sum) -> None:
        """Of one microbatch: the sum over ranks is added to those of the microbatches before."""
        parameters = self._copies[block][0]
        found = self._parts.pop((block, microbatch), [None] * len(parameters))
        part = [torch.zeros_like(p) if mine is None else mine for mine, p in zip(found, parameters, strict=True)]
        for stage in self._local_stages(block)[:1]:
            self._stages[stage].replicas.reduce(part)
        self._add_ranks(part, communicator, add)
        sums = self._sums.setdefault((block, self._updates[microbatch]), [None] * len(part))
        for place, mine in enumerate(part):
            sums[place] = mine if sums[place] is None else sums[place].add_(mine)

    def _add_ranks(self, gradients: list[Any], communicator: int, add: Sum) -> None:
        used_here(map(local, gradients))
        if len(self._plan.members[communicator]) > 1 and gradients:
            flat = _flat(gradients)
            add(flat, communicator)
            _unflatten(flat, gradients)

    def norm(self, update: int, communicator: int, add: Sum, add_shards: SumOfShards) -> None:
        """COLL norm: of the gradients of all blocks, each counted once."""
        whole, shards = (torch.zeros((), dtype=torch.float64, device=self._device()) for _ in range(2))
        for block in sorted(self._copies):
            self._scale_once(block, update)
            if self._plan.owners(block)[0] == self._plan.rank:
                total = shards if self._is_sharded(block) else whole
                for gradient in self.gradients(block, update):
                    total += local(gradient.detach()).double().square().sum()
        sharded = [stage.replicas.processes for stage in self._stages.values() if stage.replicas.is_sharded]
        if sharded:
            add_shards(shards, communicator, sharded[0])
        total = whole + shards
        if len(self._plan.members[communicator]) > 1:
            add(total, communicator)
        self.norms[update] = total.sqrt()

    def update(self, block: int, update: int) -> None:
        """OPT."""
        self._scale_once(block, update)
        gradients = self.gradients(block, update)
        used_here(map(local, gradients))  # REDUCE_GRAD makes those of zeros on another stream
        if self._clip_norm is not None and update in self.norms:
            factor = (self._clip_norm / (self.norms[update] + 1e-6)).clamp(max=1.0)
            for gradient in map(local, gradients):
                gradient.mul_(factor.to(gradient.dtype))
        for copy in self._copies[block]:
            for parameter, gradient in zip(copy, gradients, strict=True):
                parameter.grad = gradient
        if block in self.optimizers:
            self.optimizers[block].step()
            self.optimizers[block].zero_grad(set_to_none=True)
        self._sums.pop((block, update), None)
        for stage in self._plan.execution.blocks[block]:
            if self._plan.is_local(stage) and self._readers.get((stage, update + 1)):
                self._make_version(stage, update + 1)

    def end(self) -> None:
        """Of a step: what no OPT has used is scaled now and left in `.grad`."""
        for stage in self._stages.values():
            stage.replicas.release()
        updated = self._plan.cells("OPT")
        for block in self._copies:
            for update in sorted(set(self._updates)):
                if (block, update) not in updated:
                    self._scale_once(block, update)
                    self._give(block, update)
            if all(of_block != block for of_block, _ in updated):
                self._add_earlier(block)

    def gradients(self, block: int, update: int) -> list[Any]:
        """Of each parameter of a block; zeros where none came."""
        if self._plan.execution.asynchronous or block in self._plan.reduced_each_microbatch:
            return self._sums_of(block, update)
        first, *others = self._copies[block]
        for place, parameter in enumerate(first):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            for copy in others:
                if copy[place] is not parameter and copy[place].grad is not None:
                    used_here([copy[place].grad])
                    parameter.grad += copy[place].grad
                    copy[place].grad = None
        return [parameter.grad for parameter in first]

    def _sums_of(self, block: int, update: int) -> list[Any]:
        parameters = self._copies[block][0]
        sums = self._sums.setdefault((block, update), [None] * len(parameters))
        for place, parameter in enumerate(parameters):
            if sums[place] is None:
                sums[place] = torch.zeros_like(parameter)
        return sums

    def _set_earlier_aside(self) -> None:
        for block, copies in self._copies.items():
            self._earlier[block] = [parameter.grad for parameter in copies[0]]
            for copy in copies:
                for parameter in copy:
                    parameter.grad = None

    def _add_earlier(self, block: int) -> None:
        """All copies of a block have the same gradients."""
        for parameter, earlier in zip(self._copies[block][0], self._earlier[block], strict=True):
            if earlier is not None:
                parameter.grad.add_(earlier)

    def _give(self, block: int, update: int) -> None:
        gradients = self.gradients(block, update)
        for copy in self._copies[block]:
            for parameter, gradient in zip(copy, gradients, strict=True):
                parameter.grad = gradient

    def _scale_once(self, block: int, update: int) -> None:
        if (block, update) in self._scaled or not self._scale:
            return
        self._scaled.add((block, update))
        count = self._updates.count(update)
        for gradient in self.gradients(block, update):
            gradient.div_(count)

    def _version(self, stage: int, microbatch: int) -> int:
        return self._plan.execution.version(stage, microbatch)

    def _count_readers(self) -> None:
        self._readers.clear()
        for stage, microbatch in self._plan.cells("F"):
            key = stage, self._version(stage, microbatch)
            self._readers[key] = self._readers.get(key, 0) + 1

    def _make_version(self, stage: int, version: int) -> None:
        self._stages[stage].versions[version] = {
            name: parameter.detach().clone().requires_grad_(parameter.requires_grad)
            for name, parameter in self._stages[stage].module.named_parameters()
        }

    def _local_stages(self, block: int) -> list[int]:
        return [stage for stage in self._plan.execution.blocks[block] if self._plan.is_local(stage)]

    def _is_sharded(self, block: int) -> bool:
        return any(self._stages[stage].replicas.is_sharded for stage in self._local_stages(block))

    def _communicator(self, block: int) -> int:
        found = (a.communicator for a in self._plan.actions() if a.kind == "REDUCE_GRAD" and a.subject == block)
        communicator = next(found, None)
        if communicator is None:
            raise Error(f"ranks {self._plan.owners(block)} share parameter block {block}, and nothing of the program is between them",
                        expected="a program with a REDUCE_GRAD of it")
        return communicator

    def _device(self) -> Any:
        return next(iter(self._stages.values())).device if self._stages else torch.device("cpu")

    def _check_copies(self) -> None:
        for block, copies in self._copies.items():
            shapes = [[tuple(parameter.shape) for parameter in copy] for copy in copies]
            if any(other != shapes[0] for other in shapes):
                stages = self._plan.execution.blocks[block]
                raise Error(f"stages {stages} share a parameter block and have other parameters",
                            expected="modules of one shape")

    def _make_optimizers(self, make: MakeOptimizer | None) -> dict[int, Any]:
        updated = sorted({block for block, _ in self._plan.cells("OPT")})
        if updated and make is None:
            raise Error("the program updates parameters (OPT) and there is no optimizer",
                        expected="optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1)")
        trained = {block: _unique(self._copies[block]) for block in updated}
        return {block: _made(make, block, found) for block, found in trained.items() if found} if make else {}


def _made(make: MakeOptimizer, block: int, parameters: list[Any]) -> Any:
    found = make(parameters)
    if not callable(getattr(found, "step", None)) or not callable(getattr(found, "zero_grad", None)):
        raise Error(f"optimizer= makes no optimizer of the parameters of block {block}", found=type(found).__name__,
                    expected="lambda parameters: torch.optim.SGD(parameters, lr=0.1)")
    return found


def _move_gradients(leaves: Sequence[Any], sums: dict[tuple[int, int], list[Any]], key: tuple[int, int]) -> None:
    """From the leaves to where they are added up."""
    found = sums.setdefault(key, [None] * len(leaves))
    for place, leaf in enumerate(leaves):
        if leaf.grad is not None:
            used_here([leaf.grad, found[place]])
            found[place] = leaf.grad if found[place] is None else found[place].add_(leaf.grad)
            leaf.grad = None


def _unique(copies: Sequence[Sequence[Any]]) -> list[Any]:
    return list({id(parameter): parameter for copy in copies for parameter in copy}.values())


def _flat(tensors: Sequence[Any]) -> Any:
    """One tensor, as wide as the widest type in it."""
    wide = tensors[0].dtype
    for tensor in tensors[1:]:
        wide = torch.promote_types(wide, tensor.dtype)
    return torch.cat([tensor.detach().reshape(-1).to(wide) for tensor in tensors])


def _unflatten(flat: Any, tensors: Sequence[Any]) -> None:
    at = 0
    for tensor in tensors:
        tensor.copy_(flat[at : at + tensor.numel()].view(tensor.shape))
        at += tensor.numel()
