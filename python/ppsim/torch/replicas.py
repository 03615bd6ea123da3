"""Stages that further pipelines have copies or shards of: modules in DistributedDataParallel and FSDP2.

All pipelines run the same Program. Each collective of it that concerns such a stage is then one over the
replicas of its rank, on a process group of its own, so what is proved for one pipeline holds for all: a cycle of
waits between them would be one in the Program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ppsim.errors import Error

#: Under their names of PyTorch 2.14, or earlier ones.
_all_gather: Any = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)

#: (stage's kind of collective) -> its process group
GroupOf = Callable[[str], Any]


def local(tensor: Any) -> Any:
    """The part of a tensor that this process has, in the same memory."""
    return tensor.to_local() if _is_distributed(tensor) else tensor


class Whole:
    """A stage without replicas outside of the Program. processes: that have the same stage; collectives: that a
    Program must have for it."""

    processes: tuple[int, ...] = ()
    collectives: tuple[str, ...] = ()
    is_sharded = False
    own_group: Any = None  #: that the wrapper was made with

    def __init__(self, module: Any) -> None:
        self.module = module

    def open(self, group_of: GroupOf) -> None:
        """group_of: the replicas' group of each kind of collective."""

    def close(self) -> None:
        """The module communicates by itself again."""

    def gather(self) -> None:
        """UNSHARD."""

    def release(self) -> None:
        """RESHARD."""

    def reduce(self, gradients: Sequence[Any]) -> None:
        """REDUCE_GRAD over the replicas, whose mean it leaves, as PyTorch does."""


class Copied(Whole):
    """DistributedDataParallel. It would reduce inside of a backward: what it wraps runs, and REDUCE_GRAD averages."""

    collectives = ("REDUCE_GRAD",)

    def __init__(self, module: Any) -> None:
        super().__init__(module.module)
        self.own_group = module.process_group
        self.processes = tuple(dist.get_process_group_ranks(self.own_group))
        self._group: Any = None

    def open(self, group_of: GroupOf) -> None:
        self._group = group_of("REDUCE_GRAD")

    def reduce(self, gradients: Sequence[Any]) -> None:
        for gradient in gradients:
            dist.all_reduce(gradient, group=self._group)
            gradient.div_(len(self.processes))


class Sharded(Whole):
    """fully_shard on a mesh of one dimension. UNSHARD gathers the parameters and RESHARD drops them; no forward or
    backward communicates."""

    collectives = ("UNSHARD", "REDUCE_GRAD")
    is_sharded = True

    def __init__(self, number: int, module: Any) -> None:
        super().__init__(module)
        self.processes, self.own_group = _shards(number, module)
        self._parts = [part for part in module.modules() if _is_fsdp(part)]
        self._on_cpu = all(parameter.device.type == "cpu" for parameter in module.parameters())
        self._own: list[tuple[Any, Any, Any]] = []  #: what gathers and scatters each group's parameters without a Program

    def open(self, group_of: GroupOf) -> None:
        groups = [group for part in self._parts for group in _groups_of(part._get_fsdp_state())]
        self._own = [(group, group._all_gather_comm, group._reduce_scatter_comm) for group in groups]
        gather, scatter = _Gather(group_of("UNSHARD")), _Scatter(group_of("REDUCE_GRAD"))
        for part in self._parts:
            part.set_custom_all_gather(gather)
            part.set_custom_reduce_scatter(scatter)
            part.set_force_sum_reduction_for_comms(self._on_cpu)  # gloo has no mean
        self.module.set_reshard_after_forward(False)
        self.module.set_reshard_after_backward(False)
        self._accumulate()

    def close(self) -> None:
        for group, gather, scatter in self._own:
            group._all_gather_comm, group._reduce_scatter_comm = gather, scatter
        self._own = []
        for part in self._parts:
            part.set_force_sum_reduction_for_comms(False)
        self.module.set_reshard_after_forward(True)
        self.module.set_reshard_after_backward(True)
        self.module.set_is_last_backward(True)
        self.module.set_requires_gradient_sync(True)

    def gather(self) -> None:
        for part in self._parts:
            part.unshard()

    def release(self) -> None:
        for part in self._parts:
            part.reshard()

    def reduce(self, gradients: Sequence[Any]) -> None:
        """FSDP writes them to the sharded parameters. These are the steps of PyTorch's own pipeline stages."""
        self.module.set_is_last_backward(True)
        self.module.set_requires_gradient_sync(True)
        root = self.module._get_fsdp_state()
        for state in root._state_ctx.all_states:
            for group in _groups_of(state):
                group.post_backward()
        root._root_post_backward_final_callback()
        self._accumulate()

    def _accumulate(self) -> None:
        """Backwards leave their gradients where they are, unreduced."""
        self.module.set_is_last_backward(False)
        self.module.set_requires_gradient_sync(False)


