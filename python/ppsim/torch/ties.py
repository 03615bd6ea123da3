"""Weights that stages share: which parameters of a module belong to which parameter block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ppsim.errors import Error
from ppsim.execution import Plan

#: Of each shared block: by stage, the names of its parameters in the stage's module, in one order.
Tied = Sequence[Mapping[int, str | Sequence[str]]]


class Ties:
    """A stage's own block is its lowest; the others it shares, and `tied` says which parameters they are.

    Raises Error for names of no block, and for shared blocks that are not named.
    """

    def __init__(self, plan: Plan, tied: Tied) -> None:
        self._plan = plan
        shared = {block: stages for block, stages in enumerate(plan.execution.blocks) if self._is_shared(block, stages)}
        self._names: dict[int, dict[int, list[str]]] = {}
        for item in tied:
            names = {int(stage): [of] if isinstance(of, str) else list(of) for stage, of in item.items()}
            block = next((b for b, stages in shared.items() if b not in self._names and sorted(stages) == sorted(names)), None)
            if block is None:
                raise Error("tied= names stages that share no parameter block of the program", found=str(sorted(names)),
                            expected=str([sorted(stages) for stages in shared.values()] or "ppsim.lower(schedule, tied=True)"))
            self._check_counts(names)
            self._names[block] = names
        unnamed = sorted(set(shared) - set(self._names))
        if unnamed:
            raise Error(f"stages {shared[unnamed[0]]} share parameter block {unnamed[0]}, and a module does not say which "
                        "parameters these are", code="refused",
                        expected=f'tied=[{{{", ".join(f"{stage}: name" for stage in shared[unnamed[0]])}}}]')
        if self._names and plan.execution.asynchronous:
            raise Error("a program with weight versions has shared parameter blocks", code="refused",
                        expected="a synchronous schedule")

    def check(self, stages: Mapping[int, Any]) -> None:
        """Raises Error where a module lacks a parameter."""
        for number, stage in stages.items():
            for block in self._plan.blocks_of[number]:
                self.parameters(block, number, stage.module)

    def parameters(self, block: int, stage: int, module: Any) -> list[Any]:
        """Those of a stage that belong to a block. Raises Error where the module has none of a name."""
        known = dict(module.named_parameters())
        shared = {of: [_found(name, known, stage) for name in names[stage]] for of, names in self._names.items() if stage in names}
        if block in shared:
            return shared[block]
        taken = {id(parameter) for parameters in shared.values() for parameter in parameters}
        return [parameter for parameter in known.values() if parameter.requires_grad and id(parameter) not in taken]

    def _is_shared(self, block: int, stages: Sequence[int]) -> bool:
        return any(self._plan.blocks_of[stage][0] != block for stage in stages)

    @staticmethod
    def _check_counts(names: Mapping[int, Sequence[str]]) -> None:
        counts = {stage: len(of) for stage, of in names.items()}
        if len(set(counts.values())) > 1 or 0 in counts.values():
            raise Error("tied= names another number of parameters in each stage", found=str(dict(names)),
                        expected="as many in each, in one order")


def in_words(tied: Tied) -> str:
    """The same where processes say the same."""
    return str([sorted(item.items()) for item in tied])


def _found(name: str, known: Mapping[str, Any], stage: int) -> Any:
    if name not in known or not known[name].requires_grad:
        trained = [other for other, parameter in known.items() if parameter.requires_grad]
        raise Error(f"the module of stage {stage} has no such parameter to train", found=name, expected=", ".join(trained))
    return known[name]
