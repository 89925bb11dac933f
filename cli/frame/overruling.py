"""A person's word against the evidence: ``--overrule`` of ``stage compute`` and ``complete``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.errors import InvalidOption

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload
    from reconciler.context import Jobs
    from reconciler.control.claims import Claims
    from reconciler.control.finding import AttemptFinding
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
    jobs: Jobs, overruling: Overruling, finding: AttemptFinding, claim: Any, options: WriteOptions
) -> tuple[Payload, int]:
    from cli.frame.deciding import NOBODY, Decision, agreed
    from lifecycle.payload import models as p

    service, found = jobs.service, finding.verdict
    command = p.ClaimOverruled(
        stage=finding.stage,
        attempt=finding.attempt,
        claim=claim,
        verdict=found.name,
        reason=overruling.reason,
        proof=NOBODY if options.dry_run else {},
    )
    if options.dry_run:
        return command, service.state().head
    subject = f"{finding.stage} {finding.attempt}"
    text = (
        f"{subject}: the evidence says {found.name}: {found.reason}\n"
        f"To be recorded against it: it is {claim} ({overruling.reason})."
    )
    line = f"wfctl stage {'compute' if claim == 'computed' else 'complete'} {finding.stage}"
    decision = Decision(command, subject, text)
    return agreed(service, decision, f"{line} --overrule TEXT", overruling.key)
