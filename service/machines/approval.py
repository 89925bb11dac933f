"""Approvals given: what a person is asked of a machine, and how the answer is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from eventstore.chain import canonical, digest
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
        state, move = self.state, self.state.last_move
        lines = [f"{state.id} ({state.definition.title}), in {state.phase}"]
        if move is not None and move.is_diverted:
            # Which limit led here, and what was asked for then: that question is open still.
            used = f"{move.loop} is used up ({move.count} of {move.limit})"
            lines.append(f"{used}: from {move.source} it was to go to {move.asked} once more")
        lines.append(state.known_approvals[self.approval].asks)
        lines += ["this was approved: y takes that back"] if self.withdraws else self._of()
        return "\n".join(map(spelled, lines))

    def _of(self) -> list[str]:
        """Say what the approval is of, each value and file, and where it leads."""
        ways = [way.to for way in self.state.definition.ways_of(self.approval)]
        agreed = definition_of(self.state) if self.approval == DEFINITION else {}
        text = json.dumps(agreed["definition"], indent=2, ensure_ascii=False) if agreed else ""
        return [
            *([f"it leads to {' or '.join(ways)}"] if ways else []),
            *([f"chosen: {self.choice}"] if self.choice else []),
            *(f"of {name}: {_shown(value)}" for name, value in (self.bound.fields or {}).items()),
            *(f"of {path}, SHA-256 {sha256}" for path, sha256 in (self.bound.files or {}).items()),
            *([f"the definition, SHA-256 {agreed['sha256']}:"] if agreed else []),
            *text.splitlines(),
        ]


def _shown(value: Any) -> str:
    """Return a value as JSON; a long one as its beginning and its digest."""
    text = canonical(value).decode()
    more = f"… ({len(text)} letters of JSON, SHA-256 {digest(text.encode())})"
    return text if len(text) <= _LONG else text[:_LONG] + more


def question_of(
    service: MachineService, approval: str, choice: str | None, *, withdraws: bool = False
) -> ApprovalQuestion:
    """Return what is asked now; raises if the approval or the choice does not exist."""
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
    bound = Bound(files, state.values_at_stake(approval))
    return ApprovalQuestion(state, approval, chosen, head, bound)


def _chosen(service: MachineService, state: Machine, choice: str | None) -> str | None:
    """Return which of the files is meant that a person chooses among in the present phase."""
    pattern = None if state.is_final else state.definition.phases[state.phase].options
    facts = look(service.root.path, [pattern]) if pattern else {}
    options = [file for fact in facts.values() for file in fact.since(state.visit.earlier).found]
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
            f"{choice!r} cannot be chosen: expected one of {', '.join(options) or 'nothing'}",
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
    """Record the approval, or that it is taken back; None if the person did not agree.

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
        state = shown.state
        if options.expected_version not in (None, state.head):
            expected = int(options.expected_version or 0)
            error = WrongExpectedVersion(service.log.stream, expected, state.head)
            raise VersionConflict(state.id, error)
        stands = approval in state.approvals
        if not withdraws:
            stands = state.stands(approval, service.evidence(state))
        if stands is not withdraws:
            return MachineOutcome((), (), state)
        consenter = consenter_for(state.consent)
        if state.consent == "terminal":
            check_person(service.actor, shown.subject)
        return _bound(service, shown, consenter, options) if consenter.ask(shown) else None
    except NeedsConsent as refusal:
        service.writer.record_refusal([command], refusal)
        raise


def asked(approval: str, choice: str | None, withdraws: bool) -> Asked:
    """Return the command that asks for an approval, or that takes it back."""
    if withdraws:
        return MachineWithdrawn(approval=approval)
    return MachineApproved(approval=approval, choice=choice)


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
