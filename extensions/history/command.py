"""The command ``wfctl audit``, which answers questions about the history."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import Annotated, Any

from cli.commands.events import select_machine_log as reading_machine
from cli.frame.ask_decision import Decision, DecisionKey, record_decisions
from cli.frame.context import Context
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import AsOf, Text, Writes, argument, option
from cli.frame.time_limit import StepTimeLimit, exit_with_error
from cli.frame.workspace import OpenedWorkflow, open_for_reading, open_for_writing, settings_of
from cli.frame.write_command import print_outcome
from cli.settings import Format
from cli.terminal.table import TableColumn, print_records
from eventstore.errors import EventStoreError
from extensions.history import history_queries as queries
from extensions.history.history_queries import SQL_PATIENCE
from lifecycle.errors import LifecycleError
from lifecycle.state.workflow import Workflow
from lifecycle.words.resources import RESOURCE_NAMES
from projections.words.account import FileCheckResult, list_result_origin_items
from projections.words.decisions import AmendmentRecord
from projections.words.text import (
    describe_requested_resources,
    format_byte_count,
    format_cell,
    truncate_utc_to_seconds,
)
from reconciler.records.resource_use import LARGEST, combine_resource_use
from reconciler.records.resource_use import NAMES as USED
from service.errors import InvalidOption, NotFound, ServiceError, SqlTooLong
from service.questions import audit as answers
from service.questions.audit import drift_records, tampering_records
from service.questions.causes import list_refusals
from service.reading.machine_streams import list_machines
from service.reading.point_in_history import Moment

OfStage = Annotated[
    Text, option("--stage", "List only entries about this stage, for example stage-2.")
]
ToStatus = Annotated[
    Text, option("--status", "List only changes to this stage status, for example failed.")
]
Record = dict[str, Any]


def _format_value(kind: str, value: Any) -> str:
    if kind == "version":
        return f"v{value}"
    if kind == "when":
        return truncate_utc_to_seconds(value) or ""
    if kind == "at":
        return (value or "")[:19]
    if kind not in ("span", "bytes"):
        return format_cell(value)
    if value is None:
        return "-"
    if kind == "bytes":
        return format_byte_count(value)
    hours, rest = divmod(round(value), 3600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}"
    return clock if round(value) >= 60 else f"{value:.3g} s"


def _parse_columns(*words: str) -> list[TableColumn]:
    """Return the columns of a printed table.

    Each word has the form ``KEY``, or ``HEAD=KEY`` with a heading, ``KEY:KIND`` with a format, or
    ``KEY/WIDTH`` with a width.
    """
    found = []
    for word in words:
        head, _, rest = word.rpartition("=")
        rest, _, width = rest.partition("/")
        key, _, kind = rest.partition(":")
        text = partial(_format_cell, key, kind)
        found.append(TableColumn(head or key.upper().replace("_", " "), text, int(width or 0)))
    return found


def _format_cell(key: str, kind: str, record: Record) -> str:
    return _format_value(kind, record[key])


def _format_decision(record: Record) -> str:
    who = record["signer"] or record["decided_by"]
    return f"{record['state']} by {who}" if who else str(record["state"])


#: Prefix of the names of requested resources in a record, and these names.
_PREFIX = "requested_"
_REQUESTED = tuple(f"{_PREFIX}{name}" for name in RESOURCE_NAMES)


def _format_requested(record: Record) -> str:
    known = {name: record[f"{_PREFIX}{name}"] for name in RESOURCE_NAMES}
    given = {name: amount for name, amount in known.items() if amount is not None}
    return describe_requested_resources(given) or "-"


_TRANSITIONS = _parse_columns(
    *("version:version", "WHEN=occurred_at:when", "stage", "FROM=from_status", "TO=to_status"),
    *("AFTER=seconds:span", "WHO=actor", "WHY=reason/60"),
)
_RETRIES = _parse_columns(
    *("version:version", "WHEN=occurred_at:when", "stage", "NO=number", "WHO=actor", "error/40"),
    "fix/60",
)
_ATTEMPTS = _parse_columns(
    *("stage", "attempt", "WHEN=started_at:when", "mode", "outcome", "EXIT=exit_code", "verdict"),
    *("WAITED=queue_seconds:span", "COMPUTED=compute_seconds:span", "CPU=cpu_seconds:span"),
    *("MEMORY=peak_memory_bytes:bytes", "WHY=reason/60"),
)
_ATTEMPTS.insert(-1, TableColumn("REQUESTED", _format_requested))
_QUEUE = _parse_columns(
    *("stage", "attempts", "WAITED=queue_seconds:span", "COMPUTED=compute_seconds:span"),
    "UNKNOWN=open",
)
_COSTS = _parse_columns(
    *("session", "WHEN=started_at:when", "WHO=started_by", "ended", "cost", "CPU=cpu_seconds:span"),
    *("MEMORY=peak_memory_bytes:bytes", "completed", "failed"),
)
_COSTS.append(TableColumn("REQUESTED", _format_requested))
_TIMES = [
    *_parse_columns("stage", "status", "times", "TIME=seconds:span"),
    TableColumn("", lambda record: "so far" if record["is_open"] else ""),
]
_AMENDMENTS = [
    *_parse_columns("id", "type"),
    TableColumn("STAGE", lambda record: record["stage"] or "workflow"),
    *_parse_columns("proposed_by"),
    TableColumn("DECISION", _format_decision),
    *_parse_columns("change"),
]
_BYPASSES = _parse_columns("WHEN=at:at", "kind", "WHO=actor", "what", "why", "entry")
_DRIFT_NAMES = (
    *("version", "at", "what", "file", "actor", "kind", "fields", "kept_as", "detected"),
    "message",
)
_DRIFT = [
    *_parse_columns("version:version", "WHEN=at:when", "what", "file", "kind"),
    TableColumn("FIELDS", lambda record: ", ".join(record["fields"]), 60),
    *_parse_columns("kept_as", "message/80"),
]
_REFUSED_NAMES = ("at", "actor", "command", "code", "message", "data")
_REFUSED = _parse_columns("WHEN=at:when", "WHO=actor", "command", "code", "WHY=message/80")


def _run_query(
    workflow: OpenedWorkflow, sql: str, at: Any, **given: Any
) -> tuple[list[str], list[Record]]:

    _require_workflow(workflow)
    with queries.open_history_connection(workflow.root.address, workflow.log, at) as desk:
        answer = desk.run_user_query(sql, given, queries.PATIENCE)
        names = answer.columns
        records = [dict(zip(names, row, strict=True)) for row in answer.rows]
    for record in records:
        for name in queries.JSON_COLUMNS & record.keys():
            record[name] = json.loads(record[name]) if record[name] is not None else None
    return names, records


def _require_workflow(workflow: OpenedWorkflow) -> None:
    """Raise `NoWorkflow` if the folder has only machines.

    The history tables describe only workflows.
    """
    if workflow.config.workflow is None:
        workflow.log.current()


def _answer_query(
    context: Context, sql: str, columns: Sequence[TableColumn], view: Any, **parameters: Any
) -> None:
    with open_for_reading(context) as workflow:
        names, records = _run_query(workflow, sql, view, **parameters)
        print_records(workflow.output, records, columns, names, view)


def transitions(
    context: Context, stage: OfStage = None, status: ToStatus = None, view: AsOf = None
) -> None:
    """List the status changes of stages with time, author and reason."""
    _answer_query(context, queries.TRANSITIONS, _TRANSITIONS, view, stage=stage, status=status)


def retries(context: Context, stage: OfStage = None, view: AsOf = None) -> None:
    """List the retries of failed stages with error and fix."""
    _answer_query(context, queries.RETRIES, _RETRIES, view, stage=stage)


def attempts(context: Context, stage: OfStage = None, view: AsOf = None) -> None:
    """List attempts (runs of stages) and how each attempt ended.

    The list shows the verdict about each attempt, and the evidence for the verdict.
    """
    with open_for_reading(context) as workflow:
        names, records = _run_query(workflow, queries.ATTEMPTS, view, stage=stage)
        used = _collect_attempt_resources(workflow.state(view)) if records else {}
        for record in records:
            nothing = dict.fromkeys((*USED, *_REQUESTED))
            record.update(used.get((record["stage"], record["attempt"]), nothing))
        columns = [*names, *USED, *_REQUESTED]
        print_records(workflow.output, records, _ATTEMPTS, columns, view)


def _collect_attempt_resources(
    state: Workflow,
) -> dict[tuple[str, str], dict[str, float | None]]:
    """Return the resources that each attempt used and requested, by stage and attempt id.

    Unknown values are None.
    """
    return {
        (stage.id, one.id): {name: one.resources.get(name) for name in USED}
        | {f"{_PREFIX}{name}": one.requested.get(name) for name in RESOURCE_NAMES}
        for stage in state.stages.values()
        for one in stage.attempts
    }


def queue(context: Context, stage: OfStage = None, view: AsOf = None) -> None:
    """Show how long each attempt (run of a stage) was queued and running."""
    _answer_query(context, queries.QUEUE, _QUEUE, view, stage=stage)


def costs(context: Context, view: AsOf = None) -> None:
    """Show the cost of each session and why the session ended."""
    with open_for_reading(context) as workflow:
        names, records = _run_query(workflow, queries.COSTS, view)
        _, attempts = _run_query(workflow, queries.ATTEMPTS, view, stage=None)
        used = _collect_attempt_resources(workflow.state(view)) if attempts else {}
        for record in records:
            last = record["last_version"]
            begun = [one for one in attempts if record["first_version"] <= one["version"] <= last]
            told = [used.get((one["stage"], one["attempt"]), {}) for one in begun]
            known = ({n: value for n, value in one.items() if value is not None} for one in told)
            nothing = dict.fromkeys((*USED, *_REQUESTED))
            record.update(nothing | combine_resource_use(known, LARGEST | {*_REQUESTED}))
        print_records(workflow.output, records, _COSTS, [*names, *USED, *_REQUESTED], view)


def times(context: Context, stage: OfStage = None, view: AsOf = None) -> None:
    """Show how long each stage was in each status."""
    from service.questions.status_times import status_times

    with open_for_reading(context) as workflow:
        _, rows = _run_query(workflow, queries.TIMES, view, stage=stage)
        records = status_times(rows, workflow.log, view)
        names = ("stage", "status", "times", "seconds", "is_open")
        print_records(workflow.output, records, _TIMES, names, view)


def amendments(
    context: Context,
    state: Text = option(
        "STATE",
        "List only amendments (plan changes) in this state: proposed, approved or rejected.",
    ),
    stage: Text = option("STAGE", "List only entries about this stage, for example stage-2."),
    field: Text = option(
        "FIELD", "List only changes of this field of a stage, for example parameters.x."
    ),
    person: Text = option(
        "--by",
        "WHO",
        "List only plan changes that this person or program proposed, decided or signed.",
    ),
    view: AsOf = None,
) -> None:
    """List all amendments (proposed changes of the plan) and decisions."""

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
    with open_for_reading(context) as workflow:
        _require_workflow(workflow)
        found = [
            one.to_dict()
            for one in answers.list_amendment_records(workflow.log, view)
            if is_meant(one)
        ]
        print_records(workflow.output, found, _AMENDMENTS, names, view)


def bypasses(context: Context, view: AsOf = None) -> None:
    """List attempts to bypass the approval of a person.

    The exit code is 7 if the list contains an entry that no person has accepted.
    """
    with open_for_reading(context) as workflow:
        every = _collect_entries(workflow, view)
        found = [one.to_dict() for one in every]
        names = [one.name for one in fields(answers.Bypass)]
        print_records(workflow.output, found, _BYPASSES, names, view)
    if any(one.agreed is None for one in every):
        raise SystemExit(FINDINGS)


def agree(
    context: Context,
    options: Writes,
    entries: Annotated[
        list[str],
        argument("ENTRY...", "The ids of the entries, as `wfctl audit bypasses` prints them."),
    ],
    reason: Text = option("TEXT", "Record in the log why you accept the entries."),
    key: DecisionKey = None,
) -> None:
    """Accept attempts to bypass an approval.

    Only a person can do this. Accepted entries of `wfctl audit bypasses` no longer cause exit code
    7.
    """
    if not (reason or "").strip():
        raise InvalidOption(
            "accepting an entry needs a reason. Explain with --reason TEXT why the entry is "
            "acceptable."
        )
    with open_for_reading(context) as workflow:
        reported = _collect_entries(workflow, None)
    meant = [_find_open_entries(reported, entry) for entry in entries]
    ids = {str(one[0].entry): one for one in meant}  # The user may name an entry twice.
    decisions = [_build_acceptance_decision(one, str(reason)) for one in ids.values()]
    line = f"wfctl audit agree {' '.join(dict.fromkeys(entries))} --reason TEXT"
    with open_for_writing(context, options.dry_run) as (service, output):
        print_outcome(output, record_decisions(service, decisions, line, key, options), options)


def _find_open_entries(reported: list[answers.Bypass], entry: str) -> list[answers.Bypass]:
    """Return the open audit entries whose id starts with the given text.

    An entry is open if no person has accepted it. Raises `NotFound` if no open entry matches, and
    `InvalidOption` if several ids match.
    """
    found = [one for one in reported if one.entry and one.entry.startswith(entry)]
    waiting = [one for one in found if one.agreed is None]
    ids = sorted({str(one.entry) for one in waiting})
    if len(ids) > 1:
        raise InvalidOption(
            f"the ids of several entries start with {entry}: {', '.join(ids)}. Give more "
            "characters of the id."
        )
    if not waiting:
        why = (
            "A person has already accepted this entry"
            if found
            else "To list the ids, run `wfctl audit bypasses`"
        )
        raise NotFound(f"no entry with the id {entry!r} waits for a decision. {why}.", entry=entry)
    return waiting


def _build_acceptance_decision(meant: list[answers.Bypass], reason: str) -> Decision:
    """Return a decision that accepts all audit entries with the same id."""
    from lifecycle.payload import models as p

    first = meant[0]
    command = p.AuditAgreed(
        entry=str(first.entry),
        kind=first.kind,
        subject=first.what,
        text="; ".join(dict.fromkeys(one.why for one in meant)),
        reason=reason,
    )
    lines = dict.fromkeys(f"{one.kind} {one.what}: {one.why}" for one in meant)
    text = "\n".join([*lines, f"This will be recorded: a person agrees to the entry ({reason})."])
    return Decision(command, f"entry {first.entry}", text)


def _collect_entries(workflow: OpenedWorkflow, view: Moment | None) -> list[answers.Bypass]:
    """Return all attempts to bypass an approval, with the decisions of persons about them."""
    found = answers.find_bypasses(workflow.root, workflow.log, view)
    try:
        state = workflow.log.current(view)
        agreed = state.agreed
        found += _collect_reported_bypasses(workflow, state, view)
    except (EventStoreError, LifecycleError, ServiceError):
        agreed = {}  # another finding reports a missing workflow or an altered log
    return answers.add_acceptance_texts(
        [*found, *_iterate_machine_bypasses(workflow, view)], agreed
    )


def _collect_reported_bypasses(
    workflow: OpenedWorkflow, state: Workflow, view: Moment | None
) -> list[answers.Bypass]:
    """Return the bypass attempts that the status, the report and the web page also show.

    For a past moment, only entries from the log are returned.
    """
    from reconciler.files.freshness import find_log_differences

    seen = (
        find_log_differences(workflow.root, workflow.log, state)
        if view is None
        else FileCheckResult()
    )
    return answers.convert_account_items(list_result_origin_items(state, seen))


def _iterate_machine_bypasses(
    workflow: OpenedWorkflow, view: Moment | None
) -> Iterator[answers.Bypass]:
    store = workflow.log.store
    for id_ in list_machines(workflow.root, store):
        log = workflow.machine(id_)
        if view is None:
            yield from answers.find_replaced_log_bypasses(workflow.root, store, log.stream)
        yield from answers.find_machine_bypasses(log.steps(upto=view), log.explain_ignored_events())


def drift(context: Context, view: AsOf = None) -> None:
    """List manual edits of generated files, and damage of the log.

    The list shows what was decided about each edit. The exit code is 7 if the list has an entry.
    """
    with open_for_reading(context) as workflow:
        _, rows = _run_query(workflow, queries.DRIFT, view)
        wrong = list(tampering_records(workflow.root, workflow.log)) if view is None else []
        state = workflow.log.state(view)
        stages = state.stages.values() if state is not None else ()
        waiting = [*(state.drifts if state is not None else ()), *(s for s in stages if s.changed)]
        print_records(workflow.output, [*drift_records(rows), *wrong], _DRIFT, _DRIFT_NAMES, view)
    if wrong or waiting:
        raise SystemExit(FINDINGS)


def refused(
    context: Context,
    command: Text = option(
        "List only refused commands that would record this event type, for example stage.retried."
    ),
    code: Text = option(
        "List only refused commands with this error code, for example unknown_stage."
    ),
    machine: Text = option(
        "ID",
        "Use the log of this phase machine (the tracked work of an agent) instead of "
        "the log of the workflow.",
    ),
    view: AsOf = None,
) -> None:
    """List commands that wfctl's rules refused.

    With --actor KIND:NAME, list only the commands of this person or program.
    """
    actor = settings_of(context).actor
    with open_for_reading(context) as root:
        if machine is None:
            _require_workflow(root)
        workflow = root if machine is None else reading_machine(root, machine)
        records = [
            {name: getattr(refusal, name) for name in _REFUSED_NAMES}
            for refusal in list_refusals(workflow.log, view)
            if command is None or command in refusal.command.split(",")
            if code in (None, refusal.code)
            if actor in (None, refusal.actor, refusal.actor.partition(":")[0])
        ]
        print_records(workflow.output, records, _REFUSED, _REFUSED_NAMES, view)


#: Matches a statement that reads one of the history views. These views exist only for a workflow.
_OF_VIEWS = re.compile(r"\bv_", re.IGNORECASE)


def sql(
    context: Context,
    statement: Annotated[
        str,
        argument("SQL", "A single SQL SELECT statement, or - to read the statement from stdin."),
    ],
    timeout: float = option(
        "SECONDS",
        "Stop the query after this number of seconds.",
        min=0.001,
        max=3600,
        default=SQL_PATIENCE,
    ),
    view: AsOf = None,
) -> None:
    """Query the history with SQL.

    The tables are v_events, v_transitions, v_attempts, v_amendments and v_sessions.
    """
    asked = sys.stdin.read() if statement == "-" else statement
    if not asked.strip():
        raise InvalidOption("no SQL statement was given. Write a SELECT statement as the argument.")

    with open_for_reading(context) as workflow:
        if _OF_VIEWS.search(asked):
            _require_workflow(workflow)
        _run_and_print_sql(context, workflow, asked, timeout, view)


def _run_and_print_sql(
    context: Context,
    workflow: OpenedWorkflow,
    asked: str,
    timeout: float,
    view: Moment | None,
) -> None:
    with (
        queries.open_history_connection(workflow.root.address, workflow.log, view) as desk,
        StepTimeLimit(
            timeout, lambda: exit_with_error(settings_of(context), SqlTooLong(timeout))
        ) as watch,
    ):
        answer = watch.step(lambda: desk.run_user_query(asked, {}, timeout))
        names: list[str] = []
        for place, name in enumerate(answer.columns):
            again = answer.columns[:place].count(name)
            names.append(f"{name}_{again + 1}" if again else name)
        records = (
            {name: _make_json_value(value) for name, value in zip(names, row, strict=True)}
            for row in watch.each(answer.rows)
        )
        output = workflow.output
        if output.settings.format is Format.JSONL:
            output.records(records, lambda _: "")
        else:
            columns = [TableColumn(name, partial(_format_cell, name, "")) for name in names]
            print_records(output, list(records), columns, names, view)


def _make_json_value(value: Any) -> Any:
    """Return a value that JSON can represent.

    Bytes, and numbers that are not finite, become strings.
    """
    if isinstance(value, bytes):
        return value.hex()
    # PostgreSQL returns Decimal for sums and means. Convert such a number to a JSON number.
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value) if isinstance(value, float) and not isfinite(value) else value
