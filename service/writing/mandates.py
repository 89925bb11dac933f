"""Approve amendments automatically if a mandate (permission given in advance) allows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.fold.evolve import BY_MANDATE, apply_amendment
from lifecycle.rules.impact import Impact
from lifecycle.rules.mandates import find_covering_mandate
from lifecycle.state.workflow import Amendment, Workflow
from lifecycle.words.scripts import explain_unknown_digest, is_content_unknown
from service.consent.proof import build_proof
from service.consent.scripts import find_scripts_to_approve
from service.root.atomic_files import utc_text
from service.writing.amendments import AmendmentQuestion, approve_amendment, build_question
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome, Service
from wording import FirstReasons


@dataclass(frozen=True, slots=True)
class MandateConsent:
    """Consent by a mandate (permission that a person gave in advance), without a question."""

    mandate: str

    def ask(self, _question: AmendmentQuestion) -> bool:
        """Return True, because the person has already agreed in advance."""
        return True

    def prove(self, question: AmendmentQuestion) -> dict[str, Any] | None:
        """Return the proof of consent, which names the mandate."""
        named = {"mandate": self.mandate, "by": f"mandate {self.mandate}"}
        return build_proof(question.statement, BY_MANDATE, **named)


@dataclass(frozen=True, slots=True)
class MandateCoverage:
    """The mandate (permission given in advance) that allows an amendment, or None.

    ``why`` contains the objections by the name of each mandate that does not allow it.
    """

    mandate: str | None
    why: dict[str, list[str]]

    def __str__(self) -> str:
        if self.mandate is not None:
            return (
                f"within the mandate {self.mandate}: the amendment takes effect without another "
                "decision"
            )
        named = (f"{name}: {'; '.join(found)}" for name, found in self.why.items())
        return f"within no mandate ({' | '.join(named)}): a person decides"


def find_mandate_coverage(
    service: Service, state: Workflow, amendment: Amendment, impact: Impact
) -> MandateCoverage | None:
    """Return the mandate that allows an amendment, with the objections of the others.

    Return None if the workflow has no mandates (permissions given in advance).
    """
    if not state.mandates:
        return None
    actor = f"{service.actor.kind}:{service.actor.name}"
    # The clock may be behind the newest event. Use the later of both times, so that an expired
    # mandate is not used.
    at = max(utc_text(service.clock()), state.updated)
    name, why = find_covering_mandate(state, amendment, impact, actor, at)
    unknown = (
        _explain_unknown_scripts(service, state, amendment, impact) if name is not None else []
    )
    if name is not None and unknown:
        return MandateCoverage(None, {**why, name: FirstReasons(unknown)})
    return MandateCoverage(name, why)


def _explain_unknown_scripts(
    service: Service, state: Workflow, amendment: Amendment, impact: Impact
) -> list[str]:
    """Return a reason for each script without a known digest that would run again."""
    changed = state.draft()
    apply_amendment(changed, amendment)
    again = {*amendment.targets, *impact.again} & {*changed.stages}
    found = (
        find_scripts_to_approve(service.root.path, changed, changed.stages[id_]) for id_ in again
    )
    unknown = {item for one in found for item in one.items() if is_content_unknown(item[1])}
    return [explain_unknown_digest(*item) for item in sorted(unknown)]


def approve_by_mandate(service: Service, id_: str, options: WriteOptions) -> Outcome | None:
    """Approve a waiting amendment by a mandate (permission given in advance).

    Return None if no mandate allows it, or if another change came first. A person must then decide.
    """
    state = service.state()
    known = state.amendments.get(id_)
    if not state.mandates or known is None or known.status != "proposed":
        return None
    try:
        question = build_question(service, id_)
        cover = find_mandate_coverage(service, question.state, question.amendment, question.impact)
        if cover is None or cover.mandate is None:
            return None
        return approve_amendment(service, id_, MandateConsent(cover.mandate), options)
    except (NeedsConsent, Refused):
        return None  # another amendment came first, so a person must decide
