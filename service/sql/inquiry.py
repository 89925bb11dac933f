"""SQL over the history: the documented views as of a moment, for reading only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, Double, Table, Text

from projections.history.rows import Key, Row
from projections.history.tables import VIEWS, columns_of, history, view
from service.reading.log import WorkflowLog
from service.reading.stream_log import At
from service.sql.desk import Desk
from service.sql.tables import HistoryTables

#: How both engines spell the types of the history's columns.
_TYPES = {Text: "TEXT", BigInteger: "BIGINT", Double: "DOUBLE PRECISION"}


@contextmanager
def inquiry(address: Path | str, log: WorkflowLog, at: At = None) -> Iterator[Desk]:
    """Open a desk whose views show one workflow's history, up to a moment."""
    tables = HistoryTables(address, log)
    desk = _desk(address)
    try:
        _show(desk, tables, at)
        yield desk
    finally:
        desk.close()


def _desk(address: Path | str) -> Desk:
    if isinstance(address, Path):
        from service.sql.desk import SqliteDesk

        return SqliteDesk(address)
    from service.sql.postgres import PostgresDesk

    return PostgresDesk(address)


def _show(desk: Desk, tables: HistoryTables, at: At) -> None:
    seen = _head(desk, tables.log.stream) if at is None else at
    for table in VIEWS.values():
        desk.make(f"CREATE TEMPORARY TABLE {table.name} ({', '.join(_declared(table))})")
    for rows in tables.folded(seen):
        for name, found in rows.items():
            desk.fill(name, _values(found, columns_of(history.tables[name])))
    for name in VIEWS:
        desk.make(f"CREATE TEMPORARY VIEW {name} AS {view(name, desk.dialect)}")


def _head(desk: Desk, stream: str) -> int | None:
    """Return the last version as the desk sees it, from its first look on for good."""
    name = stream.replace("'", "''")
    found = desk.one(f"SELECT max(version) FROM events WHERE stream = '{name}'")
    return found if isinstance(found, int) else None


def _declared(table: Table) -> Iterator[str]:
    return (f"{column.name} {_TYPES[type(column.type)]}" for column in table.columns)


def _values(rows: dict[Key, Row], columns: Sequence[str]) -> list[list[Any]]:
    return [[row.get(column) for column in columns] for row in rows.values()]
