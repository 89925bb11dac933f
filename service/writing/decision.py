"""A person's decision: requested, bound to the head of a log, and recorded with its proof.

Amendments, the first plan, mandates, approvals of machines, adopted results, dismissed edits and
overruled claims are all decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from eventstore.errors import WrongExpectedVersion
from eventstore.event import Actor
from lifecycle.errors import NeedsConsent, NoAnswer, Refused
from service.consent import proof as consent
from service.consent.consent_weaknesses import Decided, explain_invalid_decision, statement_of
from service.errors import FilesBehind, VersionConflict
from service.root.atomic_files import utc_text

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from service.consent.proof import Consenter, Planned
    from service.writing.stream_writer import WriteOptions

#: Maximum number of times an answer is bound to a newer head.
_REBINDINGS = 20


class Writing(Protocol):
    """The parts of a workflow's or machine's writer that a decision needs."""

    log: Any
    files: Any
    writer: Any
    actor: Actor
    clock: Any

    def state(self) -> Any:
        """Return the state of the decision's subject."""

    def first_answer(self, options: WriteOptions) -> Any:
        """Return the result of an earlier command with this id, None for a new id."""

    def handle(self, *commands: Payload, options: WriteOptions) -> Any:
        """Record the commands."""


class Question(Protocol):
    """A question to a person at one head of a log.

    ``subject`` is its name, ``head`` the hash of the last event of ``state``, ``signers`` the
    allowed signers, ``statement`` the approved content as canonical JSON.
    """

    @property
    def state(self) -> Any:
        """Return the state of the subject, with the policy and the version of the head."""

    @property
    def subject(self) -> str:
        """Return the name of the subject."""

    @property
    def head(self) -> str:
        """Return the hash of the head at which the question was read."""

    def check_same(self, now: Self) -> None:
        """Raise an error if ``now``, read at a later head, is another question."""

    def build_command(self, proof: dict[str, Any]) -> Payload:
        """Return the event to record after a person agreed."""

    def objection(self, given: Planned) -> str | None:
        """Return why the record would not be valid, None if it would be."""

    def outdated_error(self) -> Exception:
        """Return the error for an approval at another head."""


Q = TypeVar("Q", bound=Question)


def take_decision(
    service: Writing,
    ask: Callable[[], Q],
    consenter_for: Callable[[str], Consenter],
    options: WriteOptions,
    asked: Payload,
) -> Any | None:
    """Ask a person, and record the decision, and return None if the person did not agree.

    ``ask`` returns the current question, ``consenter_for`` the way to agree under a policy. Raises
    `NeedsConsent` if nobody can be asked or the proof would not be valid, and the question's own
    error if it changed meanwhile; each is recorded as a refusal of ``asked``.
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
    service: Writing, shown: Q, ask: Callable[[], Q], consenter: Consenter, options: WriteOptions
) -> Any:
    """Record the answer at the newest head with the same question."""
    for _ in range(_REBINDINGS):
        take_in_edits(service)
        now = ask()
        shown.check_same(now)
        command = prove_command(service, now, consenter)
        exact = replace(options, expected_version=now.state.head, exact=True)
        try:
            return service.handle(command, options=exact)
        except (WrongExpectedVersion, VersionConflict):
            if options.expected_version is not None:
                raise
    raise WrongExpectedVersion(service.log.stream, shown.state.head, service.state().head)


def check_expected_version(service: Writing, head: int, options: WriteOptions) -> None:
    """Raise `WrongExpectedVersion` if the caller expects another version than the head."""
    if options.expected_version not in (None, head):
        raise WrongExpectedVersion(service.log.stream, int(options.expected_version or 0), head)


def take_in_edits(service: Writing) -> None:
    """Record foreign changes of the files, so that none comes between a head and its proof."""
    # An error of the disk here occurs again after the decision is recorded, and is then reported.
    with suppress(FilesBehind):
        service.files.take_in()


def prove_command(service: Writing, question: Question, consenter: Consenter) -> Payload:
    """Return the command of an approved question, with the proof at its head.

    Raises `NeedsConsent` for a proof that would be ignored.
    """
    proof = consent.build_consent_proof(consenter, question, service.log.store)
    if proof is None:
        raise question.outdated_error()
    command = question.build_command(proof)
    now = utc_text(service.clock())
    planned = consent.Planned(command.as_json(), question.head, service.actor, now)
    why = service.log.approvals.pin_objection() or question.objection(planned)
    if why is not None:
        raise NeedsConsent(
            f"the approval of {question.subject} would not be valid: {why}. Nothing was recorded.",
            subject=question.subject,
            why=why,
        )
    return command


def hash_at(service: Writing, version: int) -> str:
    """Return the hash of the event at a version."""
    [event] = service.log.store.read(service.log.stream, after=version - 1, upto=version)
    return str(event.hash)


def approver_in(proof: Mapping[str, Any]) -> str:
    """Return the name of the person in a proof."""
    return str(proof.get("signer") or proof.get("by") or "user")


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """A question to a person about a command that carries its own proof."""

    state: Decided
    asked: Payload
    subject: str
    #: The text of the question for the person.
    text: str
    head: str
    stream: str

    @property
    def signers(self) -> list[str]:
        """Return the allowed signers."""
        return self.state.signers

    @property
    def statement(self) -> bytes:
        """Return the approved and signed content, as canonical JSON."""
        said = self.asked.model_dump(mode="json")
        return statement_of(self.state, self.asked.type, said, self.head)

    def check_same(self, now: DecisionQuestion) -> None:
        """See Question. The content of the command was read at the first head."""
        if now.head != self.head:
            raise now.outdated_error()

    def build_command(self, proof: dict[str, Any]) -> Payload:
        """See Question."""
        agreed = {"approved_by": approver_in(proof), "proof": proof}
        return self.asked.model_copy(update=agreed)

    def objection(self, given: Planned) -> str | None:
        """See Question."""
        return explain_invalid_decision(self.state, self.asked.type, given)

    def outdated_error(self) -> WrongExpectedVersion:
        """See Question."""
        return WrongExpectedVersion(self.stream, "the head that was agreed to", self.state.head)


def question_of_command(
    service: Writing, command: Payload, subject: str, text: str
) -> DecisionQuestion:
    """Return the current question about a command, after recording foreign changes."""
    take_in_edits(service)
    state = service.state()
    head = hash_at(service, state.head)
    return DecisionQuestion(state, command, subject, text, head, service.log.stream)
