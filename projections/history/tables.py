"""The history as tables in the log's own database, and the views that are documented.

A cache like every projection: rows of a stream up to its checkpoint, which is a stored fold of the
reducer `checkpoint.NAME`. What a migration builds and what these build is the same, by test.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import DDL, BigInteger, Column, Double, MetaData, Table, Text, event

#: Names in the order of their bytes on every engine, as in the tables of the log.
_NAME = Text().with_variant(Text(collation="C"), "postgresql")

history = MetaData()

events = Table(
    "history_events",
    history,
    Column("stream", _NAME, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("stage", Text),
    Column("attempt", Text),
    Column("amendment", Text),
    Column("actor", Text, nullable=False),
    Column("session", BigInteger),
    Column("command_id", Text, nullable=False),
    Column("causation_id", Text),
    Column("occurred_at", Text, nullable=False),
    Column("message", Text),
)

transitions = Table(
    "history_transitions",
    history,
    Column("stream", _NAME, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("stage", Text, primary_key=True),
    Column("from_status", Text),
    Column("to_status", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("reason", Text),
    Column("attempt", Text),
    Column("amendment", Text),
    Column("actor", Text, nullable=False),
    Column("session", BigInteger),
    Column("occurred_at", Text, nullable=False),
    Column("recorded_at", Text, nullable=False),
    Column("since", Text),
    Column("seconds", Double),
)

attempts = Table(
    "history_attempts",
    history,
    Column("stream", _NAME, primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("attempt", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("mode", Text, nullable=False),
    Column("host", Text),
    Column("started_at", Text, nullable=False),
    Column("launched_at", Text),
    Column("computing_from", Text),
    Column("ended_at", Text),
    Column("queue_seconds", Double),
    Column("compute_seconds", Double),
    Column("outcome", Text),
    Column("exit_code", BigInteger),
    Column("verdict", Text),
    Column("verdict_row", BigInteger),
    Column("action", Text),
    Column("reason", Text),
    Column("evidence", Text),
    Column("relaunches", BigInteger, nullable=False),
    Column("recovers", Text),
    Column("diagnostic", BigInteger, nullable=False),
    Column("job_ids", Text, nullable=False),
    Column("submission_sha256", Text, nullable=False),
)

amendments = Table(
    "history_amendments",
    history,
    Column("stream", _NAME, primary_key=True),
    Column("amendment", Text, primary_key=True),
    Column("type", Text, nullable=False),
    Column("stage", Text),
    Column("state", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("reason", Text),
    Column("changes", Text, nullable=False),
    Column("affected", Text, nullable=False),
    Column("workflow_version", BigInteger),
    Column("proposed_version", BigInteger),
    Column("proposed_at", Text, nullable=False),
    Column("proposed_by", Text),
    Column("decided_version", BigInteger),
    Column("decided_at", Text),
    Column("decided_by", Text),
    Column("policy", Text),
    Column("signer", Text),
)

sessions = Table(
    "history_sessions",
    history,
    Column("stream", _NAME, primary_key=True),
    Column("session", BigInteger, primary_key=True, autoincrement=False),
    Column("first_version", BigInteger, nullable=False),
    Column("last_version", BigInteger, nullable=False),
    Column("started_at", Text, nullable=False),
    Column("started_by", Text, nullable=False),
    Column("ended_at", Text),
    Column("ended", Text, nullable=False),
    Column("cost", Double, nullable=False),
    Column("charges", BigInteger, nullable=False),
    Column("completed", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
)

#: The view over each table. ``v_events`` has what the log's own table holds of an event as well.
VIEWS = {
    "v_events": events,
    "v_transitions": transitions,
    "v_attempts": attempts,
    "v_amendments": amendments,
    "v_sessions": sessions,
}
_OF_THE_LOG = ("position", "event_id", "type", "recorded_at", "hash")
_DATA = {
    "sqlite": "json_extract(e.body, '$.data')",
    "postgresql": "(e.body::jsonb -> 'data')::text",
}


def columns_of(table: Table) -> list[str]:
    """Return the names of a table's columns, in order."""
    return [column.name for column in table.columns]


def view(name: str, dialect: str) -> str:
    """Return what a view selects."""
    table = VIEWS[name]
    source = f"SELECT {', '.join(columns_of(table))} FROM {table.name}"
    if table is not events:
        return source
    ours = ", ".join(f"h.{column}" for column in columns_of(table))
    theirs = ", ".join(f"e.{column}" for column in _OF_THE_LOG)
    return (
        f"SELECT {ours}, {theirs}, {_DATA[dialect]} AS data FROM events e "
        f"JOIN ({source}) h ON h.stream = e.stream AND h.version = e.version"
    )


def _statements(dialect: str) -> Iterator[str]:
    for name in VIEWS:
        yield f"CREATE VIEW {name} AS {view(name, dialect)}"


for _dialect in _DATA:
    for _statement in _statements(_dialect):
        _made = DDL(_statement)  # type: ignore[no-untyped-call]
        event.listen(history, "after_create", _made.execute_if(dialect=_dialect))
