"""Ask a person for a decision, and record the answer with a proof of consent.

All decisions of persons are made here: amendments, the first plan, mandates, approvals of machines,
accepted results, discarded edits, and claims that contradict evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from eventstore.errors import WrongExpectedVersion
from eventstore.event import Actor
from lifecycle.errors import NeedsConsent, NoAnswer, Refused
from service.consent import proof as consent
from service.consent.consent_weaknesses import DecisionState, explain_invalid_decision, statement_of
from service.errors import FilesBehind, VersionConflict
from service.root.atomic_files import utc_text

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from service.consent.proof import Consenter, PlannedApproval
    from service.writing.stream_writer import WriteOptions

#: Maximum number of attempts to record an answer while other programs append events.
_REBINDINGS = 20


class DecisionWriter(Protocol):
    """The parts of a workflow's or machine's writer that a decision needs."""

    log: Any
    files: Any
    writer: Any
    actor: Actor
    clock: Any

    def state(self) -> Any:
        """Return the current state of the workflow or machine."""

    def first_answer(self, options: WriteOptions) -> Any:
        """Return the result of an earlier command with this id, or None if the id is new."""

    def handle(self, *commands: Payload, options: WriteOptions) -> Any:
        """Record the events of the commands."""


class Question(Protocol):
    """A question to a person, at a certain version of a log.

    ``subject`` is its name, and ``head`` is the hash of the last event in ``state``. ``signers``
    are the allowed signers. ``statement`` is the content to approve, as canonical JSON.
    """

    @property
    def state(self) -> Any:
        """Return the state of the workflow or machine, with policy and version."""

    @property
    def subject(self) -> str:
        """Return the name of the subject to decide on."""

    @property
    def head(self) -> str:
        """Return the hash of the last event at the time of the question."""

    def check_same(self, now: Self) -> None:
        """Raise an error if the later question ``now`` has another content."""

    def build_command(self, proof: dict[str, Any]) -> Payload:
        """Return the command to record after the person agreed, with the proof."""

    def objection(self, given: PlannedApproval) -> str | None:
        """Return the reason why the decision would be invalid, or None if it is valid."""

    def outdated_error(self) -> Exception:
        """Return the error for an answer that was given at another version of the log."""


Q = TypeVar("Q", bound=Question)


def ask_and_record_decision(
    service: DecisionWriter,
    ask: Callable[[], Q],
    consenter_for: Callable[[str], Consenter],
    options: WriteOptions,
    asked: Payload,
) -> Any | None:
    """Ask a person for a decision, and record it. Return None if the answer is no.

    ``ask`` returns the current question. ``consenter_for`` returns the object that asks the person
    under a consent policy. Raises `NeedsConsent` if no person can be asked or if the proof would be
    invalid. If the question has changed meanwhile, raises the error that the question defines. Each
    error is recorded as a refusal of ``asked``.
    """
    first = service.first_answer(options)
    if first is not None:
        return first
    try:
        shown = ask()
        check_expected_version(service, shown.state.head, options)
        consenter = consenter_for(shown.state.consent)
        return (
            _record_answer(service, shown, ask, consenter, options)
            if consenter.ask(shown)
            else None
        )
    except NoAnswer:  # a typing error is not an attempt to avoid approval
        raise
    except (Refused, NeedsConsent) as refusal:
        service.writer.record_refusal([asked], refusal)
        raise


def _record_answer(
    service: DecisionWriter,
    shown: Q,
    ask: Callable[[], Q],
    consenter: Consenter,
    options: WriteOptions,
) -> Any:
    """Record the answer at the newest version of the log, if the question is the same.

    If another program appends an event at the same time, try again.
    """
    for _ in range(_REBINDINGS):
        record_manual_edits(service)
        now = ask()
        shown.check_same(now)
        command = build_proven_command(service, now, consenter)
        exact = options._replace(expected_version=now.state.head, exact=True)
        try:
            return service.handle(command, options=exact)
        except (WrongExpectedVersion, VersionConflict):
            if options.expected_version is not None:
                raise
    raise WrongExpectedVersion(service.log.stream, shown.state.head, service.state().head)


def check_expected_version(service: DecisionWriter, head: int, options: WriteOptions) -> None:
    """Raise `WrongExpectedVersion` if the log is not at the expected version."""
    if options.expected_version not in (None, head):
        raise WrongExpectedVersion(service.log.stream, int(options.expected_version or 0), head)


def record_manual_edits(service: DecisionWriter) -> None:
    """Record manual edits of the generated files now.

    Otherwise, such an edit could be recorded later, between the question and the proof, and make
    the proof invalid.
    """
    # Ignore an error of the disk here. It occurs again after the decision is recorded, and is
    # reported then.
    with suppress(FilesBehind):
        service.files.record_foreign_changes()


def build_proven_command(
    service: DecisionWriter, question: Question, consenter: Consenter
) -> Payload:
    """Return the command that records an approved decision, with the proof of consent.

    Raises `NeedsConsent` if the proof would be invalid.
    """
    proof = consent.build_consent_proof(consenter, question, service.log.store)
    if proof is None:
        raise question.outdated_error()
    command = question.build_command(proof)
    now = utc_text(service.clock())
    planned = consent.PlannedApproval(command.as_json(), question.head, service.actor, now)
    why = service.log.approvals.pin_objection() or question.objection(planned)
    if why is not None:
        raise NeedsConsent(
            f"the approval of {question.subject} would not be valid: {why}. Nothing was recorded.",
            subject=question.subject,
            why=why,
        )
    return command


def hash_at(service: DecisionWriter, version: int) -> str:
    """Return the hash of the event with this version."""
    [event] = service.log.store.read(service.log.stream, after=version - 1, upto=version)
    return str(event.hash)


def approver_in(proof: Mapping[str, Any]) -> str:
    """Return the name of the person in a proof of consent."""
    return str(proof.get("signer") or proof.get("by") or "user")


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """A question to a person about a command that contains its own proof."""

    state: DecisionState
    asked: Payload
    subject: str
    #: The question to show to the person.
    text: str
    head: str
    stream: str

    @property
    def signers(self) -> list[str]:
        """Return the people who may sign approvals, as lines of an allowed-signers file."""
        return self.state.signers

    @property
    def statement(self) -> bytes:
        """Return the content that the person approves or signs, as canonical JSON."""
        said = self.asked.model_dump(mode="json")
        return statement_of(self.state, self.asked.type, said, self.head)

    def check_same(self, now: DecisionQuestion) -> None:
        """Raise an error if the log has changed since the question was shown.

        The content of the command may depend on the version of the log at that time.
        """
        if now.head != self.head:
            raise now.outdated_error()

    def build_command(self, proof: dict[str, Any]) -> Payload:
        """Return the command with the proof and the name of the person."""
        agreed = {"approved_by": approver_in(proof), "proof": proof}
        return self.asked.model_copy(update=agreed)

    def objection(self, given: PlannedApproval) -> str | None:
        """Return the reason why the decision would be invalid, or None if it is valid."""
        return explain_invalid_decision(self.state, self.asked.type, given)

    def outdated_error(self) -> WrongExpectedVersion:
        """Return the error for an answer that was given at another version of the log."""
        return WrongExpectedVersion(self.stream, "the head that was agreed to", self.state.head)


def question_of_command(
    service: DecisionWriter, command: Payload, subject: str, text: str
) -> DecisionQuestion:
    """Return the question to a person about a command, at the newest version of the log.

    Manual edits of the generated files are recorded first.
    """
    record_manual_edits(service)
    state = service.state()
    head = hash_at(service, state.head)
    return DecisionQuestion(state, command, subject, text, head, service.log.stream)
