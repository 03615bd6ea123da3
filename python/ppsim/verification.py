"""Properties that hold in every timing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ppsim._native import _core
from ppsim.arguments import Long, checked
from ppsim.costs import Costs, costs_of, sources_of
from ppsim.errors import CheckFailed, Deadlock, DoesNotFit, Error, FileError, IllFormed, Mismatch, Unknown
from ppsim.lowering import program_of
from ppsim.memory_text import memory_line, size_text
from ppsim.targets import check_alone, program_for
from ppsim.values import Value

_MOST_LINES = 40


@dataclass(frozen=True)
class PropertyVerdict(Value):
    """The answer to one property.

    verdict: proved, refuted or unknown; method: graph, flow, static, ...
    counterexample: of what is refuted, under the keys of `ppsim verify --json`; lines: the same as text
    reason: of what is unknown; notes: beside the verdict
    microbatches, holds_up_to: of all numbers of microbatches, the smallest that breaks it, whose Program has the
    counterexample; the one up to which each was found to hold, where no more is known
    """

    name: str
    verdict: str
    method: str = ""
    seconds: float = field(default=0.0, compare=False)
    counterexample: dict[str, Any] | None = field(default=None, hash=False)
    lines: list[str] = field(default_factory=list, hash=False)
    reason: str = ""
    notes: list[str] = field(default_factory=list, hash=False)
    microbatches: int | None = None
    holds_up_to: int | None = None


@dataclass(frozen=True)
class RankMemory(Value):
    """The most memory of a rank over all timings.

    bytes: alive at once; pool_bytes: of the static plan of addresses, where there is one;
    communicator_bytes: of the transport, beside it
    Over all numbers of microbatches m an upper bound: bytes + bytes_per_period * (m // period); reached_at is an m
    that needs it.
    """

    rank: int
    bytes: int
    pool_bytes: int | None = None
    communicator_bytes: int = 0
    bytes_per_period: int = 0
    period: int = 1
    reached_at: int | None = None


class Certificate:
    """A proof that `check` follows without a solver."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._data = _loaded("certificate", text)
        if "program_hash" not in self._data or "properties" not in self._data:
            raise FileError("no certificate", code="bad_file", expected="the text of Certificate.to_json")

    @property
    def program_hash(self) -> str:
        return str(self._data["program_hash"])

    @property
    def properties(self) -> list[str]:
        """The properties that it proves."""
        return list(self._data["properties"])

    @checked
    def check(self, program: _core.Program, *, costs: Costs | None = None) -> None:
        """Raises Error naming the first claim that does not hold of this Program, with these sizes."""
        _core.check_certificate(self._text, program, sources_of(costs))

    def to_json(self) -> str:
        """The file that `ppsim check-certificate` reads."""
        return self._text

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        return cls(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self._data == other._data

    def __hash__(self) -> int:
        return hash((self.program_hash, *self.properties))

    def __repr__(self) -> str:
        return f"<ppsim.Certificate of {self.program_hash}: {', '.join(self.properties)}>"


@dataclass(frozen=True)
class Verdict:
    """The answers to all properties that were asked.

    ok, and the truth value: every one is proved, and fits
    transport: what it holds for
    memory: the worst case of each rank, where sizes are known
    certificate: the proof, where well_formed, matched and deadlock_free are proved
    about: what was read, where that is not what was given: the pipeline of a job
    all_microbatches: for which numbers of microbatches it holds, and why, where they were asked about; else empty
    makespan_ns: the shortest and the longest step at these costs, where makespan was asked for
    """

    program: _core.Program
    transport: str
    properties: dict[str, PropertyVerdict]
    memory: list[RankMemory] = field(default_factory=list)
    memory_limit_bytes: int | None = None
    certificate: Certificate | None = None
    about: str = ""
    all_microbatches: list[str] = field(default_factory=list)
    makespan_ns: tuple[int, int] | None = None

    @property
    def ok(self) -> bool:
        return all(p.verdict == "proved" for p in self.properties.values()) and self.fits is not False

    def __bool__(self) -> bool:
        return self.ok

    @property
    def fits(self) -> bool | None:
        """Whether every rank keeps to the limit, pool and communicators included; None: not asked, unknown."""
        memory = self.properties.get("memory")
        if self.memory_limit_bytes is None or memory is None or memory.verdict == "unknown":
            return None
        limit = self.memory_limit_bytes
        return memory.verdict == "proved" and all(
            (rank.pool_bytes or rank.bytes) + rank.communicator_bytes <= limit for rank in self.memory
        )

    @property
    def report(self) -> str:
        """All of it as text."""
        lines = [self.about] if self.about else []
        lines.append(f"transport {self.transport}")
        width = max((len(name) for name in self.properties), default=0)
        for name, answer in self.properties.items():
            lines.append(f"{name:{width}}  {answer.verdict:8}  {answer.method}".rstrip())
        for answer in self.properties.values():
            lines += _explained(answer)
        if self.all_microbatches:
            lines.append("what the schedule was taken to be:")
            lines += [f"  {line}" for line in self.all_microbatches]
        if self.makespan_ns is not None:
            lines.append(f"the step takes {self.makespan_ns[1] / 1e6:g} ms")
        if self.memory:
            limit = "" if self.memory_limit_bytes is None else f", limit {size_text(self.memory_limit_bytes)}"
            every = " and all numbers of microbatches m" if self.all_microbatches else ""
            lines.append(f"worst-case memory over all timings{every}{limit}:")
            lines += [f"  {memory_line(rank)}" for rank in self.memory]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report

    def __hash__(self) -> int:
        return hash((self.program, self.transport))

    def __repr__(self) -> str:
        answers = ", ".join(f"{name} {answer.verdict}" for name, answer in self.properties.items())
        return f"<ppsim.Verdict for {self.transport}: {answers}>"

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self.report)}</pre>"

    def to_json(self) -> str:
        return json.dumps(
            {
                "format": "ppsim-verdict",
                "program": json.loads(self.program.to_json()),
                "transport": self.transport,
                "properties": {name: vars(answer) for name, answer in self.properties.items()},
                "memory": [vars(rank) for rank in self.memory],
                "memory_limit_bytes": self.memory_limit_bytes,
                "certificate": self.certificate and self.certificate.to_json(),
                "about": self.about,
                "all_microbatches": self.all_microbatches,
                "makespan_ns": self.makespan_ns,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        """The inverse of to_json. Raises FileError."""
        data = _loaded("verdict", text)
        try:
            if data.pop("format") != "ppsim-verdict":
                raise KeyError("format")
            return cls(
                program=_core.Program.from_json(json.dumps(data["program"])),
                transport=data["transport"],
                properties={name: PropertyVerdict(**answer) for name, answer in data["properties"].items()},
                memory=[RankMemory(**rank) for rank in data["memory"]],
                memory_limit_bytes=data["memory_limit_bytes"],
                certificate=data["certificate"] and Certificate(data["certificate"]),
                about=data["about"],
                all_microbatches=data["all_microbatches"],
                makespan_ns=data.get("makespan_ns") and tuple(data["makespan_ns"]),
            )
        except (TypeError, KeyError, AttributeError) as wrong:
            raise FileError(f"no verdict: {wrong}", code="bad_file", expected="the text of Verdict.to_json") from wrong


def _loaded(what: str, text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (TypeError, ValueError, RecursionError) as wrong:
        raise FileError(f"no {what}: {wrong}", code="bad_file", expected=f"the text of {what.title()}.to_json") from wrong
    if not isinstance(data, dict):
        raise FileError(f"no {what}", code="bad_file", expected=f"the text of {what.title()}.to_json")
    return data


def _explained(answer: PropertyVerdict) -> list[str]:
    lines = [f"{answer.name}: {note}" for note in answer.notes]
    if answer.reason:
        lines.append(f"{answer.name}: {answer.reason}")
    if answer.verdict == "refuted":
        first = "" if answer.microbatches is None else f", first at m = {answer.microbatches}"
        lines.append(f"{answer.name} is refuted{first}:")
        lines += [f"  {line}" for line in answer.lines[:_MOST_LINES]]
        if len(answer.lines) > _MOST_LINES:
            lines.append(f"  and {len(answer.lines) - _MOST_LINES} more lines (counterexample has all)")
    return lines


def question_of(
    *,
    transport: str,
    buffers: int | None,
    costs: Costs | None,
    target: str | None = None,
    memory_limit: str | int | None = None,
    properties: Iterable[str] | None = None,
    timeout_s: float,
    cross_check: bool = False,
) -> _core.VerifyQuestion:
    """The question for the C++ side."""
    question = _core.VerifyQuestion()
    question.transport, question.buffers = transport, buffers
    question.target = target
    question.costs = sources_of(costs)
    question.properties = [] if properties is None else list(properties)
    if properties is not None and not question.properties:
        raise Error("no property is asked about", found="properties=[]", expected="names, or None for all that apply")
    question.memory_limit = None if memory_limit is None else _core.parse_size(str(memory_limit))
    question.timeout_s, question.cross_check = timeout_s, cross_check
    return question


@checked
def verify(
    value: _core.Schedule | _core.Program,
    *,
    transport: str = "any",
    communicators: str | None = None,
    buffers: int | None = None,
    costs: Costs | None = None,
    unit: Mapping[str, float] | None = None,
    memory_limit: str | Long | None = None,
    properties: Iterable[str] | None = None,
    timeout_s: float = 60,
    cross_check: bool = False,
    target: str | None = None,
    all_microbatches: bool = False,
) -> Verdict:
    """Proves or refutes, over every timing: no deadlock, no mismatch, memory within the limit.

    value: a Program, or a Schedule, which is lowered by default options under these costs
    transport: what the verdict holds for: any, nccl, nccl-one-queue, mpi, copy or in-process
    communicators: per-rank, per-pair, per-edge or per-stage-edge instead of those it has
    buffers: messages of a channel that the transport buffers; None: rendezvous, which covers every buffering
    memory_limit: of one rank, "80GB" or bytes; default: the GPU's of a model. Needs costs with sizes
    properties: names; default: all that apply but ascending_accumulation and, for which costs are needed, makespan
    target: torch-2.15, torch-2.14, legacy or jaxpp-0.9.2 instead of a transport: as that release runs it, a Schedule in its
    own lowering
    all_microbatches: decides matched, deadlock_free and memory for every number of microbatches at once, of what
    generate gives for a published name without settings; the Verdict's program is that of `value`
    Ctrl-C ends it. That something is refuted is an answer. Raises Error for what cannot be asked, and what `lower` raises
    of a Schedule that has no Program, such as Deadlock where its rows wait for each other.
    """
    known = costs_of(costs, unit)
    if all_microbatches:
        _check_for_all(value, target=target, cross_check=cross_check)
    if target is None:
        program = program_of(value, known, communicators)
    else:
        check_alone(target, buffers=buffers, transport=None if transport in ("any", "nccl") else transport)
        program = program_for(value, target=target, communicators=communicators)
        transport = "nccl"
    question = question_of(
        target=target,
        transport=transport,
        buffers=buffers,
        costs=known,
        memory_limit=memory_limit,
        properties=properties,
        timeout_s=timeout_s,
        cross_check=cross_check,
    )
    if all_microbatches:
        return _for_all(value, program, question, "per-edge" if communicators is None else communicators)
    data = _core.verify(program, question)
    return Verdict(
        program=program,
        transport=data["transport"] if target is None else f"{transport} as {target} uses it",
        properties={answer["name"]: PropertyVerdict(**answer) for answer in data["properties"]},
        memory=[RankMemory(**rank) for rank in data["memory"]],
        memory_limit_bytes=data["memory_limit_bytes"],
        certificate=data["certificate"] and Certificate(data["certificate"]),
        makespan_ns=data["makespan_ns"],
    )


def _check_for_all(value: object, *, target: str | None, cross_check: bool) -> None:
    if not isinstance(value, _core.Schedule):
        raise Error("all_microbatches is for a schedule, not for one Program of it", found=type(value).__name__,
                    expected="ppsim.generate(...)")
    if target is not None or cross_check:
        raise Error("all_microbatches goes without target and cross_check",
                    found="target" if target is not None else "cross_check", expected="verify one number of microbatches")


def _for_all(
    schedule: Any, program: _core.Program, question: _core.VerifyQuestion, communicators: str
) -> Verdict:
    data = _core.verify_all_microbatches(schedule, communicators, question)
    return Verdict(
        program=program,
        transport=data["transport"],
        properties={answer["name"]: PropertyVerdict(**answer) for answer in data["properties"]},
        memory=[RankMemory(**rank) for rank in data["memory"]],
        memory_limit_bytes=data["memory_limit_bytes"],
        all_microbatches=data["coverage"],
    )


_RAISED: dict[str, tuple[type[CheckFailed], str]] = {
    "well_formed": (IllFormed, "ill_formed"),
    "matched": (Mismatch, "ill_formed"),
    "deadlock_free": (Deadlock, "deadlock"),
    "collective_order": (Mismatch, "ill_formed"),
    "ascending_accumulation": (IllFormed, "ill_formed"),
    "weight_versions": (IllFormed, "ill_formed"),
    "tensor_use": (IllFormed, "ill_formed"),
    "memory": (DoesNotFit, "does_not_fit"),
}


def check(value: _core.Schedule | _core.Program, **options: Any) -> Verdict:
    """The same as verify, for scripts and tests: returns the Verdict if it is ok.

    Raises Deadlock, Mismatch, IllFormed, DoesNotFit, whose text is the report and whose counterexample is the
    data, else Unknown.
    """
    return proved(verify(value, **options))


def proved(verdict: Verdict) -> Verdict:
    """The Verdict if it is ok. Raises what check raises."""
    for answer in verdict.properties.values():
        if answer.verdict == "refuted":
            kind, code = _RAISED[answer.name]
            raise kind(
                verdict.report,
                code=code,
                property=answer.name,
                counterexample=answer.counterexample,
                verdict=verdict,
            )
    if verdict.fits is False:
        raise DoesNotFit(verdict.report, code="does_not_fit", property="memory", verdict=verdict)
    if not verdict.ok:
        raise Unknown(verdict.report, verdict=verdict)
    return verdict
