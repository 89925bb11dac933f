"""``wfctl audit transitions …``: ready-made questions to the history, as table, JSON or CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from cli.frame.options import At, KnownAt
from cli.frame.workspace import Reading, moment, reading
from cli.terminal.table import TableColumn, present
from projections.words.cells import shown
from projections.words.times import utc_seconds
from service.sql import questions

OfStage = Annotated[str | None, typer.Option("--stage", help="Only of this stage.")]
ToStatus = Annotated[str | None, typer.Option("--status", help="Only into this status.")]
Records = list[dict[str, Any]]


def asked(workflow: Reading, sql: str, at: Any, **parameters: Any) -> tuple[list[str], Records]:
    """Return the columns and the records that a question of ours yields."""
    from service.sql.inquiry import inquiry  # loads the tables of the history

    with inquiry(workflow.root.address, workflow.log, at) as desk:
        answer = desk.ask(sql, parameters, questions.PATIENCE)
        return answer.columns, [record_of(answer.columns, row) for row in answer.rows]


def record_of(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """Return a row by the names of its columns, JSON decoded."""
    return {
        name: json.loads(value) if name in questions.JSON_COLUMNS and value is not None else value
        for name, value in zip(columns, row, strict=True)
    }


def _answered(
    context: typer.Context, sql: str, columns: Sequence[TableColumn], view: Any, **parameters: Any
) -> None:
    with reading(context) as workflow:
        names, records = asked(workflow, sql, view, **parameters)
        present(workflow.output, records, columns, names, view)


def transitions(
    context: typer.Context,
    stage: OfStage = None,
    status: ToStatus = None,
    at: At = None,
    known_at: KnownAt = None,
) -> None:
    """Every change of a stage's status: when, from what, by whom and why."""
    view = moment(at, known_at)
    _answered(context, questions.TRANSITIONS, _TRANSITIONS, view, stage=stage, status=status)


def retries(
    context: typer.Context, stage: OfStage = None, at: At = None, known_at: KnownAt = None
) -> None:
    """Every stage that ran again after it failed: the error, and what was done about it."""
    _answered(context, questions.RETRIES, _RETRIES, moment(at, known_at), stage=stage)


def attempts(
    context: typer.Context, stage: OfStage = None, at: At = None, known_at: KnownAt = None
) -> None:
    """Every attempt with its verdict and the evidence for it."""
    _answered(context, questions.ATTEMPTS, _ATTEMPTS, moment(at, known_at), stage=stage)


def queue(
    context: typer.Context, stage: OfStage = None, at: At = None, known_at: KnownAt = None
) -> None:
    """How long the attempts of each stage waited, and how long they computed."""
    _answered(context, questions.QUEUE, _QUEUE, moment(at, known_at), stage=stage)


def costs(context: typer.Context, at: At = None, known_at: KnownAt = None) -> None:
    """What each session cost, and how it ended."""
    _answered(context, questions.COSTS, _COSTS, moment(at, known_at))


def times(
    context: typer.Context, stage: OfStage = None, at: At = None, known_at: KnownAt = None
) -> None:
    """How long each stage was in each status; the present one until the moment asked for."""
    view = moment(at, known_at)
    from service.questions.status_times import status_times

    with reading(context) as workflow:
        _, rows = asked(workflow, questions.TIMES, view, stage=stage)
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
