"""The history as tables in the log's own database, and the views that are documented.

A cache like every projection: rows of a stream up to its checkpoint, which is a stored fold of the
reducer `checkpoint.NAME`. What a migration builds and what these build is the same, by test.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import DDL, BigInteger, Column, Double, MetaData, Table, Text, event
from sqlalchemy.types import TypeEngine

#: Names in the order of their bytes on every engine, as in the tables of the log.
_NAME = Text().with_variant(Text(collation="C"), "postgresql")

#: What ends the name of a column → its type; text if nothing does.
_KINDS: dict[str, TypeEngine[Any]] = {"stream": _NAME, "#": BigInteger(), ".": Double()}

history = MetaData()


def _table(name: str, columns: str) -> Table:
    """Return a table of columns that are named in a text, in order, each with marks behind it.

    ``#`` is a whole number and ``.`` a real one, else it is text; ``*`` is a part of the key, which
    begins with the stream; ``!`` is never null.
    """
    return Table(name, history, *map(_column, ["stream*", *columns.split()]))


def _column(text: str) -> Column[Any]:
    name = text.rstrip("#.*!")
    kind: TypeEngine[Any] = next((of for mark, of in _KINDS.items() if mark in text), Text())
    if "*" in text:
        return Column(name, kind, primary_key=True, autoincrement=False)
    return Column(name, kind, nullable="!" not in text)


events = _table(
    "history_events",
    "version#* stage attempt amendment actor! session# command_id! causation_id occurred_at! "
    "message",
)
transitions = _table(
    "history_transitions",
    "version#* stage* from_status to_status! type! reason attempt amendment actor! session# "
    "occurred_at! recorded_at! since seconds.",
)
attempts = _table(
    "history_attempts",
    "stage* attempt* version#! mode! host started_at! launched_at computing_from ended_at "
    "queue_seconds. compute_seconds. outcome exit_code# verdict verdict_row# action reason "
    "evidence relaunches#! recovers diagnostic#! job_ids! submission_sha256!",
)
amendments = _table(
    "history_amendments",
    "amendment* type! stage state! description! reason changes! affected! workflow_version# "
    "proposed_version# proposed_at! proposed_by decided_version# decided_at decided_by policy "
    "signer",
)
sessions = _table(
    "history_sessions",
    "session#* first_version#! last_version#! started_at! started_by! ended_at ended! cost.! "
    "charges#! completed#! failed#!",
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


for _dialect in _DATA:
    for _name in VIEWS:
        _made = DDL(f"CREATE VIEW {_name} AS {view(_name, _dialect)}")  # type: ignore[no-untyped-call]
        event.listen(history, "after_create", _made.execute_if(dialect=_dialect))
