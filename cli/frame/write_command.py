"""Run a write command and print its result, in the same way for all commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cli.frame.context import Context
from cli.frame.workspace import open_for_writing, open_job_runner
from cli.terminal.output import Output
from projections.files.progress_log import format_line_without_time
from service.errors import AlreadyThere

if TYPE_CHECKING:
    from cli.frame.ask_decision import Overruling
    from lifecycle.payload.models import Payload
    from reconciler.context import JobContext
    from service.writing.stream_writer import WriteOptions
    from service.writing.workflow_service import Outcome

#: Event types that claim something about a job. The files of the job can contradict the claim.
_CLAIMS = frozenset({"stage.computed", "stage.completed"})


def write_commands(context: Context, options: WriteOptions, *commands: Payload) -> None:
    """Record the events of the given commands, and print these events."""
    with open_for_writing(context, options.dry_run) as (service, output):
        print_outcome(output, service.handle(*commands, options=options), options)


def issue_command(context: Context, options: WriteOptions, type_: str, **values: object) -> None:
    """Record an event of the given type with the given values, and print the event.

    Raises `InvalidPayload` if the values are invalid.
    """
    from lifecycle.payload.build_payload import payload_of

    write_commands(context, options, payload_of(type_, values))


def run_action_and_print_outcome(
    context: Context, options: WriteOptions, act: Callable[[JobContext], Outcome]
) -> None:
    """Run ``act`` with the job runner, and print the recorded events."""
    with open_job_runner(context, options.dry_run) as (jobs, output):
        print_outcome(output, act(jobs), options)


def record_checked_claims(
    context: Context,
    options: WriteOptions,
    *commands: Payload,
    overruling: Overruling | None = None,
) -> None:
    """Record the given commands, after checking their claims about jobs.

    For example, a command may claim that a job has ended. Raises `ClaimDenied` if the files of the
    job contradict the claim and no person overrules them.
    """
    if not any(command.type in _CLAIMS for command in commands):
        write_commands(context, options, *commands)
        return
    from cli.frame.ask_decision import build_claims_checker
    from reconciler.control.stop_jobs import require_version

    with open_job_runner(context, options.dry_run) as (jobs, output):
        claims = build_claims_checker(jobs, overruling, options)
        first = jobs.service.first_answer(options, *commands)
        for command in commands if first is None else ():
            if command.type in _CLAIMS:
                is_computed = command.type == "stage.computed"
                stage = str(command.as_json()["stage"])
                if is_computed and not options.dry_run:
                    claims.record_claimed_tasks_done(stage)
                upheld = (
                    claims.check_computed_claim if is_computed else claims.check_job_ended_claim
                )(stage)
                if upheld is not None:
                    commands, options = (upheld[0], *commands), require_version(options, upheld[1])
        print_outcome(output, jobs.service.handle(*commands, options=options), options)


def print_outcome(
    output: Output,
    outcome: Outcome,
    options: WriteOptions,
    told: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Print the outcome of a write: recorded events, or planned events of a dry run.

    ``told`` contains additional values to print.
    """
    data = {
        "dry_run": options.dry_run,
        "repeated": outcome.repeated,
        "events": events_of(outcome, options),
        **list_planned_files(outcome, options),
        **told,
    }
    said = [f"{name}: {text}" for name, text in told.items()]
    position = outcome.events[-1].position if outcome.events else None
    output.print_change(
        data,
        lambda: "\n".join([*_format_lines(outcome, options), *said]),
        outcome.stands,
        is_rehearsal=options.dry_run,
        position=position,
    )


def events_of(outcome: Outcome, options: WriteOptions) -> list[dict[str, Any]]:
    """Return the events of an outcome as data.

    The planned events of a dry run have no version yet.
    """
    if options.dry_run:
        return [{"type": p.type, "data": p.model_dump(mode="json")} for p, _ in outcome.planned]
    return [
        {"version": e.version, "type": e.type, "event_id": e.event_id, "data": e.data}
        for e in outcome.events
    ]


def list_planned_files(outcome: Outcome, options: WriteOptions) -> dict[str, list[str]]:
    """Return the generated files that a dry run would write, or an empty dict."""
    return {"files": _list_files_to_update(outcome)} if options.dry_run else {}


def _list_files_to_update(outcome: Outcome) -> list[str]:
    from projections.files import progress_log, state_document

    if not outcome.planned:
        return []
    payloads, state = [payload for payload, _ in outcome.planned], outcome.state
    has_line = any(progress_log.has_line(one.type, one.as_json(), state) for one in payloads)
    completes = any(one.type == "workflow.completed" for one in payloads)
    report = state.report if completes else None
    lines = [progress_log.FILE_NAME] if has_line else []
    return [state_document.FILE_NAME, *lines, *([report] if report is not None else [])]


def _format_lines(outcome: Outcome, options: WriteOptions) -> list[str]:
    if options.dry_run:
        head = outcome.state.head - len(outcome.planned)
        appended = [
            f"would append v{head + number} {payload.type}: {_get_subject(payload)}"
            for number, (payload, _) in enumerate(outcome.planned, 1)
        ]
        written = [f"would write {name}" for name in _list_files_to_update(outcome)]
        return [*appended, *written] or ["nothing to append"]
    lines = [
        f"v{event.version} {format_line_without_time(event, outcome.state) or event.type}"
        for event in outcome.events
    ]
    if outcome.repeated:
        lines.append("(this command was already run, so nothing was appended)")
    return lines or ["nothing to append"]


def _get_subject(payload: Payload) -> str:
    data = payload.model_dump(mode="json", exclude_defaults=True)
    data.pop("document", None)
    data.pop("layout", None)
    return " ".join(f"{key}={value}" for key, value in data.items())


def write_new(file: Path, content: bytes) -> None:
    """Write a new file. Raises `AlreadyThere` if the file exists."""
    try:
        with file.open("xb") as opened:
            opened.write(content)
    except FileExistsError as error:
        raise AlreadyThere(file) from error
