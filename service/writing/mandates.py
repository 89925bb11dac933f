"""Amendments within a mandate: they take effect without another word of a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.fold.evolve import BY_MANDATE
from lifecycle.rules.impact import Impact
from lifecycle.rules.mandates import covering
from lifecycle.state.workflow import Amendment, Workflow
from service.consent.proof import proof_of
from service.root.disk import utc_text
from service.writing.amendments import AmendmentQuestion, approve, question_of
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome, Service


@dataclass(frozen=True, slots=True)
class MandateConsent:
    """Agreement by a mandate (see `Consenter`): a person gave it beforehand."""

    mandate: str

    def ask(self, _question: AmendmentQuestion) -> bool:
        """See Consenter."""
        return True

    def prove(self, question: AmendmentQuestion) -> dict[str, Any] | None:
        """See Consenter."""
        named = {"mandate": self.mandate, "by": f"mandate {self.mandate}"}
        return proof_of(question.statement, BY_MANDATE, **named)


@dataclass(frozen=True, slots=True)
class Cover:
    """The mandate that an amendment is within, None if it is within none; by name why not."""

    mandate: str | None
    why: dict[str, list[str]]

    def __str__(self) -> str:
        if self.mandate is not None:
            return f"within the mandate {self.mandate}: it takes effect without another decision"
        named = (f"{name}: {'; '.join(found)}" for name, found in self.why.items())
        return f"within no mandate ({' | '.join(named)}): a person decides"


def cover_of(
    service: Service, state: Workflow, amendment: Amendment, impact: Impact
) -> Cover | None:
    """Return how the mandates of a workflow stand to an amendment; None if it has none."""
    if not state.mandates:
        return None
    actor = f"{service.actor.kind}:{service.actor.name}"
    # The log had come so far, whatever the clock says.
    at = max(utc_text(service.clock()), state.updated)
    return Cover(*covering(state, amendment, impact, actor, at))


def take_effect(service: Service, id_: str, options: WriteOptions) -> Outcome | None:
    """Approve a pending amendment by the mandate that it is within; None if it is within none."""
    state = service.state()
    known = state.amendments.get(id_)
    if not state.mandates or known is None or known.status != "proposed":
        return None
    try:
        question = question_of(service, id_)
        cover = cover_of(service, question.state, question.amendment, question.impact)
        if cover is None or cover.mandate is None:
            return None
        return approve(service, id_, MandateConsent(cover.mandate), options)
    except (NeedsConsent, Refused):
        return None  # another one used it up meanwhile, or changed the same: it waits for a person
