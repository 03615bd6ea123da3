"""Programs without proof are refused before anything of them is run."""

from __future__ import annotations

from collections.abc import Iterator

from ppsim._native import _core
from ppsim.costs import Costs, sources_of
from ppsim.errors import Error, Mismatch
from ppsim.execution import Plan
from ppsim.verification import Certificate

#: The properties that a run relies on, as in the C++ executor.
RELIED = ("well_formed", "matched", "deadlock_free", "tensor_use")


def admit(
    program: _core.Program, transport: str, certificate: Certificate | None, unverified: bool, costs: Costs | None
) -> None:
    """Raises Error for a Program that is not proved for the transport, Mismatch for one that mixes data up."""
    mismatches = _core.Execution(program, transport).mismatches()
    if mismatches:
        raise Mismatch("\n".join(mismatches), code="ill_formed", property="matched")
    if unverified:
        return
    if certificate is None:
        wanted = f"ppsim.check(program, transport={transport!r}).certificate"
        raise _refused("the program has no certificate", expected=wanted)
    if certificate.program_hash != program.hash:
        raise _refused("the certificate is of another program", certificate.program_hash, program.hash)
    for name in RELIED:
        if name not in certificate.properties:
            raise _refused(f"the certificate does not cover {name}", ", ".join(certificate.properties), name)
    _core.check_certificate_on(certificate.to_json(), program, transport, sources_of(costs))


def not_computed(plan: Plan, stage: str) -> Iterator[str]:
    """Yields the parts of a plan that no `stage` of a user, a function or a module, computes."""
    if plan.program.slices > 1:
        yield (
            f"it cuts sequences into {plan.program.slices} slices, and a {stage} does not say what it keeps of the "
            "slices before (keys and values)"
        )
    if plan.program.padding:
        yield f"{plan.program.padding} of its microbatches are padding, which no {stage} computes"
    for name in plan.execution.exchanges:
        yield f"collective {name} combines shards of a vocabulary, and a {stage} does not say how"


def _refused(why: str, found: str = "", expected: str = "") -> Error:
    text = why + "; verify it for this transport, or run it with unverified=True"
    return Error(text, code="refused", found=found, expected=expected)
