"""The work of each kind of action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ppsim.execution import TRANSFERS, Action, Instruction, Plan
from ppsim.torch.data import Data
from ppsim.torch.devices import HostMemory, warm_up
from ppsim.torch.shelf import used_here
from ppsim.torch.stage import Stage
from ppsim.torch.transfers import Message, Transfers
from ppsim.torch.weights import Weights


class Performer:
    """Runs one instruction, whenever it is told to."""

    def __init__(
        self, plan: Plan, stages: dict[int, Stage], data: Data, weights: Weights, transfers: Transfers
    ) -> None:
        self._plan, self._stages, self._data = plan, stages, data
        self._weights, self._transfers = weights, transfers
        self._host: dict[tuple[int, int], Any] = {}
        self._host_memory = HostMemory()
        self._beside: Any = None  #: the second stream of OVERLAP_F_B
        self._ran_beside: set[tuple[int, int]] = set()  #: cells whose forward it has run; each step the same
        self._do: dict[str, Callable[[Action], None]] = {
            "F": self._forward,
            "B": self._backward,
            "I": self._backward_input,
            "W": self._backward_weight,
            "R": self._recompute,
            "OPT": lambda action: self._weights.update(action.subject, action.number),
            "REDUCE_GRAD": lambda action: self._weights.reduce(
                action.subject, action.number, action.communicator, self._transfers.add
            ),
            "COLL": lambda action: self._weights.norm(
                max(action.number, 0), action.communicator, self._transfers.add, self._transfers.add_shards
            ),
            "LOAD": lambda action: self._data.load(action.subject, action.number),
            "OFFLOAD": self._offload,
            "RELOAD": self._reload,
            "UNSHARD": lambda action: self._stages[action.subject].replicas.gather(),
            "RESHARD": lambda action: self._stages[action.subject].replicas.release(),
        }

    def prepare(self, device: Any) -> None:
        """After shapes are known, before the first step on a GPU: nothing in it may wait for the device."""
        sizes = {number: warm_up(stage, *self._data.example(number)) for number, stage in self._stages.items()}
        self._host_memory.reserve(self._plan, sizes, pinned=device.type == "cuda")

    def perform(self, instruction: Instruction) -> None:
        """Under the name that PyTorch's own schedules give it in a profile."""
        with torch.profiler.record_function(f"PP:{instruction.text}"):
            if instruction.actions[0].kind in TRANSFERS:
                self._exchange(instruction)
            elif len(instruction.actions) == 2:
                self._overlap(*instruction.actions)
            else:
                self._do[instruction.actions[0].kind](instruction.actions[0])

    def _forward(self, action: Action) -> None:
        stage, microbatch = self._stages[action.subject], action.number
        version = self._weights.version(action.subject, microbatch)
        inputs = self._data.inputs(action.subject, microbatch)
        cell = stage.forward(microbatch, inputs, self._data.target(action.subject, microbatch), version)
        self._data.hand_over(action.subject, microbatch, cell.outputs, cell.side, cell.loss)
        cell.side = ()
        if microbatch in stage.recomputed or not stage.trains:
            cell.outputs, cell.loss = (), None
        if not stage.trains:
            del stage.cells[microbatch]

    def _recompute(self, action: Action) -> None:
        self._stages[action.subject].recompute(action.number)
        self._ran_beside.discard((action.subject, action.number))

    def _backward(self, action: Action) -> None:
        gradients = self._data.output_gradients(action.subject, action.number)
        found = self._stages[action.subject].backward(action.number, gradients)
        self._data.hand_back(action.subject, action.number, found)
        self._weights.collect(action.subject, action.number)

    def _backward_input(self, action: Action) -> None:
        gradients = self._data.output_gradients(action.subject, action.number)
        found = self._stages[action.subject].backward_input(action.number, gradients)
        self._data.hand_back(action.subject, action.number, found)

    def _backward_weight(self, action: Action) -> None:
        self._stages[action.subject].backward_weight(action.number)
        self._weights.collect(action.subject, action.number)

    def _overlap(self, forward: Action, backward: Action) -> None:
        """On a GPU side by side on two streams, on a CPU one after the other.

        Autograd runs a backward on the stream of its forward, wherever it is called: so one of a forward that ran
        beside runs there, too, and the new forward here.
        """
        device = self._stages[forward.subject].device
        if device.type != "cuda":
            self._do[forward.kind](forward)
            self._do[backward.kind](backward)
            return
        here = torch.cuda.current_stream(device)
        self._beside = self._beside or torch.cuda.Stream(device)
        self._beside.wait_stream(here)
        away = backward if (backward.subject, backward.number) in self._ran_beside else forward
        if away is forward:
            self._ran_beside.add((forward.subject, forward.number))
        for action in (forward, backward):
            with torch.cuda.stream(self._beside if action is away else here):
                self._do[action.kind](action)
        here.wait_stream(self._beside)

    def _offload(self, action: Action) -> None:
        shelf = self._stages[action.subject].cells[action.number].shelf
        assert shelf is not None
        host = self._host_memory.take(shelf.bytes, shelf.on_gpu)
        self._host[action.subject, action.number] = shelf.to_host(host)

    def _reload(self, action: Action) -> None:
        shelf = self._stages[action.subject].cells[action.number].shelf
        assert shelf is not None
        host = self._host.pop((action.subject, action.number))
        shelf.from_host(host)
        self._host_memory.give(host, shelf.on_gpu)

    def _exchange(self, instruction: Instruction) -> None:
        messages = [Message(action, self._tensors(action)) for action in instruction.actions]
        for message in messages:
            used_here(message.tensors)
        self._transfers.exchange(messages)
        for message in messages:
            if message.action.kind == "RECV_A":
                self._take_saved(message.action, message.tensors[0])

    def _tensors(self, action: Action) -> tuple[Any, ...]:
        stage, microbatch, peer = action.subject, action.number, action.peer
        if action.kind == "SEND_F":
            return self._data.activations_to_send(stage, microbatch, peer)
        if action.kind == "RECV_F":
            return self._data.receive_activations(stage, microbatch, peer)
        if action.kind == "SEND_B":
            return self._data.gradients_to_send(stage, microbatch, peer)
        if action.kind == "RECV_B":
            return self._data.receive_gradients(stage, microbatch, peer)
        if action.kind == "RECV_A":
            return (self._data.receive_saved(stage),)
        return (self._saved(stage, microbatch),)

    def _saved(self, stage: int, microbatch: int) -> Any:
        if not self._plan.is_local(stage):
            return self._data.lent.pop((stage, microbatch))
        shelf = self._stages[stage].cells[microbatch].shelf
        assert shelf is not None
        return self._data.check_saved(stage, shelf.take())

    def _take_saved(self, action: Action, flat: Any) -> None:
        if not self._plan.is_local(action.subject):
            self._data.lent[action.subject, action.number] = flat
            return
        shelf = self._stages[action.subject].cells[action.number].shelf
        assert shelf is not None
        shelf.put_back(flat)
