"""A database connection for queries about a log in an SQLite file."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eventstore.sqlite.connection import open_reader, translate_error
from service.errors import SqlRefused, SqlTooLong, SqlWrong

#: Matches the first keyword of a statement after comments and brackets. Possessive quantifiers
#: prevent slow backtracking.
_OPENING = re.compile(r"(?:[\s(]|--[^\n]*|(?>/\*.*?\*/))*+([a-z]+)\b", re.IGNORECASE | re.DOTALL)


class QueryResult(NamedTuple):
    """The result of a query: the names of its columns, and its rows."""

    columns: list[str]
    rows: Iterator[Sequence[Any]]


def check_first_keyword(sql: str, words: frozenset[str]) -> None:
    """Raise `SqlRefused` if the statement does not start with a permitted keyword."""
    opening = _OPENING.match(sql)
    if opening is None or opening[1].upper() not in words:
        raise SqlRefused(repr(" ".join(sql.split())[:60]))


#: Keywords with which a query may start.
_READS = frozenset({"SELECT", "WITH", "VALUES", "EXPLAIN"})
#: SQLite actions that a query may perform: read, call functions, and recurse. All others are
#: refused.
_READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
#: Number of steps of SQLite's virtual machine between two checks of the time limit.
_STEPS = 1000
#: Maximum size in bytes of a value that a query may create.
_LONGEST = 50_000_000
_WAIT = 30.0
#: Message of Python's ``sqlite3`` module, as a warning or an error, if a text contains several
#: statements.
_SEVERAL = "You can only execute one statement at a time."


class SqliteQueryConnection:
    """A connection for queries. Its temporary tables are invisible to other connections."""

    dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = open_reader(path, _WAIT)
        # Replace invalid text, because a query may produce such text even if the log is undamaged.
        self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
        self._connection.execute("PRAGMA temp_store = MEMORY")
        self._connection.execute("BEGIN")
        self._refused = self._guarded = False
        self._end = 0.0

    def run_trusted_statement(self, statement: str) -> None:
        """Run a trusted statement of wfctl, before any query of the user."""
        self._connection.execute(statement)

    def fetch_trusted_value(self, statement: str) -> Any:
        """Run a trusted statement and return the first value of its result, or None."""
        try:
            row = self._connection.execute(statement).fetchone()
        except sqlite3.Error as error:
            raise translate_error(error, self.path, _WAIT) from error
        return row[0] if row is not None else None

    def insert_rows(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows into a temporary table."""
        if rows:
            places = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO temp.{table} VALUES ({places})", rows)

    def run_user_query(self, sql: str, parameters: dict[str, Any], seconds: float) -> QueryResult:
        """Run one query and return its result.

        Afterwards, the connection can no longer write.

        Parameters have the form ``:name``. Raises `SqlRefused` if the statement could write,
        `SqlWrong` if it is invalid, and `SqlTooLong` if it exceeds the time limit.
        """
        check_first_keyword(sql, _READS)
        self._forbid_writes()
        self._end = time.monotonic() + seconds
        try:
            cursor = self._connection.execute(sql, parameters)
            if cursor.description is None:
                raise SqlWrong("the statement returns no rows")
            columns = [column[0] for column in cursor.description]
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            raise self._translate_error(error, seconds) from error
        return QueryResult(columns, self._iterate_rows(cursor, seconds))

    def _iterate_rows(self, cursor: sqlite3.Cursor, seconds: float) -> Iterator[Sequence[Any]]:
        try:
            yield from cursor
        except sqlite3.Error as error:
            raise self._translate_error(error, seconds) from error

    def _forbid_writes(self) -> None:
        """Make the connection read-only, and interrupt statements that take too long."""
        if self._guarded:
            return
        self._connection.execute("PRAGMA query_only = ON")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        self._connection.set_authorizer(self._authorize_action)
        self._connection.set_progress_handler(lambda: time.monotonic() > self._end, _STEPS)
        self._guarded = True

    def _authorize_action(
        self, action: int, _first: str | None, second: str | None, *_: Any
    ) -> int:
        loads = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
        if action in _READING and not loads:
            return sqlite3.SQLITE_OK
        self._refused = True
        return sqlite3.SQLITE_DENY

    def _translate_error(self, error: Exception, seconds: float) -> Exception:
        if self._refused:
            self._refused = False
            return SqlRefused("a statement that changes data")
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
        return translate_error(error, self.path, _WAIT)

    def close(self) -> None:
        """Close the connection and discard its temporary tables."""
        self._connection.close()
