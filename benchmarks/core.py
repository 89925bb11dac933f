"""Insert the same rows through SQLAlchemy Core, the library that wfctl's store uses.

This measures the lowest cost of a program that uses SQLAlchemy. It depends on the disk in the same
way as the store of wfctl does, so it helps to interpret the ratio to plain sqlite3.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, create_engine, func, insert, select

from benchmarks import raw
from benchmarks.ours import SINGLES
from eventstore.tables import events

_HEAD = select(func.max(events.c.version)).where(events.c.stream == bindparam("stream"))
_INSERT = insert(events)


def singles(folder: Path) -> float:
    """Insert and commit one row at a time on one connection; return rows per second."""
    return _singles(folder, _inserted)


def checked_singles(folder: Path) -> float:
    """Insert and commit one row at a time, after a check of the stream's version.

    Returns the rows per second.
    """
    return _singles(folder, _checked)


def _singles(folder: Path, record: Callable[[Connection, dict[str, Any]], None]) -> float:
    path, names = folder / "core.db", events.columns.keys()
    rows = [dict(zip(names, row, strict=True)) for row in raw.rows(SINGLES)]
    raw.connection(path).close()
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA synchronous=FULL")
        connection.commit()
        start = time.perf_counter()
        for row in rows:
            record(connection, row)
        seconds = time.perf_counter() - start
    engine.dispose()
    return SINGLES / seconds


def _inserted(connection: Connection, row: dict[str, Any]) -> None:
    connection.execute(_INSERT, row)
    connection.commit()


def _checked(connection: Connection, row: dict[str, Any]) -> None:
    head = connection.execute(_HEAD, {"stream": row["stream"]}).scalar() or 0
    if head != row["version"] - 1:
        raise AssertionError(f"expected version {row['version'] - 1}, found {head}")
    _inserted(connection, row)
