"""SQL over the history: the documented views as of a moment, for reading only.

The views are made anew for one connection, in its temporary schema: the tables' rows, and over them
what the tables lack. So a read over tables that are behind is right, and writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from projections.history_rows import Key, Row
from projections.history_tables import NAME, VIEWS, columns_of, history, view
from service.errors import SqlRefused
from service.history import VERSION, HistoryTables, checkpoint_of
from service.log import At, WorkflowLog

#: Seconds that a question may take, where nobody says.
PATIENCE = 10.0
#: The first word of a statement, comments before it; each is passed over once (``?>``, ``*+``).
_OPENING = re.compile(r"(?:[\s(]|--[^\n]*|(?>/\*.*?\*/))*+([a-z]+)\b", re.IGNORECASE | re.DOTALL)


class Answer(NamedTuple):
    """The names of the columns, and the rows."""

    columns: list[str]
    rows: Iterator[Sequence[Any]]


class Desk(Protocol):
    """A connection at which questions are asked; what it makes, it makes for itself alone."""

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        ...

    def make(self, statement: str) -> None:
        """Carry out a statement of ours, before any question."""
        ...

    def fill(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Put rows into a temporary table."""
        ...

    def one(self, statement: str) -> Any:
        """Return the first column of the first row of a statement of ours, None without any."""
        ...

    def ask(self, sql: str, parameters: dict[str, Any], seconds: float) -> Answer:
        """Return what one reading statement yields; from the first on, nothing can be written.

        Parameters are spelt ``:name``. Raises `SqlRefused`, `SqlWrong`, `SqlTooLong`.
        """
        ...

    def close(self) -> None:
        """Forget everything."""
        ...


def expect_reading(sql: str, words: frozenset[str]) -> None:
    """Raise `SqlRefused` for a statement that begins with none of the words of those that read."""
    opening = _OPENING.match(sql)
    if opening is None or opening[1].upper() not in words:
        raise SqlRefused(repr(" ".join(sql.split())[:60]))


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
        from service.inquiry_sqlite import SqliteDesk

        return SqliteDesk(address)
    from service.inquiry_postgres import PostgresDesk

    return PostgresDesk(address)


def _show(desk: Desk, tables: HistoryTables, at: At) -> None:
    """Make the views."""
    parts, usable = tables.rest(checkpoint_of(_kept(desk, tables.log.stream)), at)
    stored = tables.log.stream if usable else None
    lacking = {table.name: f"rest_{name.removeprefix('v_')}" for name, table in VIEWS.items()}
    for table in VIEWS.values():
        listed = ", ".join(columns_of(table))
        desk.make(
            f"CREATE TEMPORARY TABLE {lacking[table.name]} "
            f"AS SELECT {listed} FROM {table.name} WHERE 1 = 0"
        )
    for rows in parts:
        for name, found in rows.items():
            desk.fill(lacking[name], _values(found, columns_of(history.tables[name])))
    for name, table in VIEWS.items():
        keys = [column.name for column in table.primary_key]
        listed = ", ".join(columns_of(table))
        source = _both(table.name, lacking[table.name], listed, keys, stored)
        desk.make(f"CREATE TEMPORARY VIEW {name} AS {view(name, desk.dialect, source)}")


def _values(rows: dict[Key, Row], columns: Sequence[str]) -> list[list[Any]]:
    return [[row.get(column) for column in columns] for row in rows.values()]


def _both(table: str, lacking: str, columns: str, keys: Sequence[str], stored: str | None) -> str:
    """Return the rows of the tables and those they lack; a later row hides an earlier one."""
    rest = f"SELECT {columns} FROM {lacking}"
    if stored is None:
        return rest
    same = " AND ".join(f"r.{key} = h.{key}" for key in keys)
    name = stored.replace("'", "''")
    return (
        f"SELECT {columns} FROM {table} h WHERE h.stream = '{name}' "
        f"AND NOT EXISTS (SELECT 1 FROM {lacking} r WHERE {same}) UNION ALL {rest}"
    )


def _kept(desk: Desk, stream: str) -> bytes | None:
    """Return the tables' checkpoint as the desk sees it, from its first look on for good."""
    name = stream.replace("'", "''")
    found = desk.one(
        f"SELECT state FROM folds WHERE stream = '{name}' AND reducer = '{NAME}' "
        f"AND reducer_version = {VERSION}"
    )
    return bytes(found) if found is not None else None
