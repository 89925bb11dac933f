"""Approvals given: what a person is asked of a machine, and how the answer is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from eventstore.codec import canonical, digest
from eventstore.errors import WrongExpectedVersion
from lifecycle.errors import NeedsConsent
from lifecycle.machines.decide import check_approval, check_withdrawal
from lifecycle.machines.definition import DEFINITION
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Bound, Machine
from lifecycle.machines.payload import MachineApproved, MachineWithdrawn
from projections.words.text import spelled
from service.consent import proof as proofs
from service.consent.proof import Consenter
from service.machines.errors import VersionConflict
from service.machines.evidence import look
from service.machines.log import definition_of, objection, statement_of, withdrawal_of
from service.machines.service import MachineOutcome, MachineService
from service.root.disk import utc_text
from service.writing.amendments import check_person
from service.writing.stream_writer import WriteOptions

#: How often an approval is bound anew because somebody appended in between.
_REBINDINGS = 20
#: Letters of a value that a person is shown.
_LONG = 400

Asked = MachineApproved | MachineWithdrawn


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """What a person is asked: an approval, perhaps a choice, and the head they were read at."""

    state: Machine
    approval: str
    choice: str | None
    head: str
    #: The files and fields that it is of, as they are now.
    bound: Bound
    #: Whether the approval is taken back.
    withdraws: bool = False

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
        if self.withdraws:
            return withdrawal_of(self.state, self.approval, self.head)
        return statement_of(self.state, self.approval, self.choice, self.head, self.bound)

    @property
    def text(self) -> str:
        """The question as a person reads it."""
        definition = self.state.definition
        lines = [
            f"{self.state.id} ({definition.title}), in {self.state.phase}",
            *self._limit(),
            self.state.known_approvals[self.approval].asks,
            *(["this was approved: y takes that back"] if self.withdraws else self._of()),
        ]
        return "\n".join(map(spelled, lines))

    def _of(self) -> list[str]:
        """Say what the approval is of, each value and file, and where it leads."""
        ways = [way.to for way in self.state.definition.ways_of(self.approval)]
        return [
            *([f"it leads to {' or '.join(ways)}"] if ways else []),
            *([f"chosen: {self.choice}"] if self.choice else []),
            *(f"of {name}: {_shown(value)}" for name, value in (self.bound.fields or {}).items()),
            *(f"of {path}, SHA-256 {sha256}" for path, sha256 in (self.bound.files or {}).items()),
            *self._definition(),
        ]

    def _definition(self) -> list[str]:
        """Return the text of the definition, where that is what is approved."""
        agreed = definition_of(self.state) if self.approval == DEFINITION else {}
        if not agreed:
            return []
        text = json.dumps(agreed["definition"], indent=2, ensure_ascii=False)
        return [f"the definition, SHA-256 {agreed['sha256']}:", *text.splitlines()]

    def _limit(self) -> list[str]:
        """Say which limit led here, and what was asked for then: that question is open still."""
        move = self.state.last_move
        if move is None or not move.is_diverted:
            return []
        used = f"{move.loop} is used up ({move.count} of {move.limit})"
        return [f"{used}: from {move.source} it was to go to {move.asked} once more"]


def _shown(value: Any) -> str:
    """Return a value as JSON; a long one as its beginning and its digest."""
    text = canonical(value).decode()
    more = f"… ({len(text)} letters of JSON, SHA-256 {digest(text.encode())})"
    return text if len(text) <= _LONG else text[:_LONG] + more


def question_of(
    service: MachineService, approval: str, choice: str | None, *, withdraws: bool = False
) -> ApprovalQuestion:
    """Return what is asked now; raises where the approval or the choice is none."""
    state = service.state()
    (check_withdrawal if withdraws else check_approval)(state, approval)
    events = service.log.store.read(service.log.stream, after=state.head - 1, upto=state.head)
    head = next(events).hash
    if withdraws:
        return ApprovalQuestion(state, approval, None, head, Bound(), withdraws=True)
    if approval == DEFINITION and state.definition_agreed is not None:
        return ApprovalQuestion(state, approval, None, head, Bound({}, {}))
    chosen = _chosen(service, state, choice)
    files = state.files_at_stake(approval, chosen, service.evidence(state))
    return ApprovalQuestion(
        state, approval, chosen, head, Bound(files, state.values_at_stake(approval))
    )


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
    *,
    withdraws: bool = False,
) -> MachineOutcome | None:
    """Record the approval, or that it is taken back; None where the person did not agree.

    ``consenter_for`` returns how a person agrees under a policy. Raises `NeedsConsent` where
    nobody can be asked or the proof would not count; it is kept as a refusal.
    """
    command = asked(approval, choice, withdraws)
    options = replace(options, content={"approve": command.model_dump(mode="json")})
    first = service.first_answer(options)
    if first is not None:
        return first
    try:
        shown = question_of(service, approval, choice, withdraws=withdraws)
        return _answered(service, shown, consenter_for, options)
    except NeedsConsent as refusal:
        service.record_refusal([command], refusal)
        raise


def asked(approval: str, choice: str | None, withdraws: bool) -> Asked:
    """Return the command that asks for an approval, or that takes it back."""
    if withdraws:
        return MachineWithdrawn(approval=approval)
    return MachineApproved(approval=approval, choice=choice)


def _answered(
    service: MachineService,
    shown: ApprovalQuestion,
    consenter_for: Callable[[str], Consenter],
    options: WriteOptions,
) -> MachineOutcome | None:
    if options.expected_version not in (None, shown.state.head):
        error = WrongExpectedVersion(
            service.log.stream, int(options.expected_version or 0), shown.state.head
        )
        raise VersionConflict(shown.state.id, error)
    if _is_so(service, shown):
        return MachineOutcome((), (), shown.state)
    consenter = consenter_for(shown.state.consent)
    if shown.state.consent == "terminal":
        check_person(service.actor, shown.subject)
    if not consenter.ask(shown):
        return None
    return _bound(service, shown, consenter, options)


def _is_so(service: MachineService, shown: ApprovalQuestion) -> bool:
    """Whether nothing is to be recorded: the approval stands, or there is none to take back."""
    if shown.withdraws:
        return shown.approval not in shown.state.approvals
    return shown.state.stands(shown.approval, service.evidence(shown.state))


def _bound(
    service: MachineService, shown: ApprovalQuestion, consenter: Consenter, options: WriteOptions
) -> MachineOutcome:
    for _ in range(_REBINDINGS):
        service.files.take_in()
        now = question_of(service, shown.approval, shown.choice, withdraws=shown.withdraws)
        if (now.state.phase, now.bound) != (shown.state.phase, shown.bound):
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


def _command(service: MachineService, question: ApprovalQuestion, proof: dict[str, Any]) -> Asked:
    who = str(proof.get("signer") or proof.get("by") or "user")
    known: dict[str, Any] = {"phase": question.state.phase, "approved_by": who, "proof": proof}
    command = asked(question.approval, question.choice, question.withdraws)
    if not question.withdraws:
        known |= question.bound._asdict()
    command = command.model_copy(update=known)
    now = utc_text(service.clock())
    planned = proofs.Planned(command.model_dump(mode="json"), question.head, service.actor, now)
    why = objection(question.state, command.type, planned)
    if why is not None:
        raise NeedsConsent(
            f"the approval {question.subject} would not count: {why}. Nothing was recorded.",
            machine=question.state.id,
            why=why,
        )
    return command
