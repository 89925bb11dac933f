"""A person's decision, asked for in one way whatever it is of, and recorded with the proof."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cli.frame.options import File, Text, option
from lifecycle.errors import NeedsConsent
from service.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.payload.models import Payload
    from lifecycle.state.workflow import Drift
    from reconciler.context import Jobs
    from reconciler.control.stopping import Claims
    from reconciler.control.strangers import AttemptFinding
    from service.writing.amendments import DecisionQuestion
    from service.writing.stream_writer import WriteOptions


DecisionKey = Annotated[
    File, option("--key", "FILE", "Sign the decision with this SSH key (or its .pub)")
]
#: What a dry run records in the place of a proof.
NOBODY: dict[str, Any] = {"policy": "none: a dry run"}


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be recorded, what it is about, and the question as a person reads it."""

    command: Payload
    subject: str
    text: str


def dismissal_of(edit: Drift) -> Decision:
    """Return how a hand edit is dismissed, and what a person agrees to by that."""
    from lifecycle.payload.workflow import DriftReverted

    kept = f"; the edit stays kept as {edit.kept_as}" if edit.kept_as else ""
    return Decision(
        DriftReverted(file=edit.file, detected=edit.version, kept_as=edit.kept_as),
        edit.file,
        f"{edit.file}: the hand edit that was detected at version {edit.version} is dismissed: "
        f"the file stays as the log has it{kept}",
    )


def agreed(service: Any, decision: Decision, line: str, key: Path | None) -> tuple[Payload, int]:
    """Ask a person; return the command with the proof, and the version that it is bound to.

    ``line`` is the command that a person runs at a terminal. Raises `NeedsConsent`, which is
    recorded as a refusal.
    """
    from cli.frame.consent import Wording, consenter_of
    from service.writing.amendments import decided

    def consenter_for(policy: str) -> Any:
        if policy == "signature" and key is None:
            raise NeedsConsent(
                f"{decision.subject}: this is agreed to by a signature here: give --key FILE."
            )
        wording = Wording(lambda asked: cast("DecisionQuestion", asked).text, line)
        return consenter_of(policy, service.actor, key, None, wording)

    try:
        return decided(service, decision.command, decision.subject, decision.text, consenter_for)
    except NeedsConsent as refusal:
        service.writer.record_refusal([decision.command], refusal)
        raise


def decide(
    service: Any, decisions: Sequence[Decision], line: str, key: Path | None, options: WriteOptions
) -> Any:
    """Ask a person of each decision, record those that were agreed to, and return the outcome."""
    if len(decisions) > 1 and options.command_id is not None:
        raise InvalidOption("--command-id is of one decision; name one, or leave it out")
    outcomes = [_decide(service, one, line, key, options) for one in decisions]
    if not outcomes:
        return service.handle(options=options)
    events = tuple(event for one in outcomes for event in one.events)
    planned = tuple(one for outcome in outcomes for one in outcome.planned)
    return replace(outcomes[-1], events=events, planned=planned)


def _decide(
    service: Any, decision: Decision, line: str, key: Path | None, options: WriteOptions
) -> Any:
    command = decision.command
    options = replace(options, content={command.type: command.model_dump(mode="json")})
    if options.dry_run:
        return service.handle(command.model_copy(update={"proof": NOBODY}), options=options)
    first = service.first_answer(options)
    if first is not None:
        return first
    if options.expected_version not in (None, service.state().head):
        return service.handle(command, options=options)  # raises: it is another version
    command, head = agreed(service, decision, line, key)
    return service.handle(command, options=replace(options, expected_version=head, exact=True))


Overrule = Annotated[
    Text, option("--overrule", "TEXT", "Reason to decide against the evidence (a person decides).")
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
    from reconciler.control.stopping import Claims

    if overruling is None:
        return Claims(jobs)
    return Claims(jobs, lambda finding, claim: _upheld(jobs, overruling, finding, claim, options))


def _upheld(
    jobs: Jobs, overruling: Overruling, finding: AttemptFinding, claim: Any, options: WriteOptions
) -> tuple[Payload, int]:
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
