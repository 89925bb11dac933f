"""Ask a person for a decision, and record the decision with the proof of consent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cli.frame.options import File, Text, option
from lifecycle.errors import NeedsConsent
from service.errors import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cli.frame.consent import PersonConsent
    from lifecycle.payload.models import Payload
    from lifecycle.state.workflow import Drift
    from reconciler.context import JobContext
    from reconciler.control.claims import ClaimChecker
    from reconciler.control.judge_attempts import AttemptFinding
    from service.writing.decision import DecisionQuestion
    from service.writing.stream_writer import WriteOptions


DecisionKey = Annotated[
    File,
    option(
        "--key",
        "FILE",
        "Sign your decision with this SSH key. FILE is the private key, or the .pub "
        "file of a key in ssh-agent.",
    ),
]
#: Placeholder for the proof of consent in the events of a dry run.
NOBODY: dict[str, Any] = {"policy": "none: a dry run"}


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision to ask a person for: a command to record, its subject, and a question."""

    command: Payload
    subject: str
    text: str


def build_edit_dismissal(edit: Drift) -> Decision:
    """Return the decision to discard a manual edit of a generated file, with the question."""
    from lifecycle.payload.workflow import DriftReverted

    kept = f"; the edited version is kept as {edit.kept_as}" if edit.kept_as else ""
    return Decision(
        DriftReverted(file=edit.file, detected=edit.version, kept_as=edit.kept_as),
        edit.file,
        f"{edit.file}: the manual edit that was detected at version {edit.version} is discarded, "
        f"and the file keeps its recorded content{kept}",
    )


def ask_for_agreement(
    service: Any, decision: Decision, line: str, key: Path | None
) -> tuple[Payload, int]:
    """Ask a person for a decision.

    Return the command to record, with the proof of consent, and the log version that the person
    saw. ``line`` is the command to type at a terminal. Raises `NeedsConsent` if the person does not
    agree or cannot be asked. Each such refusal is recorded in the log.
    """
    from service.writing.decision import build_proven_command

    question = _question_of(service, decision)
    try:
        consenter = _choose_consenter(service, decision, line, key)(question.state.consent)
        if not consenter.ask(question):
            raise _build_no_consent_error(decision)
        return build_proven_command(service, question, consenter), question.state.head
    except NeedsConsent as refusal:
        service.writer.record_refusal([decision.command], refusal)
        raise


def _question_of(service: Any, decision: Decision) -> DecisionQuestion:
    from service.writing.decision import question_of_command

    return question_of_command(service, decision.command, decision.subject, decision.text)


def _choose_consenter(
    service: Any, decision: Decision, line: str, key: Path | None
) -> Callable[[str], PersonConsent]:
    """Return a function that builds the object which asks a person.

    Its parameter is the consent policy. The function raises `NeedsConsent` if the policy requires a
    signature and no key is given.
    """
    from cli.frame.consent import Wording, consenter_of

    def under(policy: str) -> PersonConsent:
        if policy == "signature" and key is None:
            raise NeedsConsent(
                f"the decision on {decision.subject} needs a signature. Give your signing key "
                "with --key FILE."
            )
        wording = Wording(lambda asked: cast("DecisionQuestion", asked).text, line)
        return consenter_of(policy, service.actor, key, None, wording)

    return under


def _build_no_consent_error(decision: Decision) -> NeedsConsent:
    return NeedsConsent(
        f"you did not approve the decision on {decision.subject}, so nothing was recorded."
    )


def record_decisions(
    service: Any, decisions: Sequence[Decision], line: str, key: Path | None, options: WriteOptions
) -> Any:
    """Ask a person about each decision, and record the approved decisions.

    Return the outcome of the write.
    """
    if len(decisions) > 1 and options.command_id is not None:
        raise InvalidOption(
            "the option --command-id can be used only with one decision. Name only one item, or "
            "remove --command-id."
        )
    outcomes = [_record_decision(service, one, line, key, options) for one in decisions]
    if not outcomes:
        return service.handle(options=options)
    events = tuple(event for one in outcomes for event in one.events)
    planned = tuple(one for outcome in outcomes for one in outcome.planned)
    return outcomes[-1]._replace(events=events, planned=planned)


def _record_decision(
    service: Any, decision: Decision, line: str, key: Path | None, options: WriteOptions
) -> Any:
    command = decision.command
    options = options._replace(content={command.type: command.model_dump(mode="json")})
    if options.dry_run:
        return service.handle(command.model_copy(update={"proof": NOBODY}), options=options)
    if options.expected_version not in (None, service.state().head):
        return service.handle(command, options=options)  # raises, because the version differs
    from service.writing.decision import ask_and_record_decision

    options = options._replace(expected_version=None)  # edits would increase it
    consenter_for = _choose_consenter(service, decision, line, key)
    outcome = ask_and_record_decision(
        service, lambda: _question_of(service, decision), consenter_for, options, command
    )
    if outcome is None:
        refusal = _build_no_consent_error(decision)
        service.writer.record_refusal([command], refusal)
        raise refusal
    return outcome


Overrule = Annotated[
    Text,
    option(
        "--overrule",
        "TEXT",
        "Record the result even if wfctl's checks contradict it, and give the reason. "
        "Only a person can do this.",
    ),
]
Key = Annotated[
    File,
    option(
        "--key",
        "FILE",
        "Sign your overruling decision with this SSH key (private key file, or .pub "
        "file of a key in ssh-agent). Requires --overrule.",
    ),
]


@dataclass(frozen=True, slots=True)
class Overruling:
    """A person's reason for contradicting evidence about a job, and the key to sign it."""

    reason: str
    key: Path | None = None


def overruling_of(reason: str | None, key: Path | None) -> Overruling | None:
    """Return the person's wish to contradict the evidence, or None if no reason is given.

    Raises `InvalidOption` if a key is given without a reason.
    """
    if reason is None and key is not None:
        raise InvalidOption(
            "the option --key can be used only with the option --overrule TEXT, because the key "
            "signs this text. Add --overrule TEXT, or remove --key."
        )
    if reason is not None and not reason.strip():
        raise InvalidOption(
            "the text of the option --overrule is empty. Explain in this text why the evidence "
            "is wrong."
        )
    return Overruling(reason, key) if reason is not None else None


def build_claims_checker(
    jobs: JobContext, overruling: Overruling | None, options: WriteOptions
) -> ClaimChecker:
    """Return an object that compares claims about jobs with the evidence of their files.

    If ``overruling`` is given, a person can confirm a claim that contradicts the evidence.
    """
    from reconciler.control.claims import ClaimChecker

    if overruling is None:
        return ClaimChecker(jobs)
    return ClaimChecker(
        jobs, lambda finding, claim: _ask_for_overruling(jobs, overruling, finding, claim, options)
    )


def _ask_for_overruling(
    jobs: JobContext,
    overruling: Overruling,
    finding: AttemptFinding,
    claim: Any,
    options: WriteOptions,
) -> tuple[Payload, int]:
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
        f"This will be recorded against the evidence: the stage is {claim} ({overruling.reason})."
    )
    line = f"wfctl stage {'compute' if claim == 'computed' else 'complete'} {finding.stage}"
    decision = Decision(command, subject, text)
    return ask_for_agreement(service, decision, f"{line} --overrule TEXT", overruling.key)
