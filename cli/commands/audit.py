"""``wfctl audit …``: questions to the history."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from math import isfinite
from typing import Annotated, Any

import typer

from cli.commands.events import of_machine as reading_machine
from cli.frame.beginning import Watch, leave
from cli.frame.options import FINDINGS, AsOf, Text, argument, option
from cli.frame.workspace import Reading, reading, settings_of
from cli.settings import Format
from cli.terminal.table import TableColumn, present
from eventstore.errors import EventStoreError
from lifecycle.errors import LifecycleError
from projections.words.text import shown, utc_seconds
from service.errors import InvalidOption, ServiceError, SqlTooLong
from service.questions import audit as answers
from service.questions.causes import refusals_by
from service.questions.integrity import drift_records, tampering_records
from service.reading.moment import Moment
from service.sql import tables
from service.sql.tables import SQL_PATIENCE

OfStage = Annotated[Text, option("--stage", "Only of this stage.")]
ToStatus = Annotated[Text, option("--status", "Only into this status.")]
Records = list[dict[str, Any]]


def asked(workflow: Reading, sql: str, at: Any, **parameters: Any) -> tuple[list[str], Records]:
    """Return the columns and the records that a question of ours yields."""
    with tables.inquiry(workflow.root.address, workflow.log, at) as desk:
        answer = desk.ask(sql, parameters, tables.PATIENCE)
        return answer.columns, [record_of(answer.columns, row) for row in answer.rows]


def record_of(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """Return a row by the names of its columns, JSON decoded."""
    return {
        name: json.loads(value) if name in tables.JSON_COLUMNS and value is not None else value
        for name, value in zip(columns, row, strict=True)
    }


def _answered(
    context: typer.Context, sql: str, columns: Sequence[TableColumn], view: Any, **parameters: Any
) -> None:
    with reading(context) as workflow:
        names, records = asked(workflow, sql, view, **parameters)
        present(workflow.output, records, columns, names, view)


def transitions(
    context: typer.Context, stage: OfStage = None, status: ToStatus = None, view: AsOf = None
) -> None:
    """Every change of a stage's status: when, from what, by whom and why."""
    _answered(context, tables.TRANSITIONS, _TRANSITIONS, view, stage=stage, status=status)


def retries(context: typer.Context, stage: OfStage = None, view: AsOf = None) -> None:
    """Every stage that ran again after it failed: the error, and what was done about it."""
    _answered(context, tables.RETRIES, _RETRIES, view, stage=stage)


def attempts(context: typer.Context, stage: OfStage = None, view: AsOf = None) -> None:
    """Every attempt with its verdict and the evidence for it."""
    _answered(context, tables.ATTEMPTS, _ATTEMPTS, view, stage=stage)


def queue(context: typer.Context, stage: OfStage = None, view: AsOf = None) -> None:
    """How long the attempts of each stage waited, and how long they computed."""
    _answered(context, tables.QUEUE, _QUEUE, view, stage=stage)


def costs(context: typer.Context, view: AsOf = None) -> None:
    """What each session cost, and how it ended."""
    _answered(context, tables.COSTS, _COSTS, view)


def times(context: typer.Context, stage: OfStage = None, view: AsOf = None) -> None:
    """How long each stage was in each status; the present one until the moment asked for."""
    from service.questions.meanwhile import status_times

    with reading(context) as workflow:
        _, rows = asked(workflow, tables.TIMES, view, stage=stage)
        records = status_times(rows, workflow.log, view)
        names = ("stage", "status", "times", "seconds", "is_open")
        present(workflow.output, records, _TIMES, names, view)


def text(key: str, head: str | None = None, width: int = 0) -> TableColumn:
    """Return a column that shows a value as it is."""
    return TableColumn(
        head or key.upper().replace("_", " "), lambda record: shown(record[key]), width
    )


def _when(key: str = "occurred_at") -> TableColumn:
    return TableColumn("WHEN", lambda record: utc_seconds(record[key]) or "")


def span(key: str, head: str) -> TableColumn:
    """Return a column that shows seconds as people say them."""
    return TableColumn(head, lambda record: _span(record[key]))


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.3g} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


def _version(key: str = "version") -> TableColumn:
    return TableColumn("VERSION", lambda record: f"v{record[key]}")


