"""Approvals of machines: the question for a person, and the recording of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from eventstore.chain import canonical_json, sha256_hex
from eventstore.errors import WrongExpectedVersion
from extensions.machines.rules.decide import check_approval, check_withdrawal
from extensions.machines.rules.definition import DEFINITION
from extensions.machines.rules.errors import InvalidInput
from extensions.machines.rules.machine import Bound, Machine
from extensions.machines.rules.payload import MachineApproved, MachineWithdrawn
from extensions.machines.service.guard_facts import find_files
from extensions.machines.service.log import (
    definition_of,
    explain_invalid_approval,
    statement_of,
    withdrawal_of,
)
from extensions.machines.service.service import MachineOutcome, MachineService
from lifecycle.errors import NeedsConsent
from projections.words.text import spell_unseen
from service.consent.proof import Consenter, Planned
from service.errors import VersionConflict
from service.writing.decision import approver_in, check_expected_version, take_decision
from service.writing.stream_writer import WriteOptions

#: Maximum number of characters of a value in a question.
_LONG = 400

Asked = MachineApproved | MachineWithdrawn


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """What a person is asked: an approval, perhaps a choice, and the head they were read at."""

    state: Machine
    approval: str
    choice: str | None
    head: str
    #: The files and fields that the approval covers, with their current values.
    bound: Bound
    #: Whether the approval is withdrawn.
    withdraws: bool = False

    @property
    def subject(self) -> str:
        """The name of the approval."""
        return f"{self.state.id} {self.approval}"

    @property
    def signers(self) -> list[str]:
        """The people who can approve with a signature."""
        return self.state.signers

    @property
    def statement(self) -> bytes:
        """The statement to sign, as canonical JSON."""
        if self.withdraws:
            return withdrawal_of(self.state, self.approval, self.head)
        return statement_of(self.state, self.approval, self.choice, self.head, self.bound)

    def check_same(self, now: ApprovalQuestion) -> None:
        """See Question."""
        if (now.state.phase, now.bound) != (self.state.phase, self.bound):
            raise self.outdated_error()

    def build_command(self, proof: dict[str, Any]) -> Asked:
        """See Question."""
        known: dict[str, Any] = {"phase": self.state.phase, "approved_by": approver_in(proof)}
        if not self.withdraws:
            known |= self.bound._asdict()
        command = build_request(self.approval, self.choice, self.withdraws)
        return command.model_copy(update={**known, "proof": proof})

    def objection(self, given: Planned) -> str | None:
        """See Question."""
        return explain_invalid_approval(
            self.state, build_request(self.approval, None, self.withdraws).type, given
        )

    def outdated_error(self) -> NeedsConsent:
        """See Question."""
        return NeedsConsent(
            (
                f"the machine changed while you decided on {self.subject}, so nothing was "
                "recorded. Read the new state, and decide again."
            ),
            machine=self.state.id,
            approval=self.approval,
        )

    @property
    def text(self) -> str:
        """The question as text for people."""
        state, move = self.state, self.state.last_move
        lines = [f"{state.id} ({state.definition.title}), in {state.phase}"]
        if move is not None and move.is_diverted:
            # Show the limit that led to this phase, because its question is still open.
            used = f"the loop {move.loop} reached its limit ({move.count} of {move.limit})"
            lines.append(
                f"{used}: without the limit, {move.source} would change to {move.asked} again"
            )
        lines.append(state.known_approvals[self.approval].asks)
        lines += (
            ["you already approved this; answer y to withdraw the approval"]
            if self.withdraws
            else self._describe_subject()
        )
        return "\n".join(map(spell_unseen, lines))

    def _describe_subject(self) -> list[str]:
        """Return the lines that name the approved values and files, and the next phases."""
        ways = [way.to for way in self.state.definition.ways_of(self.approval)]
        agreed = definition_of(self.state) if self.approval == DEFINITION else {}
        text = json.dumps(agreed["definition"], indent=2, ensure_ascii=False) if agreed else ""
        return [
            *(
                [f"after the approval the machine can change to {' or '.join(ways)}"]
                if ways
                else []
            ),
            *([f"chosen: {self.choice}"] if self.choice else []),
            *(
                f"approves the value of {name}: {_format_value(value)}"
                for name, value in (self.bound.fields or {}).items()
            ),
            *(
                f"approves the file {path}, SHA-256 {sha256}"
                for path, sha256 in (self.bound.files or {}).items()
            ),
            *([f"the definition, SHA-256 {agreed['sha256']}:"] if agreed else []),
            *text.splitlines(),
        ]


def _format_value(value: Any) -> str:
    """Return a value as JSON; a long value is cut and followed by its digest."""
    text = canonical_json(value).decode()
    more = f"… ({len(text)} characters of JSON, SHA-256 {sha256_hex(text.encode())})"
    return text if len(text) <= _LONG else text[:_LONG] + more


def question_of(
    service: MachineService, approval: str, choice: str | None, *, withdraws: bool = False
) -> ApprovalQuestion:
    """Return the question for a person. Raise if the approval or the choice does not exist."""
    state = service.state()
    (check_withdrawal if withdraws else check_approval)(state, approval)
    events = service.log.store.read(service.log.stream, after=state.head - 1, upto=state.head)
    head = next(events).hash
    if withdraws:
        return ApprovalQuestion(state, approval, None, head, Bound(), withdraws=True)
    if approval == DEFINITION and state.definition_agreed is not None:
        return ApprovalQuestion(state, approval, None, head, Bound({}, {}))
    chosen = _choose_file(service, state, choice)
    files = state.files_at_stake(approval, chosen, service.evidence(state))
    bound = Bound(files, state.values_at_stake(approval))
    return ApprovalQuestion(state, approval, chosen, head, bound)


def _choose_file(service: MachineService, state: Machine, choice: str | None) -> str | None:
    """Return the file that a person chose among the options of the current phase."""
    pattern = None if state.is_final else state.definition.phases[state.phase].options
    facts = find_files(service.root.path, [pattern]) if pattern else {}
    options = [file for fact in facts.values() for file in fact.since(state.visit.earlier).found]
    if choice is None:
        if len(options) > 1:
            raise InvalidInput(
                (
                    f"several files can be approved: {', '.join(options)}. Choose one file with "
                    "the option --choice."
                ),
                options=options,
            )
        return options[0] if options else None
    named = [path for path in options if choice in (path, PurePath(path).name, PurePath(path).stem)]
    if len(named) != 1:
        raise InvalidInput(
            f"{choice!r} cannot be chosen; choices: {', '.join(options) or 'none'}",
            choice=choice,
            options=options,
        )
    return named[0]


def record_approval(
    service: MachineService,
    approval: str,
    choice: str | None,
    consenter_for: Callable[[str], Consenter],
    options: WriteOptions,
    *,
    withdraws: bool = False,
) -> MachineOutcome | None:
    """Record an approval or its withdrawal; return None if the person did not agree.

    ``consenter_for`` returns how a person agrees under a policy. Raises `NeedsConsent` if nobody
    can be asked or the proof would be invalid, and records that refusal.
    """
    command = build_request(approval, choice, withdraws)
    options = replace(options, content={"approve": command.model_dump(mode="json")})
    first = service.first_answer(options)
    if first is not None:
        return first

    def ask() -> ApprovalQuestion:
        return question_of(service, approval, choice, withdraws=withdraws)

    try:
        state = ask().state
        check_expected_version(service, state.head, options)
        if _stands_as_asked(service, state, approval, withdraws):
            return MachineOutcome((), (), state)
        outcome: MachineOutcome | None
        outcome = take_decision(service, ask, consenter_for, options, command)
    except WrongExpectedVersion as error:
        raise VersionConflict(service.log.machine, error) from error
    return outcome


def _stands_as_asked(
    service: MachineService, state: Machine, approval: str, withdraws: bool
) -> bool:
    """Return whether the requested approval or withdrawal is already in force."""
    if withdraws:
        return approval not in state.approvals
    return state.stands(approval, service.evidence(state))


def build_request(approval: str, choice: str | None, withdraws: bool) -> Asked:
    """Return the command that requests an approval or its withdrawal."""
    if withdraws:
        return MachineWithdrawn(approval=approval)
    return MachineApproved(approval=approval, choice=choice)
