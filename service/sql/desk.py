"""A connection to a log in a SQLite file, at which questions are asked."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eventstore.sqlite.connection import meaning, reader
from service.errors import SqlRefused, SqlTooLong, SqlWrong

#: The first word of a statement, comments before it; each is passed over once (``?>``, ``*+``).
_OPENING = re.compile(r"(?:[\s(]|--[^\n]*|(?>/\*.*?\*/))*+([a-z]+)\b", re.IGNORECASE | re.DOTALL)


class QueryResult(NamedTuple):
    """The names of the columns, and the rows."""

    columns: list[str]
    rows: Iterator[Sequence[Any]]


def expect_reading(sql: str, words: frozenset[str]) -> None:
    """Raise `SqlRefused` for a statement that begins with none of the words of those that read."""
    opening = _OPENING.match(sql)
    if opening is None or opening[1].upper() not in words:
        raise SqlRefused(repr(" ".join(sql.split())[:60]))


#: What a question may begin with.
_READS = frozenset({"SELECT", "WITH", "VALUES", "EXPLAIN"})
#: What a question may do: read, call functions, and recurse. Anything else is refused.
_READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
#: Steps of SQLite's machine between two looks at the clock: some tens of microseconds.
_STEPS = 1000
#: Bytes of the longest value that a question may make.
_LONGEST = 50_000_000
_WAIT = 30.0
#: What Python's ``sqlite3`` says of it, as a warning or an error by its version.
_SEVERAL = "You can only execute one statement at a time."


class SqliteDesk:
    """A connection at which questions are asked; what it makes, it makes for itself alone."""

    dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = reader(path, _WAIT)
        # What a question makes need not be sound text; that says nothing of the log.
        self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
        self._connection.execute("PRAGMA temp_store = MEMORY")
        self._connection.execute("BEGIN")
        self._refused = self._guarded = False
        self._end = 0.0

    def make(self, statement: str) -> None:
        """Carry out a statement of ours, before any question."""
        self._connection.execute(statement)

    def one(self, statement: str) -> Any:
        """Return the first column of the first row of a statement of ours, None without any."""
        try:
            row = self._connection.execute(statement).fetchone()
        except sqlite3.Error as error:
            raise meaning(error, self.path, _WAIT) from error
        return row[0] if row is not None else None

    def fill(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Put rows into a temporary table."""
        if rows:
            places = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO temp.{table} VALUES ({places})", rows)

    def ask(self, sql: str, parameters: dict[str, Any], seconds: float) -> QueryResult:
        """Return what one reading statement yields; from the first on, nothing can be written.

        Parameters are spelt ``:name``. Raises `SqlRefused`, `SqlWrong`, `SqlTooLong`.
        """
        expect_reading(sql, _READS)
        self._guard()
        self._end = time.monotonic() + seconds
        try:
            cursor = self._connection.execute(sql, parameters)
            if cursor.description is None:
                raise SqlWrong("it yields no rows")
            columns = [column[0] for column in cursor.description]
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            raise self._meaning(error, seconds) from error
        return QueryResult(columns, self._rows(cursor, seconds))

    def _rows(self, cursor: sqlite3.Cursor, seconds: float) -> Iterator[Sequence[Any]]:
        try:
            yield from cursor
        except sqlite3.Error as error:
            raise self._meaning(error, seconds) from error

    def _guard(self) -> None:
        """Allow nothing but reading from here on; what takes too long is interrupted."""
        if self._guarded:
            return
        self._connection.execute("PRAGMA query_only = ON")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        self._connection.set_authorizer(self._allowed)
        self._connection.set_progress_handler(lambda: time.monotonic() > self._end, _STEPS)
        self._guarded = True

    def _allowed(self, action: int, _first: str | None, second: str | None, *_: Any) -> int:
        loads = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
        if action in _READING and not loads:
            return sqlite3.SQLITE_OK
        self._refused = True
        return sqlite3.SQLITE_DENY

    def _meaning(self, error: Exception, seconds: float) -> Exception:
        if self._refused:
            self._refused = False
            return SqlRefused("one that would do more than read")
        if str(error) == _SEVERAL:
            return SqlRefused("several statements")
        if not isinstance(error, sqlite3.Error):
            return SqlWrong(str(error))
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_INTERRUPT:
            return SqlTooLong(seconds)
        if isinstance(error, sqlite3.ProgrammingError) or code in (
            sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH
        ):  # fmt: skip
            return SqlWrong(str(error))
        return meaning(error, self.path, _WAIT)

    def close(self) -> None:
        """Forget everything."""
        self._connection.close()
