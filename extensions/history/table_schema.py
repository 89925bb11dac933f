"""Define the SQL tables of the history and their documented views.

The tables are a cache of the log: they contain the rows of a workflow up to the checkpoint
`checkpoint.NAME`. A test checks that these definitions match the migrations.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import DDL, BigInteger, Column, Double, MetaData, Table, Text, event
from sqlalchemy.types import TypeEngine

#: Names are sorted by their bytes in every database, as in the tables of the log.
_NAME = Text().with_variant(Text(collation="C"), "postgresql")

#: Suffix of a column name → type of the column; the default is text.
_KINDS: dict[str, TypeEngine[Any]] = {"stream": _NAME, "#": BigInteger(), ".": Double()}

history = MetaData()


def _build_table(name: str, columns: str) -> Table:
    """Return a table from a text with the names of its columns.

    Marks after a name mean: ``#`` a whole number, ``.`` a real number, ``*`` a part of the primary
    key, ``!`` never null. The default type is text. The key starts with the stream.
    """
    return Table(name, history, *map(_build_column, ["stream*", *columns.split()]))


def _build_column(text: str) -> Column[Any]:
    name = text.rstrip("#.*!")
    kind: TypeEngine[Any] = next((of for mark, of in _KINDS.items() if mark in text), Text())
    if "*" in text:
        return Column(name, kind, primary_key=True, autoincrement=False)
    return Column(name, kind, nullable="!" not in text)


events = _build_table(
    "history_events",
    "version#* stage attempt amendment actor! session# command_id! causation_id occurred_at! "
    "message",
)
transitions = _build_table(
    "history_transitions",
    "version#* stage* from_status to_status! type! reason attempt amendment actor! session# "
    "occurred_at! recorded_at! since seconds.",
)
attempts = _build_table(
    "history_attempts",
    "stage* attempt* version#! mode! host started_at! launched_at computing_from ended_at "
    "queue_seconds. compute_seconds. outcome exit_code# verdict verdict_row# action reason "
    "evidence relaunches#! recovers diagnostic#! job_ids! submission_sha256!",
)
amendments = _build_table(
    "history_amendments",
    "amendment* type! stage state! description! reason changes! affected! workflow_version# "
    "proposed_version# proposed_at! proposed_by decided_version# decided_at decided_by policy "
    "signer",
)
sessions = _build_table(
    "history_sessions",
    "session#* first_version#! last_version#! started_at! started_by! ended_at ended! cost.! "
    "charges#! completed#! failed#!",
)

#: View name → its table. ``v_events`` also includes columns of the log's own table.
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


def list_column_names(table: Table) -> list[str]:
    """Return the names of a table's columns, in order."""
    return [column.name for column in table.columns]


def build_view_query(name: str, dialect: str) -> str:
    """Return the SELECT statement that defines a view."""
    table = VIEWS[name]
    source = f"SELECT {', '.join(list_column_names(table))} FROM {table.name}"
    if table is not events:
        return source
    ours = ", ".join(f"h.{column}" for column in list_column_names(table))
    theirs = ", ".join(f"e.{column}" for column in _OF_THE_LOG)
    return (
        f"SELECT {ours}, {theirs}, {_DATA[dialect]} AS data FROM events e "
        f"JOIN ({source}) h ON h.stream = e.stream AND h.version = e.version"
    )


for _dialect in _DATA:
    for _name in VIEWS:
        _made = DDL(f"CREATE VIEW {_name} AS {build_view_query(_name, _dialect)}")  # type: ignore[no-untyped-call]
        event.listen(history, "after_create", _made.execute_if(dialect=_dialect))
