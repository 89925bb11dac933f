"""Approvals given: what a person is asked of a machine, and how the answer is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, Protocol

from eventstore.errors import WrongExpectedVersion
from lifecycle.errors import NeedsConsent
from lifecycle.machines.decide import check_approval
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import MachineApproved
from projections.words.signs import spelled
from service.consent import proof as proofs
from service.machines.consent import objection, statement_of
from service.machines.errors import VersionConflict
from service.machines.evidence import look
from service.machines.service import MachineOutcome, MachineService
from service.root.clock import utc_text
from service.writing.amendments import check_person
from service.writing.stream_writer import WriteOptions

#: How often an approval is bound anew because somebody appended in between.
_REBINDINGS = 20


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked: an approval, perhaps a choice, and the head they were read at."""

    state: Machine
    approval: str
    choice: str | None
    head: str
    #: The files that it is of, as they are now: path → SHA-256 in hex.
    files: Mapping[str, str]

    @property
    def subject(self) -> str:
        """What is agreed to, by its name."""
        return f"{self.state.id} {self.approval}"

    @property
    def signers(self) -> list[str]:
        """Who may agree by a signature."""
        return self.state.signers

    @property
    def statement(self) -> bytes:
        """What is agreed to, as canonical JSON: this is what is signed."""
        return statement_of(self.state, self.approval, self.choice, self.head, self.files)

    @property
    def text(self) -> str:
        """The question as a person reads it."""
        definition = self.state.definition
        lines = [
            f"{self.state.id} ({definition.title}), in {self.state.phase}",
            *self._limit(),
            definition.approvals[self.approval].asks,
            *([f"chosen: {self.choice}"] if self.choice else []),
            *(f"of {path}, SHA-256 {sha256}" for path, sha256 in self.files.items()),
        ]
        return "\n".join(map(spelled, lines))

    def _limit(self) -> list[str]:
        """Say which limit led here, and what was asked for then: that question is open still."""
        move = self.state.last_move
        if move is None or not move.is_diverted:
            return []
        used = f"{move.loop} is used up ({move.count} of {move.limit})"
        return [f"{used}: from {move.source} it was to go to {move.asked} once more"]


class Consenter(Protocol):
    """A person's agreement under one policy."""

    def ask(self, question: Question) -> bool:
        """Say whether the person agrees; raises `NeedsConsent` where nobody can be asked."""

    def prove(self, question: Question) -> dict[str, Any] | None:
        """Return the proof for a question that was agreed to; None where it holds no longer."""


def question_of(service: MachineService, approval: str, choice: str | None) -> Question:
    """Return what is asked now; raises where the approval or the choice is none."""
    state = service.state()
    check_approval(state, approval)
    events = service.log.store.read(service.log.stream, after=state.head - 1, upto=state.head)
    chosen = _chosen(service, state, choice)
    files = state.files_at_stake(chosen, service.evidence(state))
    return Question(state, approval, chosen, next(events).hash, files)


def options_of(service: MachineService, state: Machine) -> list[str]:
    """Return the files that a person chooses among in the present phase."""
    if state.is_final:
        return []
    pattern = state.definition.phases[state.phase].options
    if not pattern:
        return []
    return list(look(service.root.path, [pattern])[pattern].since(state.visit.earlier).found)


def _chosen(service: MachineService, state: Machine, choice: str | None) -> str | None:
    options = options_of(service, state)
    if choice is None:
        if len(options) > 1:
            raise InvalidInput(
                f"one of these is chosen, say which with --choice: {', '.join(options)}",
                options=options,
            )
        return options[0] if options else None
    named = [path for path in options if choice in (path, PurePath(path).name, PurePath(path).stem)]
    if len(named) != 1:
        raise InvalidInput(
            f"{choice!r} is none of what can be chosen: {', '.join(options) or 'nothing'}",
            choice=choice,
            options=options,
        )
    return named[0]


def approve(
    service: MachineService,
    approval: str,
    choice: str | None,
    consenter_for: Callable[[str], Consenter],
    options: WriteOptions,
) -> MachineOutcome | None:
    """Record the approval; None where the person did not agree.

    ``consenter_for`` returns how a person agrees under a policy. Raises `NeedsConsent` where
    nobody can be asked or the proof would not count; it is kept as a refusal.
    """
    asked = MachineApproved(approval=approval, choice=choice)
    options = replace(options, content={"approve": asked.model_dump(mode="json")})
    first = service.first_answer(options)
    if first is not None:
        return first
    try:
        return _approve(service, approval, choice, consenter_for, options)
    except NeedsConsent as refusal:
        service.record_refusal([asked], refusal)
        raise


def _approve(
    service: MachineService,
    approval: str,
    choice: str | None,
    consenter_for: Callable[[str], Consenter],
    options: WriteOptions,
) -> MachineOutcome | None:
    shown = question_of(service, approval, choice)
    if options.expected_version not in (None, shown.state.head):
        error = WrongExpectedVersion(
            service.log.stream, int(options.expected_version or 0), shown.state.head
        )
        raise VersionConflict(shown.state.id, error)
    if shown.state.stands(approval, service.evidence(shown.state)):
        return MachineOutcome((), (), shown.state)
    consenter = consenter_for(shown.state.consent)
    if shown.state.consent == "terminal":
        check_person(service.actor, shown.subject)
    if not consenter.ask(shown):
        return None
    return _bound(service, shown, consenter, options)


def _bound(
    service: MachineService, shown: Question, consenter: Consenter, options: WriteOptions
) -> MachineOutcome:
    for _ in range(_REBINDINGS):
        service.files.take_in()
        now = question_of(service, shown.approval, shown.choice)
        if (now.state.phase, now.files) != (shown.state.phase, shown.files):
            break
        proof = consenter.prove(now)
        if proof is None:
            break
        command = _command(service, now, proof)
        exact = replace(options, expected_version=now.state.head, exact=True)
        try:
            return service.handle(command, options=exact)
        except VersionConflict:
            if options.expected_version is not None:
                raise
    raise NeedsConsent(
        f"{shown.subject}: the machine moved on while it was asked; nothing was recorded. Look at "
        "it and answer anew.",
        machine=shown.state.id,
        approval=shown.approval,
    )


def _command(service: MachineService, question: Question, proof: dict[str, Any]) -> MachineApproved:
    who = str(proof.get("signer") or proof.get("by") or "user")
    command = MachineApproved(
        approval=question.approval,
        choice=question.choice,
        phase=question.state.phase,
        approved_by=who,
        proof=proof,
        files=dict(question.files),
    )
    now = utc_text(service.clock())
    planned = proofs.Planned(command.model_dump(mode="json"), question.head, service.actor, now)
    why = objection(question.state, planned)
    if why is not None:
        raise NeedsConsent(
            f"the approval {question.subject} would not count: {why}. Nothing was recorded.",
            machine=question.state.id,
            why=why,
        )
    return command
