"""A person's word against the evidence: ``--overrule`` of ``stage compute`` and ``complete``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from lifecycle.errors import NeedsConsent
from service.errors import InvalidOption

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from reconciler.context import Jobs
    from reconciler.control.claims import Claims
    from reconciler.control.finding import Finding
    from service.writing.overruling import Question
    from service.writing.stream_writer import WriteOptions

Overrule = Annotated[
    str | None,
    typer.Option("--overrule", metavar="TEXT", help="Why it is so against the evidence (a person)"),
]
Key = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="Sign --overrule with this SSH key (or its .pub)."),
]


@dataclass(frozen=True, slots=True)
class Overruling:
    """Why a person says otherwise than the evidence, and the key that signs it."""

    reason: str
    key: Path | None = None


def overruling_of(reason: str | None, key: Path | None) -> Overruling | None:
    """Return what was asked for; raises `InvalidOption` for a key without a reason."""
    if reason is None and key is not None:
        raise InvalidOption("--key signs what --overrule TEXT says; give both")
    if reason is not None and not reason.strip():
        raise InvalidOption("--overrule says why it is so against the evidence; found no text")
    return Overruling(reason, key) if reason is not None else None


def claims_of(jobs: Jobs, overruling: Overruling | None, options: WriteOptions) -> Claims:
    """Return how claims are held to the evidence, and who is asked where it denies them."""
    from reconciler.control.claims import Claims

    if overruling is None:
        return Claims(jobs)
    return Claims(jobs, lambda finding, claim: _upheld(jobs, overruling, finding, claim, options))


def _upheld(
    jobs: Jobs, overruling: Overruling, finding: Finding, claim: str, options: WriteOptions
) -> tuple[Payload, int]:
    from cli.frame.consent import Wording, consenter_of
    from lifecycle.payload import models as p
    from service.writing.overruling import overruled

    service, state = jobs.service, jobs.service.state()
    words: dict[str, Any] = {
        "stage": finding.stage,
        "attempt": finding.attempt,
        "claim": claim,
        "verdict": finding.verdict.name,
        "reason": overruling.reason,
    }
    if options.dry_run:
        nobody: dict[str, Any] = {"policy": "none: a dry run"}
        return p.ClaimOverruled(**words, proof=nobody), state.head
    if state.consent == "signature" and overruling.key is None:
        raise NeedsConsent(
            f"{finding.stage} {finding.attempt}: to overrule the evidence is agreed to by a "
            "signature here: give --key FILE.",
            stage=finding.stage,
        )
    command = f"wfctl stage {'compute' if claim == 'computed' else 'complete'} {finding.stage}"
    wording = Wording(lambda asked: cast("Question", asked).text, f"{command} --overrule TEXT")
    consenter = consenter_of(state.consent, service.actor, overruling.key, None, wording)
    return overruled(service, words, finding.verdict.reason, consenter)
