"""A person's decision, asked for in one way whatever it is of, and recorded with the proof."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cli.frame.options import File, option
from lifecycle.errors import NeedsConsent
from service.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.payload.models import Payload
    from service.writing.stream_writer import WriteOptions
    from service.writing.undecided import DecisionQuestion


DecisionKey = Annotated[
    File, option("--key", "FILE", "Sign the decision with this SSH key (or its .pub)")
]
#: What a dry run records in the place of a proof.
NOBODY: dict[str, Any] = {"policy": "none: a dry run"}


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be recorded, what it is about, and the question as a person reads it."""

    command: Payload
    subject: str
    text: str


def dismissal_of(file: str, detected: int, kept_as: str | None) -> str:
    """Say what a person agrees to who dismisses a hand edit."""
    kept = f"; the edit stays kept as {kept_as}" if kept_as else ""
    return (
        f"{file}: the hand edit that was detected at version {detected} is dismissed: the file "
        f"stays as the log has it{kept}"
    )


def agreed(service: Any, decision: Decision, line: str, key: Path | None) -> tuple[Payload, int]:
    """Ask a person; return the command with the proof, and the version that it is bound to.

    ``line`` is the command that a person runs at a terminal. Raises `NeedsConsent`, which is
    recorded as a refusal.
    """
    from cli.frame.consent import Wording, consenter_of
    from service.writing.undecided import decided

    def consenter_for(policy: str) -> Any:
        if policy == "signature" and key is None:
            raise NeedsConsent(
                f"{decision.subject}: this is agreed to by a signature here: give --key FILE."
            )
        wording = Wording(lambda asked: cast("DecisionQuestion", asked).text, line)
        return consenter_of(policy, service.actor, key, None, wording)

    try:
        return decided(service, decision.command, decision.subject, decision.text, consenter_for)
    except NeedsConsent as refusal:
        service.record_refusal([decision.command], refusal)
        raise


def decide(
    service: Any, decisions: Sequence[Decision], line: str, key: Path | None, options: WriteOptions
) -> Any:
    """Ask a person of each decision, record those that were agreed to, and return the outcome."""
    if len(decisions) > 1 and options.command_id is not None:
        raise InvalidOption("--command-id is of one decision; name one, or leave it out")
    outcomes = [_decide(service, one, line, key, options) for one in decisions]
    if not outcomes:
        return service.handle(options=options)
    events = tuple(event for one in outcomes for event in one.events)
    planned = tuple(one for outcome in outcomes for one in outcome.planned)
    return replace(outcomes[-1], events=events, planned=planned)


def _decide(
    service: Any, decision: Decision, line: str, key: Path | None, options: WriteOptions
) -> Any:
    command = decision.command
    options = replace(options, content={command.type: command.model_dump(mode="json")})
    if options.dry_run:
        return service.handle(command.model_copy(update={"proof": NOBODY}), options=options)
    first = service.first_answer(options)
    if first is not None:
        return first
    if options.expected_version not in (None, service.state().head):
        return service.handle(command, options=options)  # raises: it is another version
    command, head = agreed(service, decision, line, key)
    return service.handle(command, options=replace(options, expected_version=head, exact=True))
