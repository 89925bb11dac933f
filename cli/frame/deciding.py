"""A person's decision, asked for in one way whatever it is of, and recorded with the proof."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from cli.frame.impact import consequences, foreseen
from cli.frame.options import File, option
from eventstore.event import Actor
from lifecycle.errors import NeedsConsent
from lifecycle.rules.foresight import foresee
from lifecycle.rules.impact import impact_of
from lifecycle.state.workflow import Amendment, Stage, Workflow
from pages.shelf import Sight
from projections.words.account import Seen
from reconciler.context import Jobs
from reconciler.control.job_output import saying
from reconciler.dpdispatcher.late_runner import late_runner
from reconciler.errors import ReconcilerError
from reconciler.files.freshness import look
from service.errors import InvalidOption, ServiceError
from service.reading.log import WorkflowLog
from service.root.disk import system_clock, utc_text
from service.root.root import Root, read_config
from service.root.trust import is_notice_trusted
from service.writing.amendments import kept_folders
from service.writing.workflow_service import Service

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lifecycle.payload.models import Payload
    from service.writing.stream_writer import WriteOptions
    from service.writing.undecided import DecisionQuestion
    from service.writing.workflow_service import Outcome


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


#: Lines of a job that are shown, and letters of them.
_LINES, _LETTERS = 20, 8000
#: Who looks; it never acts.
_LOOKER = Actor("user", "pages")


def _silent(*_: object, **__: object) -> None:
    """Say nothing: who looks has nobody to tell."""


def sight() -> Sight:
    """Return what is looked at with: jobs of this machine, files of the root."""
    return Sight(_tail, _seen, _impact)


def _tail(root: Path, log: WorkflowLog, state: Workflow, stage: Stage) -> str:
    """Return the last lines of a stage's job; of one on another machine what command tells them."""
    attempt = stage.attempt
    if attempt is None:
        return ""
    service = Service(Root(root), log, _LOOKER)
    jobs = Jobs(service, late_runner(), _silent, _silent)
    try:
        with closing(saying(jobs, state, stage, attempt.id, err=False, last=_LINES)) as heard:
            if heard.is_far:
                return f"(on another machine: wfctl logs -f {stage.id})"
            lines: deque[bytes] = deque(maxlen=_LINES)
            for said in heard.new():
                lines.extend(said.content.splitlines())
    except (OSError, ReconcilerError, ServiceError) as error:
        return f"(cannot be read: {error})"
    return b"\n".join(lines).decode("utf-8", "replace")[-_LETTERS:]


def _seen(root: Path, log: WorkflowLog, state: Workflow) -> Seen:
    return look(Root(root), log, state)


def _impact(root: Path, state: Workflow, amendment: Amendment) -> list[str]:
    impact = impact_of(state, amendment, kept_folders(root, state), utc_text(system_clock()))
    return [*consequences(impact), *foreseen(foresee(state, amendment, impact))]


def receiver_of(jobs: Jobs, given: str | None) -> str | None:
    """Return who is to be told; what only config.toml names needs a person's agreement."""
    if given is not None:
        return given or None
    named = read_config(jobs.service.root).notify
    if named is None or is_notice_trusted(named, jobs.root):
        return named
    jobs.say(
        f"config.toml names {named!r} to be told, and nobody of this login agreed to it: it may "
        "have come with a copy. `wfctl db trust` agrees to it; nobody is told until then.",
        level="warning",
    )
    return None


@contextmanager
def notifying(jobs: Jobs, given: str | None) -> Iterator[Jobs]:
    """Yield jobs that tell the receiver, if there is one, of what they record and wait for."""
    receiver = receiver_of(jobs, given)
    if receiver is None:
        yield jobs
        return
    from cli.terminal.talk import without_secrets
    from reconciler.loop.notices import Notifier

    def hide(notice: dict[str, Any]) -> dict[str, Any]:
        return dict(without_secrets(None, "", notice))

    def warn(text: str) -> None:
        jobs.say(text, level="warning")

    service = jobs.service
    with Notifier(receiver, service.log, service.root.folder, hide, warn) as notifier:

        def tell(outcome: Outcome) -> None:
            jobs.tell(outcome)
            notifier.look()

        def waits(state: Workflow, ids: Collection[str]) -> None:
            jobs.waits(state, ids)
            notifier.look()

        yield replace(jobs, tell=tell, waits=waits)
