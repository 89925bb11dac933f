"""Claims that a person upholds against the evidence: what is asked, and how that is proved."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lifecycle.errors import NeedsConsent
from lifecycle.payload import models as p
from service.consent.overruling import statement_of
from service.errors import FilesBehind

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow
    from service.writing.workflow_service import Service


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked: a claim against the evidence, and the head it was read at."""

    state: Workflow
    claim: Mapping[str, Any]
    #: What was found, in words.
    found: str
    head: str

    @property
    def subject(self) -> str:
        """What is agreed to, by its name."""
        return f"{self.claim['stage']} {self.claim['attempt']}"

    @property
    def signers(self) -> list[str]:
        """Who may agree by a signature."""
        return self.state.signers

    @property
    def statement(self) -> bytes:
        """What is agreed to, as canonical JSON: this is what is signed."""
        return statement_of(self.state, self.claim, self.head)

    @property
    def text(self) -> str:
        """The question as a person reads it."""
        return (
            f"{self.subject}: the evidence says {self.claim['verdict']}: {self.found}\n"
            f"To be recorded against it: it is {self.claim['claim']} ({self.claim['reason']})."
        )


class Consenter(Protocol):
    """A person's agreement under one policy."""

    def ask(self, question: Question) -> bool:
        """Say whether the person agrees; raises `NeedsConsent` where nobody can be asked."""

    def prove(self, question: Question) -> dict[str, Any] | None:
        """Return the proof for a question that was agreed to; None where it holds no longer."""


def overruled(
    service: Service, claim: Mapping[str, Any], found: str, consenter: Consenter
) -> tuple[p.ClaimOverruled, int]:
    """Ask a person; return the command that records the answer and the version it is bound to.

    ``claim``: the fields of `ClaimOverruled` but for the proof. Raises `NeedsConsent` where the
    person does not agree, or the proof would not count.
    """
    with suppress(FilesBehind):
        # What others did to the files is recorded first: it would come before the proof.
        service.files.take_in()
    state = service.state()
    events = service.log.store.read(service.log.stream, after=state.head - 1, upto=state.head)
    question = Question(state, claim, found, next(events).hash)
    proof = consenter.prove(question) if consenter.ask(question) else None
    if proof is None:
        raise NeedsConsent(f"{question.subject}: nothing was agreed to, and nothing was recorded.")
    by = str(proof.get("signer") or proof.get("by") or "user")
    return p.ClaimOverruled(**claim, approved_by=by, proof=proof), state.head
