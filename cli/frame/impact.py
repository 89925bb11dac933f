"""An amendment and its impact in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cli.frame.options import File, Text, option
from lifecycle.rules.foresight import Foresight, foresee
from lifecycle.rules.impact import Impact
from projections.words.amendments import changes, where
from projections.words.text import spelled
from service.errors import InvalidOption
from service.writing.amendments import AmendmentQuestion

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from lifecycle.state.workflow import Workflow
    from reconciler.context import Jobs
    from reconciler.control.fix import Claims
    from reconciler.control.strangers import AttemptFinding
    from service.writing.stream_writer import WriteOptions


def told(question: AmendmentQuestion) -> str:
    """Return what a person is shown before the answer: all that is signed, the change last."""
    amendment = question.amendment
    if amendment.is_plan:
        from projections.words.amendments import plan_lines

        lines = [*plan_lines(question.state), *_runs(question)]
        return "\n".join(spelled(line) for line in lines)
    lines = [
        f"Amendment proposed: {amendment.id} ({amendment.kind}, {where(amendment)})",
        f"Described by its proposer: {amendment.description}",
        f"Reason: {amendment.reason or 'none given'}",
        "Changes:",
        *(f"  {line}" for line in changes(amendment)),
        *_runs(question),
        f"Impact: {'; '.join(consequences(question.impact))}",
        *foreseen(foresee(question.state, amendment, question.impact)),
    ]
    return "\n".join(spelled(line) for line in lines)


def _runs(question: AmendmentQuestion) -> list[str]:
    return [f"Runs: {path}, SHA-256 {sha256}" for path, sha256 in question.scripts.items()]


def foreseen(sight: Foresight) -> list[str]:
    """Return what an approval leaves behind, a line each; nothing where it is nothing."""
    lines = []
    if sight.blocked:
        lines.append(f"Blocked for good: {', '.join(sight.blocked)}")
    if sight.again:
        lines.append(f"Computed again: {', '.join(_again(*one) for one in sight.again)}")
    if sight.judged:
        unless = "computed only where what is kept does not hold"
        lines.append(f"Judged again: {named(sight.judged)} ({unless})")
    if sight.results_kept:
        lines.append(f"Goes on to count: {named(sight.results_kept)}")
    for one in sight.tasks:
        some = f" (some {lasting(one.seconds)})" if one.seconds else ""
        judged = f"{one.judged:,} are judged again, " if one.judged else ""
        lines.append(
            f"Tasks of {one.stage}: {one.kept:,} stay as they are, {judged}{one.computed:,} are "
            f"computed{some}, {one.aside:,} are no more and kept aside"
        )
    return [*lines, *(f"Cheaper: {way}" for way in sight.cheaper)]


def _again(stage: str, seconds: float | None) -> str:
    return stage if seconds is None else f"{stage} (took {lasting(seconds)})"


def lasting(seconds: float) -> str:
    """Return a time in one or two units: ``4 s``, ``3 min 20 s``, ``5 h 12 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def named(ids: Sequence[str]) -> str:
    """Return ids in a line; of many the first and their number."""
    return ", ".join(ids) if len(ids) <= 10 else f"{', '.join(ids[:8])} and {len(ids) - 8} more"


def consequences(impact: Impact) -> list[str]:
    """Return what an approval would bring about, a sentence each."""
    return list(_consequences(impact)) or ["no result is affected"]


def _consequences(impact: Impact) -> Iterator[str]:
    if impact.invalidated:
        yield f"invalidates {', '.join(impact.invalidated)}"
    held = [
        s
        for s in impact.affected
        if s not in {*impact.invalidated, *impact.stopped, *impact.going_on}
    ]
    if held:
        yield f"also affects {', '.join(held)}"
    for stage, attempt in impact.stopped.items():
        yield f"stops {stage}" + (f" ({attempt})" if attempt else "")
    for stage, attempt in impact.going_on.items():
        yield f"lets {stage} ({attempt}) go on, and judges it by the new verdict"
    for stage, folder in impact.kept.items():
        yield f"keeps {stage}/ as {folder}/"
    if impact.seconds:
        yield f"throws away {lasting(sum(impact.seconds.values()))} of computing"


def with_pins(document: Any, root: Path) -> Any:
    """Return a plan in which ``session_config.pin: scripts`` holds the files as they are now."""
    config = document.get("session_config") if isinstance(document, dict) else None
    if not isinstance(config, dict) or config.get("pin") != "scripts":
        return document
    from service.consent.scripts import scripts_of

    def pinning(files: dict[str, str]) -> dict[str, Any]:
        return {**document, "session_config": {**config, "pin": files}}

    return pinning(scripts_of(root, _state_of(pinning({}))))


def begun_with(document: Any, root: Path) -> Workflow:
    """Return the workflow that would begin with a plan; raises `InvalidPlan`."""
    return _state_of(with_pins(document, root))


def _state_of(document: Any) -> Workflow:
    from lifecycle.plan.document import create
    from service.writing.workflow_service import planned_state

    now = "1970-01-01T00:00:00.000000Z"
    command: Payload = create(document, created=now, root={})
    return planned_state(((command, now),))


Overrule = Annotated[
    Text, option("--overrule", "TEXT", "Why it is so against the evidence (a person)")
]
Key = Annotated[File, option("--key", "FILE", "Sign --overrule with this SSH key (or its .pub).")]


@dataclass(frozen=True, slots=True)
class Overruling:
    """Why a person says otherwise than the evidence, and the key that signs it."""

    reason: str
    key: Path | None = None


def overruling_of(reason: str | None, key: Path | None) -> Overruling | None:
    """Return what was asked for; raises `InvalidOption` for a key without a reason."""
    if reason is None and key is not None:
        raise InvalidOption("--key signs what --overrule TEXT says; give both")
    if reason is not None and not reason.strip():
        raise InvalidOption("--overrule says why it is so against the evidence; found no text")
    return Overruling(reason, key) if reason is not None else None


def claims_of(jobs: Jobs, overruling: Overruling | None, options: WriteOptions) -> Claims:
    """Return how claims are held to the evidence, and who is asked where it denies them."""
    from reconciler.control.fix import Claims

    if overruling is None:
        return Claims(jobs)
    return Claims(jobs, lambda finding, claim: _upheld(jobs, overruling, finding, claim, options))


def _upheld(
    jobs: Jobs, overruling: Overruling, finding: AttemptFinding, claim: Any, options: WriteOptions
) -> tuple[Payload, int]:
    from cli.frame.deciding import NOBODY, Decision, agreed
    from lifecycle.payload import models as p

    service, found = jobs.service, finding.verdict
    command = p.ClaimOverruled(
        stage=finding.stage,
        attempt=finding.attempt,
        claim=claim,
        verdict=found.name,
        reason=overruling.reason,
        proof=NOBODY if options.dry_run else {},
    )
    if options.dry_run:
        return command, service.state().head
    subject = f"{finding.stage} {finding.attempt}"
    text = (
        f"{subject}: the evidence says {found.name}: {found.reason}\n"
        f"To be recorded against it: it is {claim} ({overruling.reason})."
    )
    line = f"wfctl stage {'compute' if claim == 'computed' else 'complete'} {finding.stage}"
    decision = Decision(command, subject, text)
    return agreed(service, decision, f"{line} --overrule TEXT", overruling.key)
