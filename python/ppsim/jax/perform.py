"""The work of each kind of action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ppsim.execution import TRANSFERS, Action, Instruction
from ppsim.jax.data import Data
from ppsim.jax.layout import Layout
from ppsim.jax.processes import Processes
from ppsim.jax.stage import Arrays, Stage
from ppsim.jax.weights import Weights


class Performer:
    """Runs what the driver says, whenever it says so, and waits until it is done."""

    def __init__(
        self, layout: Layout, stages: dict[int, Stage], data: Data, weights: Weights, devices: list[Any],
        processes: Processes | None,
    ) -> None:
        self._layout, self._stages, self._data, self._processes = layout, stages, data, processes
        self._weights, self._devices = weights, devices
        self._do: dict[str, Callable[[Action, int], Arrays]] = {
            "F": self._forward,
            "B": self._backward,
            "I": self._backward_input,
            "W": self._backward_weight,
            "R": lambda action, _: self._stages[action.subject].recompute(action.number),
            "OPT": lambda action, rank: self._weights.update(action.subject, action.number, rank),
            "REDUCE_GRAD": lambda action, _: self._weights.reduce(action.subject, action.number, action.communicator),
            "COLL": lambda action, _: self._weights.norm(max(action.number, 0), action.communicator),
            "LOAD": lambda action, _: self._data.load(action.subject, action.number),
            "OFFLOAD": self._offload,
            "RELOAD": self._reload,
            "UNSHARD": lambda *_: [],  # every rank has its parameters whole
            "RESHARD": lambda *_: [],
        }

    def perform(self, rank: int, instruction: Instruction, sent: Action | None) -> None:
        """sent: the SEND of an exchange. Computation of several actions is all started before any is waited for."""
        with jax.profiler.TraceAnnotation(f"PP:{instruction.text}"):
            if sent is not None and sent.kind in TRANSFERS:
                found = self._send(sent)
            elif self._processes is not None and instruction.actions[0].kind in TRANSFERS:
                found = self._exchange(rank, instruction.actions[0], self._processes)
            else:
                found = [array for action in instruction.actions for array in self._do[action.kind](action, rank)]
            jax.block_until_ready(found)

    def _forward(self, action: Action, _: int) -> Arrays:
        stage, microbatch = self._stages[action.subject], action.number
        parameters = self._weights.read(action.subject, microbatch)
        inputs = self._data.inputs(action.subject, microbatch)
        batch = self._data.batch(action.subject, microbatch)
        outputs, results = stage.forward(microbatch, parameters, inputs, batch)
        self._data.hand_over(action.subject, microbatch, outputs, results)
        return [*outputs, *results, *stage.cells.get(microbatch, {}).values()]

    def _backward(self, action: Action, _: int) -> Arrays:
        gradients = self._data.output_gradients(action.subject, action.number)
        of_weights, of_inputs = self._stages[action.subject].backward(action.number, gradients)
        self._data.hand_back(action.subject, action.number, of_inputs)
        return [*self._weights.collect(action.subject, action.number, of_weights), *of_inputs]

    def _backward_input(self, action: Action, _: int) -> Arrays:
        stage = self._stages[action.subject]
        found = stage.backward_input(action.number, self._data.output_gradients(action.subject, action.number))
        self._data.hand_back(action.subject, action.number, found)
        return [*found, *stage.cells[action.number].values()]

    def _backward_weight(self, action: Action, _: int) -> Arrays:
        found = self._stages[action.subject].backward_weight(action.number)
        return self._weights.collect(action.subject, action.number, found)

    def _offload(self, action: Action, _: int) -> Arrays:
        saved = self._stages[action.subject].take_saved(action.number)
        self._data.host[action.subject, action.number] = [np.array(value) for value in saved]
        return []

    def _reload(self, action: Action, rank: int) -> Arrays:
        host = self._data.host.pop((action.subject, action.number))
        saved = [jax.device_put(value, self._devices[rank]) for value in host]
        self._stages[action.subject].put_saved(action.number, saved)
        return saved

    def _send(self, action: Action) -> Arrays:
        """Both ends at once."""
        stage, microbatch, peer = action.subject, action.number, action.peer
        if action.kind == "SEND_A":
            return self._send_saved(stage, microbatch, action.peer_rank)
        values = self._data.outgoing(action.kind, stage, microbatch, peer)
        values = [jax.device_put(value, self._devices[action.peer_rank]) for value in values]
        self._data.incoming(action.kind.replace("SEND", "RECV"), peer, microbatch, stage, values)
        return values

    def _exchange(self, rank: int, action: Action, processes: Processes) -> Arrays:
        """One end, of ranks in processes of their own."""
        stage, microbatch, peer = action.subject, action.number, action.peer
        if action.sends:
            values = self._data.outgoing(action.kind, stage, microbatch, peer)
            processes.send(action.communicator, rank, action.peer_rank, values)
            return []
        ends = (peer, stage) if action.kind == "RECV_F" else (stage, peer)
        shapes = self._layout.shapes(*ends, action.kind == "RECV_B")
        values = processes.receive(action.communicator, action.peer_rank, rank, shapes)
        self._data.incoming(action.kind, stage, microbatch, peer, values)
        return values

    def _send_saved(self, stage: int, microbatch: int, to: int) -> Arrays:
        """To the rank that keeps them, or back to the stage's own."""
        key, owner = (stage, microbatch), self._stages[stage]
        goes_home = to == self._layout.rank(stage)
        saved = self._data.lent.pop(key) if goes_home else owner.take_saved(microbatch)
        moved = [jax.device_put(value, self._devices[to]) for value in saved]
        if goes_home:
            owner.put_saved(microbatch, moved)
        else:
            self._data.lent[key] = moved
        return moved