_TRANSITIONS = (
    *(_version(), _when(), text("stage"), text("from_status", "FROM"), text("to_status", "TO")),
    *(span("seconds", "AFTER"), text("actor", "WHO"), text("reason", "WHY", 60)),
)
_RETRIES = (
    *(_version(), _when(), text("stage"), text("number", "NO"), text("actor", "WHO")),
    *(text("error", None, 40), text("fix", None, 60)),
)
_ATTEMPTS = (
    *(text("stage"), text("attempt"), _when("started_at"), text("mode"), text("outcome")),
    *(text("exit_code", "EXIT"), text("verdict"), span("queue_seconds", "WAITED")),
    *(span("compute_seconds", "COMPUTED"), text("reason", "WHY", 60)),
)
_QUEUE = (
    *(text("stage"), text("attempts"), span("queue_seconds", "WAITED")),
    *(span("compute_seconds", "COMPUTED"), text("open", "UNKNOWN")),
)
_COSTS = (
    *(text("session"), _when("started_at"), text("started_by", "WHO"), text("ended")),
    *(text("cost"), text("completed"), text("failed")),
)
_TIMES = (
    *(text("stage"), text("status"), text("times"), span("seconds", "TIME")),
    TableColumn("", lambda record: "so far" if record["is_open"] else ""),
)


def amendments(
    context: typer.Context,
    state: Text = option("STATE", "proposed, approved or rejected."),
    stage: Text = option("STAGE", "Only of this stage."),
    field: Text = option("FIELD", "Such as parameters or parameters.x."),
    person: Text = option("--by", "WHO", "Proposed, decided or signed by."),
    view: AsOf = None,
) -> None:
    """Every amendment: what it changed, who proposed and who decided it."""
    with reading(context) as workflow:
        found = [
            record
            for record in answers.records(workflow.log, view)
            if state in (None, record.state)
            and stage in (None, record.stage)
            and _touches(record, field)
            and _involves(record, person)
        ]
        present(workflow.output, [r.to_dict() for r in found], _AMENDMENTS, _NAMES, view)


def _touches(record: answers.AmendmentRecord, field: str | None) -> bool:
    return field is None or any(f"{f}.".startswith(f"{field}.") for f in record.fields)


def _involves(record: answers.AmendmentRecord, person: str | None) -> bool:
    named = [w for w in (record.proposed_by, record.decided_by, record.signer) if w is not None]
    return person is None or any(person in (who, who.partition(":")[2]) for who in named)


def _decision(record: Mapping[str, Any]) -> str:
    who = record["signer"] or record["decided_by"]
    return f"{record['state']} by {who}" if who else str(record["state"])


_NAMES = tuple(field.name for field in fields(answers.AmendmentRecord))
_AMENDMENTS = (
    *(text("id"), text("type")),
    TableColumn("STAGE", lambda record: record["stage"] or "workflow"),
    *(text("proposed_by"), TableColumn("DECISION", _decision), text("change")),
)


def bypasses(context: typer.Context, view: AsOf = None) -> None:
    """Every attempt to get round consent, and why it came to nothing (exit 7 if any)."""
    with reading(context) as workflow:
        every = answers.bypasses(workflow.root, workflow.log, view)
        every += [*_of_account(workflow, view), *_of_machines(workflow, view)]
        found = [one.to_dict() for one in every]
        present(
            workflow.output, found, _BYPASSES, tuple(f.name for f in fields(answers.Bypass)), view
        )
    if found:
        raise typer.Exit(FINDINGS)


def _of_account(workflow: Reading, view: Moment | None) -> list[answers.Bypass]:
    """Return what status, report and page tell too; as of a moment, as far as the log has it."""
    from projections.words.account import Seen
    from projections.words.came_about import came_about
    from reconciler.files.freshness import look

    try:
        state = workflow.log.current(view)
        seen = look(workflow.root, workflow.log, state) if view is None else Seen()
    except (EventStoreError, LifecycleError, ServiceError):
        return []  # there is no workflow, or its log is altered, which is told already
    return answers.of_account(came_about(state, seen.times, seen.gone))


def _of_machines(workflow: Reading, view: Moment | None) -> Iterator[answers.Bypass]:
    from service.machines import log as place

    store = workflow.log.store
    for id_ in place.ids(workflow.root, store):
        log = workflow.machine(id_)
        if view is None:
            yield from answers.of_memory(workflow.root, store, log.stream)
        yield from answers.of_machine(log.steps(upto=view), log.ineffective())


