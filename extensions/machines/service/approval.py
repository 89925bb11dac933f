"""Ask a person for an approval of a phase machine, and record the answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from eventstore.chain import canonical_json, sha256_hex
from eventstore.errors import WrongExpectedVersion
from extensions.machines.rules.decide import require_approval_possible, require_withdrawal_possible
from extensions.machines.rules.definition import DEFINITION
from extensions.machines.rules.errors import InvalidInput
from extensions.machines.rules.machine import ApprovalScope, Machine
from extensions.machines.rules.payload import MachineApproved, MachineWithdrawn
from extensions.machines.service.guard_facts import collect_pattern_facts
from extensions.machines.service.log import (
    collect_unaccepted_definition,
    explain_invalid_approval,
    statement_of,
    withdrawal_of,
)
from extensions.machines.service.service import MachineOutcome, MachineService
from lifecycle.errors import NeedsConsent
from projections.words.text import spell_unseen
from service.consent.proof import Consenter, PlannedApproval
from service.errors import VersionConflict
from service.writing.decision import approver_in, ask_and_record_decision, check_expected_version
from service.writing.stream_writer import WriteOptions

#: Maximum number of characters of a value that is shown in the question to a person.
_LONG = 400

Asked = MachineApproved | MachineWithdrawn


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """A question to a person about an approval of a machine.

    ``head`` is the hash of the newest event when the question was prepared.
    """

    state: Machine
    approval: str
    choice: str | None
    head: str
    #: The files and fields that the approval covers, with their current values.
    bound: ApprovalScope
    #: Whether the person is asked to withdraw the approval.
    withdraws: bool = False

    @property
    def subject(self) -> str:
        """The id of the machine and the name of the approval."""
        return f"{self.state.id} {self.approval}"

    @property
    def signers(self) -> list[str]:
        """The people who can give approvals with a signature."""
        return self.state.signers

    @property
    def statement(self) -> bytes:
        """The statement that is signed, as canonical JSON."""
        if self.withdraws:
            return withdrawal_of(self.state, self.approval, self.head)
        return statement_of(self.state, self.approval, self.choice, self.head, self.bound)

    def check_same(self, now: ApprovalQuestion) -> None:
        """Raise `NeedsConsent` if the phase, files or fields changed since the question."""
        if (now.state.phase, now.bound) != (self.state.phase, self.bound):
            raise self.outdated_error()

    def build_command(self, proof: dict[str, Any]) -> Asked:
        """Return the command that records the answer with its proof of consent."""
        known: dict[str, Any] = {"phase": self.state.phase, "approved_by": approver_in(proof)}
        if not self.withdraws:
            known |= self.bound._asdict()
        command = build_request(self.approval, self.choice, self.withdraws)
        return command.model_copy(update={**known, "proof": proof})

    def objection(self, given: PlannedApproval) -> str | None:
        """Return the reason why the recorded answer would be ignored, or None."""
        return explain_invalid_approval(
            self.state, build_request(self.approval, None, self.withdraws).type, given
        )

    def outdated_error(self) -> NeedsConsent:
        """Return the error that reports that the machine changed during the decision."""
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
        """The question as text for a person."""
        state, move = self.state, self.state.last_move
        lines = [f"{state.id} ({state.definition.title}), in {state.phase}"]
        if move is not None and move.is_diverted:
            # Show the limit of the loop that led to this phase, because it is the reason for the
            # question.
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
        """Return lines that list the approved values and files, and the next phases."""
        ways = [way.to for way in self.state.definition.list_approval_transitions(self.approval)]
        agreed = collect_unaccepted_definition(self.state) if self.approval == DEFINITION else {}
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
    """Return a value as JSON. If the JSON is long, it is cut and followed by its digest."""
    text = canonical_json(value).decode()
    more = f"… ({len(text)} characters of JSON, SHA-256 {sha256_hex(text.encode())})"
    return text if len(text) <= _LONG else text[:_LONG] + more


def question_of(
    service: MachineService, approval: str, choice: str | None, *, withdraws: bool = False
) -> ApprovalQuestion:
    """Return the question about an approval for a person.

    Raises an error if the approval or the choice does not exist, or cannot be given now.
    """
    state = service.state()
    (require_withdrawal_possible if withdraws else require_approval_possible)(state, approval)
    events = service.log.store.read(service.log.stream, after=state.head - 1, upto=state.head)
    head = next(events).hash
    if withdraws:
        return ApprovalQuestion(state, approval, None, head, ApprovalScope(), withdraws=True)
    if approval == DEFINITION and state.definition_agreed is not None:
        return ApprovalQuestion(state, approval, None, head, ApprovalScope({}, {}))
    chosen = _choose_file(service, state, choice)
    files = state.collect_approval_files(approval, chosen, service.evidence(state))
    bound = ApprovalScope(files, state.collect_approval_values(approval))
    return ApprovalQuestion(state, approval, chosen, head, bound)


def _choose_file(service: MachineService, state: Machine, choice: str | None) -> str | None:
    """Return the file that a person chose, or None if the phase has no such files.

    Raises `InvalidInput` if the choice is missing or is not exactly one of the files.
    """
    pattern = None if state.is_final else state.definition.phases[state.phase].options
    facts = collect_pattern_facts(service.root.path, [pattern]) if pattern else {}
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
    """Ask a person to give or withdraw an approval, and record the answer.

    Returns None if the person did not agree. ``consenter_for`` returns the method by which a person
    gives consent under a consent policy. Raises `NeedsConsent` if nobody can be asked, or if the
    proof of consent would be invalid. A refusal for an invalid proof is recorded.
    """
    command = build_request(approval, choice, withdraws)
    options = options._replace(content={"approve": command.model_dump(mode="json")})
    first = service.first_answer(options)
    if first is not None:
        return first

    def ask() -> ApprovalQuestion:
        return question_of(service, approval, choice, withdraws=withdraws)

    try:
        state = ask().state
        check_expected_version(service, state.head, options)
        if _is_already_in_force(service, state, approval, withdraws):
            return MachineOutcome((), (), state)
        outcome: MachineOutcome | None
        outcome = ask_and_record_decision(service, ask, consenter_for, options, command)
    except WrongExpectedVersion as error:
        raise VersionConflict(service.log.machine, error) from error
    return outcome


def _is_already_in_force(
    service: MachineService, state: Machine, approval: str, withdraws: bool
) -> bool:
    """Return whether the requested approval or withdrawal is in force already."""
    if withdraws:
        return approval not in state.approvals
    return state.is_approval_up_to_date(approval, service.evidence(state))


def build_request(approval: str, choice: str | None, withdraws: bool) -> Asked:
    """Return the command that requests an approval or its withdrawal."""
    if withdraws:
        return MachineWithdrawn(approval=approval)
    return MachineApproved(approval=approval, choice=choice)