def replicas_of(number: int, module: Any) -> Whole:
    """Raises Error for a wrapper that cannot follow a Program."""
    if isinstance(module, DistributedDataParallel):
        return Copied(module)
    if _is_fsdp(module):
        return Sharded(number, module)
    names = {kind.__name__ for part in module.modules() for kind in type(part).__mro__}
    inside = sorted(names & {"FSDPModule", "FullyShardedDataParallel", "DistributedDataParallel", "SyncBatchNorm"})
    inside += [f"parameter {name} over a mesh" for name, p in module.named_parameters() if _is_distributed(p)]
    if inside:
        raise Error(f"the module of stage {number} communicates inside of its computation, which no proof covers",
                    found=inside[0], expected="a plain module, or all of it in fully_shard or DistributedDataParallel")
    return Whole(module)


def _groups_of(state: Any) -> list[Any]:
    """Of parameters that FSDP gathers together: several since PyTorch 2.14, before that one or none."""
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)
    return [] if state._fsdp_param_group is None else [state._fsdp_param_group]


def _is_distributed(tensor: Any) -> bool:
    """A DTensor. By name, as below: importing its package takes long, and plain modules do not need it."""
    return type(tensor).__name__ == "DTensor" or hasattr(tensor, "device_mesh")


def _is_fsdp(module: Any) -> bool:
    return any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__)


def _shards(number: int, module: Any) -> tuple[tuple[int, ...], Any]:
    """The processes that a stage is sharded over, and their group."""
    parameters = dict(module.named_parameters())
    if not parameters:
        raise Error(f"stage {number} has no parameters to shard", expected="a module that is not in fully_shard")
    whole = [name for name, parameter in parameters.items() if not _is_distributed(parameter)]
    if whole:
        raise Error(f"stage {number} has parameters that fully_shard leaves whole", found=whole[0],
                    expected="all of them sharded")
    meshes = {parameter.device_mesh for parameter in parameters.values()}
    if len(meshes) != 1:
        raise Error(f"the parameters of stage {number} are sharded over several meshes", expected="one")
    (mesh,) = meshes
    odd = [name for name, p in parameters.items() if len(p.placements) != 1 or not p.placements[0].is_shard()]
    if odd:
        raise Error(f"parameter {odd[0]} of stage {number} is placed as {parameters[odd[0]].placements}",
                    expected="fully_shard on a mesh of one dimension")
    return tuple(int(rank) for rank in mesh.mesh.flatten().tolist()), mesh.get_group()


class _Gather:
    """Replaces FSDP's own all-gather: the same on the group of the Program's collective."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def allocate(self, size: Sequence[int], *, dtype: Any, device: Any) -> Any:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> Any:
        return _all_gather(output_tensor, input_tensor, group=self._group, async_op=async_op)


class _Scatter(_Gather):
    """The same of its reduce-scatter."""

    def __call__(  # type: ignore[override]
        self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False
    ) -> Any:
        return _reduce_scatter(output_tensor, input_tensor, op=op, group=self._group, async_op=async_op)
