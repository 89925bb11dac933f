"""Amendments decided: what a person is asked, and how the answer is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from eventstore.errors import WrongExpectedVersion
from eventstore.event import Actor
from lifecycle.errors import ImpactChanged, NeedsConsent, Refused
from lifecycle.fold.evolve import version_after
from lifecycle.payload import models as p
from lifecycle.rules.amendments import check_fits, pending
from lifecycle.rules.impact import Impact, impact_of
from lifecycle.state.status import ACTIVE
from lifecycle.state.workflow import Amendment, Workflow
from projections.screens.next_actions import is_due, resting_on
from service.consent import proof as consent
from service.consent.doubts import Decided, statement_of
from service.consent.proof import Consenter
from service.consent.scripts import scripts_after
from service.errors import FilesBehind
from service.files.foreign_changes import Edit, undecided
from service.files.workflow_files import STATE
from service.root.disk import utc_text
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome, Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.payload.models import Payload


class UndecidedEdit(NeedsConsent):
    """Nothing is dispatched over a definitional hand edit that it would rest on."""

    code = "undecided_edit"

    def __init__(self, stage: str | None, edits: list[Edit]) -> None:
        listed = "".join(f"\n  {edit}" for edit in edits)
        subject = "nothing is" if stage is None else f"{stage} is not"
        super().__init__(
            f"{subject} dispatched: {STATE} was edited by hand, and nobody has decided on it:"
            f"{listed}\n`wfctl drift adopt` proposes it as an amendment, `wfctl drift revert` goes "
            "on with what the log has.",
            stage=stage,
            file=STATE,
            edits=[edit.to_dict() for edit in edits],
        )


def check_edits(service: Service, stage: str) -> None:
    """Raise `UndecidedEdit` where somebody edited what the stage rests on, and nobody decided."""
    state, found = _undecided(service)
    concerned = resting_on(state, stage) if found else ()
    edits = [one for one in found if one.stage in concerned]
    if edits:
        raise UndecidedEdit(stage, edits)


def _undecided(service: Service) -> tuple[Workflow, list[Edit]]:
    service.files.take_in()
    state = service.state()
    # Without one that waits nothing has to be compared.
    return state, undecided(service.root, service.log, state) if state.drifts else []


def check_edits_of_all(service: Service) -> None:
    """Raise `UndecidedEdit` where an edit that nobody decided on keeps all from going on.

    It is one of the workflow's own fields, or all that is due rests on one, and nothing runs.
    """
    state, edits = _undecided(service)
    if not edits:
        return
    edited = {one.stage for one in edits}
    going = [one for one in state.stages.values() if one.open_attempt or one.status in ACTIVE]
    due = [one for one in state.stages.values() if is_due(state, one)]
    held = [one for one in due if edited & set(resting_on(state, one.id))]
    if None in edited or (due and held == due and not going):
        raise UndecidedEdit(None, edits)


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """What a person is asked: a decision, and the head it was read at."""

    state: Decided
    command: Payload
    subject: str
    #: The question as a person reads it.
    text: str
    head: str

    @property
    def signers(self) -> list[str]:
        """Who may agree by a signature."""
        return self.state.signers

    @property
    def statement(self) -> bytes:
        """What is agreed to, as canonical JSON: this is what is signed."""
        said = self.command.model_dump(mode="json")
        return statement_of(self.state, self.command.type, said, self.head)


class Writing(Protocol):
    """The writer of a workflow or of a machine."""

    @property
    def log(self) -> Any:
        """Its log: ``store`` and ``stream``."""

    @property
    def files(self) -> Any:
        """Its files: `take_in` records what others did to them."""

    def state(self) -> Any:
        """Return what is decided about."""


def decided(
    service: Writing,
    command: Payload,
    subject: str,
    text: str,
    consenter_for: Callable[[str], Consenter],
) -> tuple[Payload, int]:
    """Ask a person; return the command with the answer, and the version it is bound to.

    ``consenter_for`` returns how a person agrees under a policy. Raises `NeedsConsent` if the
    person does not agree, or nobody can be asked.
    """
    with suppress(FilesBehind):
        # What others did to the files is recorded first: it would come before the proof.
        service.files.take_in()
    state = service.state()
    question = DecisionQuestion(state, command, subject, text, _hash_at(service, state.head))
    consenter = consenter_for(state.consent)
    proof = consenter.prove(question) if consenter.ask(question) else None
    if proof is None:
        raise NeedsConsent(f"{subject}: nothing was agreed to, and nothing was recorded.")
    agreed = {"approved_by": _named_in(proof), "proof": proof}
    return command.model_copy(update=agreed), state.head


def _named_in(proof: Mapping[str, Any]) -> str:
    return str(proof.get("signer") or proof.get("by") or "user")


def _hash_at(service: Writing, version: int) -> str:
    """Return the hash of the event that the state ends with: the head it was read at."""
    [event] = service.log.store.read(service.log.stream, after=version - 1, upto=version)
    return str(event.hash)


#: How often an approval is bound anew because somebody appended what does not matter to it.
_REBINDINGS = 20


@dataclass(frozen=True, slots=True)
class AmendmentQuestion:
    """What a person is asked: an amendment, its impact, and the head that both were read at."""

    root: Path
    state: Workflow
    amendment: Amendment
    impact: Impact
    head: str
    kept: Mapping[str, int]
    #: The files that the definition runs, as they are now: path → SHA-256 in hex.
    scripts: Mapping[str, str]

    @property
    def subject(self) -> str:
        """What is agreed to, by its name."""
        return self.amendment.id

    @property
    def signers(self) -> list[str]:
        """Who may agree by a signature."""
        return self.state.signers

    @property
    def digest(self) -> str:
        """By which all that was shown is known again: the amendment itself, and its impact."""
        return consent.shown_digest(self.state, self.amendment, self.impact, self.scripts)

    @property
    def statement(self) -> bytes:
        """What is agreed to, as canonical JSON: this is what is signed."""
        return consent.statement_of(
            self.state, self.amendment, self.impact, self.head, self.scripts
        )


def question_of(service: Service, id_: str) -> AmendmentQuestion:
    """Return what is asked of a pending amendment, as things stand now.

    Raises `UnknownAmendment`, `AmendmentDecided`, `StaleAmendment`.
    """
    state = service.state()
    amendment = pending(state, id_)
    check_fits(state, amendment)
    root, head = service.root.path, _hash_at(service, state.head)
    kept = kept_folders(root, state)
    impact = impact_of(state, amendment, kept, utc_text(service.clock()))
    scripts = scripts_after(root, state, amendment)
    return AmendmentQuestion(root, state, amendment, impact, head, kept, scripts)


def kept_folders(root: Path, state: Workflow) -> dict[str, int]:
    """Return by stage the highest K of its kept folders, ``stage-2.vK``, where there is one."""
    found: dict[str, int] = {}
    for path in root.glob("*.v*"):
        stage, _, number = path.name.rpartition(".v")
        if stage in state.stages and number.isdecimal():
            found[stage] = max(found.get(stage, 0), int(number))
    return found


def approve(
    service: Service,
    id_: str,
    consenter: Consenter,
    options: WriteOptions,
    agreed: str | None = None,
) -> Outcome | None:
    """Record the approval and all that follows; None if the person did not agree.

    ``agreed`` is the digest of what was shown elsewhere. Raises `ImpactChanged` where
    the workflow moved on and the impact is another now, `NeedsConsent` where the proof would not
    count; either is kept as a refusal.
    """
    options = replace(options, content={"approve": id_})
    first = service.first_answer(options)
    if first is not None:
        return first
    try:
        return _approve(service, id_, consenter, options, agreed)
    except (Refused, NeedsConsent) as refusal:
        service.writer.record_refusal([p.AmendmentApproved(amendment=id_)], refusal)
        raise


def _approve(
    service: Service, id_: str, consenter: Consenter, options: WriteOptions, agreed: str | None
) -> Outcome | None:
    shown = question_of(service, id_)
    _same_impact(shown, agreed)
    if options.expected_version not in (None, shown.state.head):
        raise WrongExpectedVersion(
            service.log.stream, int(options.expected_version or 0), shown.state.head
        )
    if not consenter.ask(shown):
        return None
    for _ in range(_REBINDINGS):
        # What others did to the files would come between the head and the proof. What the disk
        # refuses here it refuses again once the approval is recorded, and is told.
        with suppress(FilesBehind):
            service.files.take_in()
        now = question_of(service, id_)
        _same_impact(now, shown.digest)
        try:
            return _append(service, now, consenter, options)
        except WrongExpectedVersion:
            if options.expected_version is not None:
                raise
    raise WrongExpectedVersion(service.log.stream, shown.state.head, service.state().head)


def _same_impact(question: AmendmentQuestion, agreed: str | None) -> None:
    if agreed is not None and question.digest != agreed:
        raise ImpactChanged(question.amendment.id, agreed, question.digest)


def _append(
    service: Service, question: AmendmentQuestion, consenter: Consenter, options: WriteOptions
) -> Outcome:
    proof = consenter.prove(question)
    if proof is None:
        raise ImpactChanged(question.amendment.id, "another head", question.head)
    command = _command(question, proof)
    _would_count(service, question, command)
    exact = replace(options, expected_version=question.state.head, exact=True)
    outcome = service.handle(command, options=exact)
    approvals = service.log.approvals
    if outcome.state.consent == "signature" or approvals.is_pinned():
        approvals.pin(outcome.state)
    return outcome


def _command(question: AmendmentQuestion, proof: dict[str, Any]) -> p.AmendmentApproved:
    kept = {stage: k for stage, k in question.kept.items() if stage in question.impact.affected}
    return p.AmendmentApproved(
        amendment=question.amendment.id,
        version=version_after(question.state, question.amendment),
        invalidated_stages=list(question.impact.affected),
        approved_by=_named_in(proof),
        proof=proof,
        kept=kept,
        scripts=dict(question.scripts),
    )


def _would_count(
    service: Service, question: AmendmentQuestion, command: p.AmendmentApproved
) -> None:
    """Raise `NeedsConsent` for a proof that would be recorded and be ignored."""
    planned = consent.Planned(
        data=command.as_json(),
        prev_hash=question.head,
        actor=service.actor,
        occurred_at=utc_text(service.clock()),
    )
    why = service.log.approvals.pin_objection() or consent.objection(question.state, planned)
    if why is not None:
        raise NeedsConsent(
            f"the approval of {question.amendment.id} would not count: {why}. Nothing was written.",
            amendment=question.amendment.id,
            why=why,
        )


def plan_approval(service: Service, id_: str, options: WriteOptions) -> Outcome:
    """Return what an approval would record; nobody is asked and nothing is written."""
    command = _command(question_of(service, id_), {"policy": "none: a dry run"})
    return service.handle(command, options=options)


def check_person(actor: Actor, id_: str) -> None:
    """Raise `NeedsConsent` for an actor that is no person."""
    if actor.kind == "agent":
        raise NeedsConsent(
            f"{id_} is a person's decision and {actor.kind}:{actor.name} is not a person: expected "
            "a user at a terminal, or a signature.",
            amendment=id_,
            actor=f"{actor.kind}:{actor.name}",
        )
