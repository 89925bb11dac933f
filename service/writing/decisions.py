"""What a person decides beside amendments and approvals: what is asked, and how it is proved."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.errors import NeedsConsent
from service.consent.decisions import Decided, statement_of
from service.consent.proof import Consenter
from service.errors import FilesBehind

if TYPE_CHECKING:
    from collections.abc import Callable

    from lifecycle.payload.models import Payload


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
