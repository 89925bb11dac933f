"""Do the history's tables hold what the log says?

They are a cache, and whoever has SQL on the database can write it. What they hold is compared with
the rows that the log makes, folded from its first event.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, select

from eventstore.verification import Finding
from migrations.database import database_of
from projections.history.rows import HistoryRows, Key, Row
from projections.history.tables import history
from service.reading.log import WorkflowLog
from service.sql.tables import CHUNK, HistoryTables

_MEND = "`wfctl db project --rebuild` makes the rows anew"
#: Table → key → a digest of the row, good for this process alone.
Held = dict[str, dict[Key, int]]


def check_tables(address: Path | str, log: WorkflowLog) -> Iterator[Finding]:
    """Yield what the tables hold otherwise than the log, one finding a table."""
    tables = HistoryTables(address, log)
    upto = tables.checkpoint().version
    if not upto:
        return
    held = _held(address, log.stream)
    if tables.checkpoint().version != upto:  # somebody writes them now, who checked what he read
        return
    wrong: dict[str, Key] = {}
    for rows in _expected(log, upto):
        for name, found in rows.items():
            _compare(name, found, held[name], wrong)
    for name, left in held.items():
        if name in wrong or left:
            key = wrong.get(name) or next(iter(left))
            said = f"the row {key} of {name} is not what the log says; {_MEND}"
            yield Finding(log.stream, _version(key, upto), None, "history_changed", said)


def _compare(
    name: str, rows: Mapping[Key, Row], held: dict[Key, int], wrong: dict[str, Key]
) -> None:
    for row in rows.values():
        key, digest = _digest(history.tables[name], row)
        if held.pop(key, None) != digest:
            wrong.setdefault(name, key)


def _expected(log: WorkflowLog, upto: int) -> Iterator[dict[str, dict[Key, Row]]]:
    rows = HistoryRows(log.stream)
    for event, state in log.steps():
        if event.version > upto:
            break
        rows.add(event, state)
        if event.version % CHUNK == 0:
            yield rows.settled()
    yield rows.taken()


def _held(address: Path | str, stream: str) -> Held:
    with database_of(address).reading() as connection:
        driver = connection.connection.driver_connection
        if isinstance(driver, sqlite3.Connection):  # what somebody wrote need not be sound text
            driver.text_factory = lambda text: text.decode("utf-8", "replace")
        return {name: _rows(connection, table, stream) for name, table in history.tables.items()}


def _rows(connection: Connection, table: Table, stream: str) -> dict[Key, int]:
    asked = select(table).where(table.c.stream == stream)
    return dict(_digest(table, row) for row in connection.execute(asked).mappings())


def _digest(table: Table, row: Mapping[Any, Any]) -> tuple[Key, int]:
    key = tuple(row.get(column.name) for column in table.primary_key if column.name != "stream")
    return key, hash(tuple(row.get(column.name) for column in table.columns))


def _version(key: Key, upto: int) -> int:
    return next((part for part in key if isinstance(part, int)), upto)
