"""``wfctl audit …``: questions to the history."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from decimal import Decimal
from functools import partial
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
from lifecycle.state.workflow import Workflow
from projections.words.account import Seen
from projections.words.came_about import came_about
from projections.words.decisions import AmendmentRecord
from projections.words.text import shown, told_bytes, utc_seconds
from reconciler.records.used import NAMES as USED
from reconciler.records.used import together
from service.errors import InvalidOption, ServiceError, SqlTooLong
from service.questions import audit as answers
from service.questions.audit import drift_records, tampering_records
from service.questions.causes import refusals_by
from service.reading.moment import Moment
from service.sql import tables
from service.sql.tables import SQL_PATIENCE

OfStage = Annotated[Text, option("--stage", "Show only this stage.")]
ToStatus = Annotated[Text, option("--status", "Show only transitions to this status.")]
Record = dict[str, Any]


def _shown_as(kind: str, value: Any) -> str:
    if kind == "version":
        return f"v{value}"
    if kind == "when":
        return utc_seconds(value) or ""
    if kind == "at":
        return (value or "")[:19]
    if kind not in ("span", "bytes"):
        return shown(value)
    if value is None:
        return "-"
    if kind == "bytes":
        return told_bytes(value)
    hours, rest = divmod(round(value), 3600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}"
    return clock if round(value) >= 60 else f"{value:.3g} s"


def _columns(*words: str) -> list[TableColumn]:
    """Return the columns of a table: each ``KEY``, or ``HEAD=KEY``, ``KEY:KIND``, ``KEY/WIDTH``."""
    found = []
    for word in words:
        head, _, rest = word.rpartition("=")
        rest, _, width = rest.partition("/")
        key, _, kind = rest.partition(":")
        text = partial(_cell, key, kind)
        found.append(TableColumn(head or key.upper().replace("_", " "), text, int(width or 0)))
    return found


def _cell(key: str, kind: str, record: Record) -> str:
    return _shown_as(kind, record[key])


def _decision(record: Record) -> str:
    who = record["signer"] or record["decided_by"]
    return f"{record['state']} by {who}" if who else str(record["state"])


_TRANSITIONS = _columns(
    *("version:version", "WHEN=occurred_at:when", "stage", "FROM=from_status", "TO=to_status"),
    *("AFTER=seconds:span", "WHO=actor", "WHY=reason/60"),
)
_RETRIES = _columns(
    *("version:version", "WHEN=occurred_at:when", "stage", "NO=number", "WHO=actor", "error/40"),
    "fix/60",
)
_ATTEMPTS = _columns(
    *("stage", "attempt", "WHEN=started_at:when", "mode", "outcome", "EXIT=exit_code", "verdict"),
    *("WAITED=queue_seconds:span", "COMPUTED=compute_seconds:span", "CPU=cpu_seconds:span"),
    *("MEMORY=peak_memory_bytes:bytes", "WHY=reason/60"),
)
_QUEUE = _columns(
    *("stage", "attempts", "WAITED=queue_seconds:span", "COMPUTED=compute_seconds:span"),
    "UNKNOWN=open",
)
_COSTS = _columns(
    *("session", "WHEN=started_at:when", "WHO=started_by", "ended", "cost", "CPU=cpu_seconds:span"),
    *("MEMORY=peak_memory_bytes:bytes", "completed", "failed"),
)
_TIMES = [
    *_columns("stage", "status", "times", "TIME=seconds:span"),
    TableColumn("", lambda record: "so far" if record["is_open"] else ""),
]
_AMENDMENTS = [
    *_columns("id", "type"),
    TableColumn("STAGE", lambda record: record["stage"] or "workflow"),
    *_columns("proposed_by"),
    TableColumn("DECISION", _decision),
    *_columns("change"),
]
_BYPASSES = _columns("WHEN=at:at", "kind", "WHO=actor", "what", "why")
_DRIFT_NAMES = (
    *("version", "at", "what", "file", "actor", "kind", "fields", "kept_as", "detected"),
    "message",
)
_DRIFT = [
    *_columns("version:version", "WHEN=at:when", "what", "file", "kind"),
    TableColumn("FIELDS", lambda record: ", ".join(record["fields"]), 60),
    *_columns("kept_as", "message/80"),
]
_REFUSED_NAMES = ("at", "actor", "command", "code", "message", "data")
_REFUSED = _columns("WHEN=at:when", "WHO=actor", "command", "code", "WHY=message/80")


def _asked(workflow: Reading, sql: str, at: Any, **given: Any) -> tuple[list[str], list[Record]]:

    with tables.inquiry(workflow.root.address, workflow.log, at) as desk:
        answer = desk.ask(sql, given, tables.PATIENCE)
        names = answer.columns
        records = [dict(zip(names, row, strict=True)) for row in answer.rows]
    for record in records:
        for name in tables.JSON_COLUMNS & record.keys():
            record[name] = json.loads(record[name]) if record[name] is not None else None
    return names, records


def _answered(
    context: typer.Context, sql: str, columns: Sequence[TableColumn], view: Any, **parameters: Any
) -> None:
    with reading(context) as workflow:
        names, records = _asked(workflow, sql, view, **parameters)
        present(workflow.output, records, columns, names, view)


def transitions(
    context: typer.Context, stage: OfStage = None, status: ToStatus = None, view: AsOf = None
) -> None:
    """List status changes with time, actor and reason."""
    _answered(context, tables.TRANSITIONS, _TRANSITIONS, view, stage=stage, status=status)


def retries(context: typer.Context, stage: OfStage = None, view: AsOf = None) -> None:
    """List retries with error and fix."""
    _answered(context, tables.RETRIES, _RETRIES, view, stage=stage)


def attempts(context: typer.Context, stage: OfStage = None, view: AsOf = None) -> None:
    """List attempts with verdict and evidence."""
    with reading(context) as workflow:
        names, records = _asked(workflow, tables.ATTEMPTS, view, stage=stage)
        used = _used_by(workflow.state(view)) if records else {}
        for record in records:
            nothing = dict.fromkeys(USED)
            record.update(used.get((record["stage"], record["attempt"]), nothing))
        present(workflow.output, records, _ATTEMPTS, [*names, *USED], view)


def _used_by(state: Workflow) -> dict[tuple[str, str], dict[str, float | None]]:
    """Return what each attempt used, by its stage and id; None for what nobody told."""
    return {
        (stage.id, one.id): {name: one.resources.get(name) for name in USED}
        for stage in state.stages.values()
        for one in stage.attempts
    }


def queue(context: typer.Context, stage: OfStage = None, view: AsOf = None) -> None:
    """Show waiting and computing times of attempts."""
    _answered(context, tables.QUEUE, _QUEUE, view, stage=stage)


def costs(context: typer.Context, view: AsOf = None) -> None:
    """Show the cost and end of each session."""
    with reading(context) as workflow:
        names, records = _asked(workflow, tables.COSTS, view)
        _, attempts = _asked(workflow, tables.ATTEMPTS, view, stage=None)
        used = _used_by(workflow.state(view)) if attempts else {}
        for record in records:
            last = record["last_version"]
            begun = [one for one in attempts if record["first_version"] <= one["version"] <= last]
            told = [used.get((one["stage"], one["attempt"]), {}) for one in begun]
            known = ({n: value for n, value in one.items() if value is not None} for one in told)
            record.update(dict.fromkeys(USED) | together(known))
        present(workflow.output, records, _COSTS, [*names, *USED], view)


def times(context: typer.Context, stage: OfStage = None, view: AsOf = None) -> None:
    """Show the time of each stage in each status."""
    from service.questions.meanwhile import status_times

    with reading(context) as workflow:
        _, rows = _asked(workflow, tables.TIMES, view, stage=stage)
        records = status_times(rows, workflow.log, view)
        names = ("stage", "status", "times", "seconds", "is_open")
        present(workflow.output, records, _TIMES, names, view)


def amendments(
    context: typer.Context,
    state: Text = option("STATE", "Show only amendments that are proposed, approved or rejected."),
    stage: Text = option("STAGE", "Show only this stage."),
    field: Text = option("FIELD", "Show only changes of this field, for example parameters.x."),
    person: Text = option(
        "--by", "WHO", "Show amendments that this actor proposed, decided or signed."
    ),
    view: AsOf = None,
) -> None:
    """List amendments with change, proposer and decision."""

    def is_meant(record: AmendmentRecord) -> bool:
        named = [w for w in (record.proposed_by, record.decided_by, record.signer) if w is not None]
        touched = [f for f in record.fields if field is None or f"{f}.".startswith(f"{field}.")]
        return (
            state in (None, record.state)
            and stage in (None, record.stage)
            and (field is None or bool(touched))
            and (person is None or any(person in (who, who.partition(":")[2]) for who in named))
        )

    names = [one.name for one in fields(AmendmentRecord)]
    with reading(context) as workflow:
        found = [one.to_dict() for one in answers.records(workflow.log, view) if is_meant(one)]
        present(workflow.output, found, _AMENDMENTS, names, view)


def bypasses(context: typer.Context, view: AsOf = None) -> None:
    """List attempts to bypass consent (exit 7 if any)."""
    with reading(context) as workflow:
        every = answers.bypasses(workflow.root, workflow.log, view)
        every += [*_of_account(workflow, view), *_of_machines(workflow, view)]
        found = [one.to_dict() for one in every]
        names = [one.name for one in fields(answers.Bypass)]
        present(workflow.output, found, _BYPASSES, names, view)
    if found:
        raise typer.Exit(FINDINGS)


def _of_account(workflow: Reading, view: Moment | None) -> list[answers.Bypass]:
    """Return what status, report and page tell too; as of a moment, as far as the log has it."""
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


def drift(context: typer.Context, view: AsOf = None) -> None:
    """List manual edits with their decisions, and damage of the log (exit 7 if any)."""
    with reading(context) as workflow:
        _, rows = _asked(workflow, tables.DRIFT, view)
        wrong = list(tampering_records(workflow.root, workflow.log)) if view is None else []
        state = workflow.log.state(view)
        stages = state.stages.values() if state is not None else ()
        waiting = [*(state.drifts if state is not None else ()), *(s for s in stages if s.changed)]
        present(workflow.output, [*drift_records(rows), *wrong], _DRIFT, _DRIFT_NAMES, view)
    if wrong or waiting:
        raise typer.Exit(FINDINGS)


def refused(
    context: typer.Context,
    command: Text = option("Show only this command, for example stage.retried."),
    code: Text = option("Show only refusals with this error code."),
    machine: Text = option("ID", "Use the log of a phase machine."),
    view: AsOf = None,
) -> None:
    """List refused commands; --actor KIND:NAME selects one actor."""
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
        present(workflow.output, records, _REFUSED, _REFUSED_NAMES, view)


def sql(
    context: typer.Context,
    statement: Annotated[str, argument("SQL", "One SELECT statement; - reads stdin.")],
    timeout: float = option(
        "SECONDS", "Maximum seconds for the query.", min=0.001, max=3600, default=SQL_PATIENCE
    ),
    view: AsOf = None,
) -> None:
    """Query v_events, v_transitions, v_attempts, v_amendments and v_sessions in SQL."""
    asked = sys.stdin.read() if statement == "-" else statement
    if not asked.strip():
        raise InvalidOption("expected a statement, found nothing")

    with (
        reading(context) as workflow,
        tables.inquiry(workflow.root.address, workflow.log, view) as desk,
        Watch(timeout, lambda: leave(settings_of(context), SqlTooLong(timeout))) as watch,
    ):
        answer = watch.step(lambda: desk.ask(asked, {}, timeout))
        names: list[str] = []
        for place, name in enumerate(answer.columns):
            again = answer.columns[:place].count(name)
            names.append(f"{name}_{again + 1}" if again else name)
        records = (
            {name: _plain(value) for name, value in zip(names, row, strict=True)}
            for row in watch.each(answer.rows)
        )
        output = workflow.output
        if output.settings.format is Format.JSONL:
            output.records(records, lambda _: "")
        else:
            columns = [TableColumn(name, partial(_cell, name, "")) for name in names]
            present(output, list(records), columns, names, view)


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: text for bytes, and for what is no finite number."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal) and value.is_finite():  # a sum or a mean on PostgreSQL
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value) if isinstance(value, float) and not isfinite(value) else value