_BYPASSES = (
    TableColumn("WHEN", lambda record: (record["at"] or "")[:19]),
    *(text("kind"), text("actor", "WHO"), text("what"), text("why")),
)


_DRIFT_NAMES = (
    *("version", "at", "what", "file", "actor", "kind", "fields", "kept_as", "detected"),
    "message",
)


def drift(context: typer.Context, view: AsOf = None) -> None:
    """Every hand edit and what became of it, and what is wrong with the log (then exit 7)."""
    with reading(context) as workflow:
        _, rows = asked(workflow, tables.DRIFT, view)
        wrong = list(tampering_records(workflow.root, workflow.log)) if view is None else []
        state = workflow.log.state(view)
        stages = state.stages.values() if state is not None else ()
        waiting = [*(state.drifts if state is not None else ()), *(s for s in stages if s.changed)]
        present(workflow.output, [*drift_records(rows), *wrong], _COLUMNS, _DRIFT_NAMES, view)
    if wrong or waiting:
        raise typer.Exit(FINDINGS)


_COLUMNS = (
    TableColumn("VERSION", lambda record: f"v{record['version']}"),
    TableColumn("WHEN", lambda record: utc_seconds(record["at"]) or ""),
    *(text("what"), text("file"), text("kind")),
    TableColumn("FIELDS", lambda record: ", ".join(record["fields"]), 60),
    *(text("kept_as"), text("message", None, 80)),
)


_REFUSED_NAMES = ("at", "actor", "command", "code", "message", "data")


def refused(
    context: typer.Context,
    command: Text = option("Only of this command, such as stage.retried."),
    code: Text = option("Only for this reason."),
    machine: Text = option("ID", "Those of a phase machine."),
    view: AsOf = None,
) -> None:
    """Every command that the rules refused, from their own table; --actor KIND:NAME narrows it."""
    actor = settings_of(context).actor
    with reading(context) as root:
        workflow = root if machine is None else reading_machine(root, machine)
        records = [
            {name: getattr(refusal, name) for name in _REFUSED_NAMES}
            for refusal in refusals_by(workflow.log, view)
            if command is None or command in refusal.command.split(",")
            if code in (None, refusal.code)
            if actor in (None, refusal.actor, refusal.actor.partition(":")[0])
        ]
        present(workflow.output, records, _REFUSED_COLUMNS, _REFUSED_NAMES, view)


_REFUSED_COLUMNS = (
    TableColumn("WHEN", lambda record: utc_seconds(record["at"]) or ""),
    *(text("actor", "WHO"), text("command"), text("code"), text("message", "WHY", 80)),
)


def sql(
    context: typer.Context,
    statement: Annotated[str, argument("SQL", "One statement that reads; - for stdin.")],
    timeout: float = option(
        "SECONDS", "What it may take.", min=0.001, max=3600, default=SQL_PATIENCE
    ),
    view: AsOf = None,
) -> None:
    """Ask in SQL over v_events, v_transitions, v_attempts, v_amendments and v_sessions."""
    asked = sys.stdin.read() if statement == "-" else statement
    if not asked.strip():
        raise InvalidOption("expected a statement, found nothing")
    with (
        reading(context) as workflow,
        tables.inquiry(workflow.root.address, workflow.log, view) as desk,
        Watch(timeout, lambda: leave(settings_of(context), SqlTooLong(timeout))) as watch,
    ):
        answer = watch.step(lambda: desk.ask(asked, {}, timeout))
        names = _told_apart(answer.columns)
        records = (dict(zip(names, row, strict=True)) for row in watch.each(answer.rows))
        output = workflow.output
        if output.settings.format is Format.JSONL:
            output.records(map(_plain, records), lambda _: "")
        else:
            columns = [text(name, name) for name in names]
            present(output, list(map(_plain, records)), columns, names, view)


def _told_apart(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with what JSON has no way to hold as text: bytes, and no finite number."""
    return {name: _as_json(value) for name, value in record.items()}


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal) and value.is_finite():  # a sum or a mean on PostgreSQL
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value) if isinstance(value, float) and not isfinite(value) else value
