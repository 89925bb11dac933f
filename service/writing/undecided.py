"""Nothing starts over a hand edit that it would rest on, and that nobody has decided on."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.errors import NeedsConsent
from lifecycle.state.status import ACTIVE
from projections.screens.starting import is_due, resting_on
from service.consent.doubts import Decided, statement_of
from service.consent.proof import Consenter
from service.errors import FilesBehind
from service.files.foreign_changes import Edit, undecided
from service.files.workflow_files import STATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.payload.models import Payload
    from service.writing.workflow_service import Service


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
    service.files.take_in()
    state = service.state()
    # Without one that waits nothing has to be compared.
    if not state.drifts:
        return
    concerned = resting_on(state, stage)
    edits = [one for one in undecided(service.root, service.log, state) if one.stage in concerned]
    if edits:
        raise UndecidedEdit(stage, edits)


def check_edits_of_all(service: Service) -> None:
    """Raise `UndecidedEdit` where an edit that nobody decided on keeps all from going on.

    It is one of the workflow's own fields, or all that is due rests on one, and nothing runs.
    """
    service.files.take_in()
    state = service.state()
    if not state.drifts:
        return
    edits = undecided(service.root, service.log, state)
    edited = {one.stage for one in edits}
    going = [one for one in state.stages.values() if one.open_attempt or one.status in ACTIVE]
    due = [one for one in state.stages.values() if is_due(state, one)]
    held = [one for one in due if edited & set(resting_on(state, one.id))]
    if None in edited or (edits and due and held == due and not going):
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
    events = service.log.store.read(service.log.stream, after=state.head - 1, upto=state.head)
    question = DecisionQuestion(state, command, subject, text, next(iter(events)).hash)
    consenter = consenter_for(state.consent)
    proof = consenter.prove(question) if consenter.ask(question) else None
    if proof is None:
        raise NeedsConsent(f"{subject}: nothing was agreed to, and nothing was recorded.")
    by = str(proof.get("signer") or proof.get("by") or "user")
    return command.model_copy(update={"approved_by": by, "proof": proof}), state.head
