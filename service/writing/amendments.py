"""Ask a person about an amendment (change of the plan), and record the decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eventstore.event import Actor
from lifecycle.errors import ImpactChanged, NeedsConsent
from lifecycle.fold.evolve import plan_version_after_approval
from lifecycle.payload import models as p
from lifecycle.rules.amendments import check_amendment_still_applies, get_open_amendment
from lifecycle.rules.impact import Impact, compute_approval_impact
from lifecycle.state.workflow import Amendment, Workflow
from service.consent import proof as consent
from service.consent.proof import Consenter
from service.consent.scripts import find_scripts_after_amendment
from service.root.atomic_files import utc_text
from service.writing.decision import approver_in, ask_and_record_decision, hash_at
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome, Service


@dataclass(frozen=True, slots=True)
class AmendmentQuestion:
    """A question to a person: an amendment, its impact, and the version of the log."""

    root: Path
    state: Workflow
    amendment: Amendment
    impact: Impact
    head: str
    kept: Mapping[str, int]
    #: Scripts that the plan runs, each with its current SHA-256.
    scripts: Mapping[str, str]

    @property
    def subject(self) -> str:
        """Return the id of the amendment that the question is about."""
        return self.amendment.id

    @property
    def signers(self) -> list[str]:
        """Return the people who may sign approvals, as lines of an allowed-signers file."""
        return self.state.signers

    @property
    def digest(self) -> str:
        """Return the digest of everything that the person sees before deciding."""
        return consent.shown_content_digest(self.state, self.amendment, self.impact, self.scripts)

    @property
    def statement(self) -> bytes:
        """Return the content that the person approves or signs, as canonical JSON."""
        return consent.build_statement(
            self.state, self.amendment, self.impact, self.head, self.scripts
        )

    def check_digest(self, agreed: str) -> None:
        """Raise `ImpactChanged` if this question differs from the one the person saw.

        ``agreed`` is the digest of the question that the person saw.
        """
        if self.digest != agreed:
            raise ImpactChanged(self.amendment.id, agreed, self.digest)

    def check_same(self, now: AmendmentQuestion) -> None:
        """Raise `ImpactChanged` if the later question ``now`` has another content."""
        now.check_digest(self.digest)

    def build_command(self, proof: dict[str, Any]) -> p.AmendmentApproved:
        """Return the command that records the approval, with its proof."""
        kept = {stage: k for stage, k in self.kept.items() if stage in self.impact.affected}
        return p.AmendmentApproved(
            amendment=self.amendment.id,
            version=plan_version_after_approval(self.state, self.amendment),
            invalidated_stages=list(self.impact.affected),
            approved_by=approver_in(proof),
            proof=proof,
            kept=kept,
            scripts=dict(self.scripts),
        )

    def objection(self, given: consent.PlannedApproval) -> str | None:
        """Return the reason why this approval would be invalid, or None if valid."""
        return consent.explain_invalid_approval(self.state, given)

    def outdated_error(self) -> ImpactChanged:
        """Return the error for an approval that was given at another version of the log."""
        return ImpactChanged(self.amendment.id, "another head", self.head)


def build_question(service: Service, id_: str) -> AmendmentQuestion:
    """Return the question to a person about an amendment that waits for a decision.

    Raises `UnknownAmendment`, `AmendmentDecided` or `StaleAmendment` if there is no such amendment,
    if it is already decided, or if it no longer fits the workflow.
    """
    state = service.state()
    amendment = get_open_amendment(state, id_)
    check_amendment_still_applies(state, amendment)
    root, head = service.root.path, hash_at(service, state.head)
    kept = find_newest_archive_numbers(root, state)
    impact = compute_approval_impact(state, amendment, kept, utc_text(service.clock()))
    scripts = find_scripts_after_amendment(root, state, amendment)
    return AmendmentQuestion(root, state, amendment, impact, head, kept, scripts)


def find_newest_archive_numbers(root: Path, state: Workflow) -> dict[str, int]:
    """Return the highest number of the archived folders (``stage-2.v3``) of each stage."""
    found: dict[str, int] = {}
    for path in root.glob("*.v*"):
        stage, _, number = path.name.rpartition(".v")
        if stage in state.stages and number.isdecimal():
            found[stage] = max(found.get(stage, 0), int(number))
    return found


def approve_amendment(
    service: Service,
    id_: str,
    consenter: Consenter,
    options: WriteOptions,
    agreed: str | None = None,
) -> Outcome | None:
    """Ask a person to approve an amendment, and record the approval and its consequences.

    Return None if the person does not agree. ``agreed`` is the digest of a question that the person
    saw elsewhere. Raises `ImpactChanged` if the question has changed since, and `NeedsConsent` if
    the proof would be invalid. Both errors are recorded as refusals.
    """

    def ask() -> AmendmentQuestion:
        question = build_question(service, id_)
        if agreed is not None:
            question.check_digest(agreed)
        return question

    options = options._replace(content={"approve": id_})
    asked = p.AmendmentApproved(amendment=id_)
    outcome: Outcome | None = ask_and_record_decision(
        service, ask, lambda _: consenter, options, asked
    )
    approvals = service.log.approvals
    if outcome is None or outcome.repeated:
        return outcome
    if outcome.state.consent == "signature" or approvals.is_pinned():
        approvals.pin(outcome.state)
    return outcome


def preview_approval_events(service: Service, id_: str, options: WriteOptions) -> Outcome:
    """Return the events that an approval would record. Ask nobody, and write nothing."""
    command = build_question(service, id_).build_command({"policy": "none: a dry run"})
    return service.handle(command, options=options)


def check_not_agent(actor: Actor, id_: str) -> None:
    """Raise `NeedsConsent` if the actor is an agent and not a person."""
    if actor.kind == "agent":
        raise NeedsConsent(
            f"only a person can decide about {id_}, and {actor.kind}:{actor.name} is not a "
            "person. A person must decide at a terminal or with a signature.",
            amendment=id_,
            actor=f"{actor.kind}:{actor.name}",
        )
