"""Tensors that autograd saves for a backward, so that they can move: to host memory and back, or to another rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ppsim.errors import Error

_ALIGNMENT = 64


class Shelf:
    """Tensors that one forward saved. While the forward runs, `hooks` puts them here instead of into the graph.

    Parameters, buffers and the stage's own input stay where they are: `kept` has their storages.
    """

    def __init__(self, kept: Iterable[Any], device: Any) -> None:
        self._kept = {_key(tensor) for tensor in kept}
        self._device = device
        self._storages: list[Any] = []  #: None while they are away
        self._places: list[int] = []  #: first byte of each in its storage
        self._sizes: list[int] = []
        self._numbers: dict[int, int] = {}

    def hooks(self) -> Any:
        """The context in which the forward runs."""
        return torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)

    @property
    def bytes(self) -> int:
        """The result of `take`."""
        return sum(_aligned(size) for size in self._sizes)

    def take(self) -> Any:
        """All of it in one tensor of bytes; the shelf is empty then."""
        if any(storage is None for storage in self._storages):
            raise Error("saved activations are moved that are not there")
        flat = torch.empty(self.bytes, dtype=torch.uint8, device=self._device)
        at = 0
        for storage, place, size in zip(self._storages, self._places, self._sizes, strict=True):
            piece = _bytes_of(storage, place, size, self._device)
            used_here([piece])
            flat[at : at + size].copy_(piece)
            at += _aligned(size)
        self._storages = [None] * len(self._storages)
        return flat

    def put_back(self, flat: Any) -> None:
        """The inverse of `take`."""
        at = 0
        for number, size in enumerate(self._sizes):
            self._storages[number], self._places[number] = flat.untyped_storage(), at
            at += _aligned(size)

    @property
    def on_gpu(self) -> bool:
        """Then its host memory is pinned."""
        return bool(self._device.type == "cuda")

    def to_host(self, host: Any) -> Any:
        """OFFLOAD. host: as many bytes."""
        return host.copy_(self.take(), non_blocking=self.on_gpu)

    def from_host(self, host: Any) -> None:
        """RELOAD."""
        flat = torch.empty(host.shape, dtype=host.dtype, device=self._device)
        self.put_back(flat.copy_(host, non_blocking=True))

    def _pack(self, tensor: Any) -> Any:
        if tensor.device != self._device or _key(tensor) in self._kept or type(tensor) not in _PLAIN:
            return tensor
        storage = tensor.untyped_storage()
        number = self._numbers.get(_key(tensor))
        if number is None:
            number = self._numbers[_key(tensor)] = len(self._storages)
            self._storages.append(storage)
            self._places.append(0)
            self._sizes.append(storage.nbytes())
        return number, tensor.dtype, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride())

    def _unpack(self, packed: Any) -> Any:
        if not isinstance(packed, tuple):
            return packed
        number, dtype, offset, shape, stride = packed
        storage = self._storages[number]
        if storage is None:
            raise Error("a backward reads saved activations that are not there")
        begin = self._places[number] // dtype.itemsize + offset
        tensor = torch.empty(0, dtype=dtype, device=self._device).set_(storage, begin, shape, stride)
        used_here([tensor])
        return tensor


_PLAIN = (torch.Tensor,)


def used_here(tensors: Iterable[Any]) -> None:
    """Tells the allocator of a GPU that the current stream reads or writes memory that another one asked for, so
    that it is not given away before this stream has come so far."""
    for tensor in tensors:
        if tensor is not None and tensor.device.type == "cuda":
            tensor.record_stream(torch.cuda.current_stream(tensor.device))


def _key(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _bytes_of(storage: Any, place: int, size: int, device: Any) -> Any:
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage, place, (size,), (1,))
