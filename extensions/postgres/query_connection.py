"""Run queries about a log on a PostgreSQL server, read-only and with a time limit."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any

import psycopg
from psycopg import sql as spelling
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from extensions.history.sqlite_query_connection import QueryResult, check_first_keyword
from extensions.history.table_schema import VIEWS
from extensions.postgres.connection import connect_to_server, reason_of, translate_error
from service.errors import SqlRefused, SqlTooLong, SqlWrong

_MAY_ALL = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
# Let a function run queries as a role without permissions. Only a superuser can give a function to
# such a role.
_ANSWER = (
    "CREATE FUNCTION pg_temp.wfctl_answer(question text) RETURNS SETOF record LANGUAGE plpgsql "
    "SECURITY DEFINER AS 'BEGIN RETURN QUERY EXECUTE question; END'"
)
#: Types that the result of a function cannot contain as columns. Such columns are converted to
#: text.
_PSEUDO = frozenset({"record", "void", "cstring"})

_Connection = psycopg.Connection[tuple[Any, ...]]


def _make_role(connection: _Connection) -> None:
    """Create a role with few permissions, and a function that runs queries as this role.

    Both disappear at the end of the transaction, which is never committed.
    """
    role = f"wfctl_question_{secrets.token_hex(8)}"
    schemas = "SELECT quote_ident(s) FROM unnest(current_schemas(false)) s"
    named = [str(schema) for (schema,) in connection.execute(schemas)]
    for statement in (
        f"CREATE ROLE {role}",
        _ANSWER,
        f"ALTER FUNCTION pg_temp.wfctl_answer(text) OWNER TO {role}",
        # Grant this permission so that the server reports a refused table by its name, instead of
        # reporting that the table does not exist.
        *(f"GRANT USAGE ON SCHEMA {schema} TO {role}" for schema in named),
        f"GRANT SELECT ON {', '.join(f'pg_temp.{name}' for name in VIEWS)} TO {role}",
    ):
        connection.execute(statement.encode())


def _build_restricted_query(connection: _Connection, question: str) -> tuple[str, list[str]]:
    """Return a statement that runs a query as the restricted role, and its columns.

    The query is parsed but not run. Raises `psycopg.Error` if it is not valid.
    """
    names, types = _describe_columns(connection, question)
    numbered = [f"c{number}" for number in range(1, len(names) + 1)]
    if _PSEUDO.intersection(types):
        as_text = ", ".join(f"{c}::text" if t in _PSEUDO else c
                            for c, t in zip(numbered, types, strict=True))  # fmt: skip
        question = f"SELECT {as_text} FROM ({question}\n) q({', '.join(numbered)})"
        types = ["text" if type_ in _PSEUDO else type_ for type_ in types]
    listed = ", ".join(f"{c} {t}" for c, t in zip(numbered, types, strict=True))
    literal = spelling.Literal(question).as_string(connection)
    return f"SELECT * FROM pg_temp.wfctl_answer({literal}) t({listed})", names


def _describe_columns(connection: _Connection, question: str) -> tuple[list[str], list[str]]:
    server = connection.pgconn
    described = server.prepare(b"", question.encode())
    if described.status == ExecStatus.COMMAND_OK:
        described = server.describe_prepared(b"")
    if described.status != ExecStatus.COMMAND_OK:
        raise error_from_result(described)
    found = range(described.nfields)
    names = [(described.fname(n) or b"").decode() for n in found]
    kinds = [(described.ftype(n), described.fmod(n)) for n in found]
    spelt = (connection.execute("SELECT format_type(%s::oid, %s)", kind) for kind in kinds)
    return names, [str(row[0]) for cursor in spelt for row in cursor]


_CHUNK = 1000
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
#: Keywords with which a query may start.
_READS = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
# Error codes (SQLSTATE) in appendix A of PostgreSQL's manual: query_canceled; then
# read_only_sql_transaction, insufficient_privilege and feature_not_supported; then the classes for
# wrong data, wrong syntax and exceeded limits.
_CANCELED = "57014"
_REFUSED = frozenset({"25006", "42501", "0A000"})
_WRONG = frozenset({"22", "42", "54"})
#: Name of the server function that refuses a query with several statements.
_PARSING = "exec_parse_message"


class PostgresQueryConnection:
    """A connection for queries about a log on a PostgreSQL server.

    It has the same methods as `SqliteQueryConnection`.
    """

    dialect = "postgresql"

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection = connect_to_server(address)
        self.run_trusted_statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE")
        self._may_all = bool(self.fetch_trusted_value(_MAY_ALL))
        self._guarded = False
        self._cursors = 0

    def run_trusted_statement(self, statement: str) -> None:
        """Run a trusted statement of wfctl, before any query of the user."""
        self._connection.execute(statement)

    def fetch_trusted_value(self, statement: str) -> Any:
        """Run a trusted statement and return the first value of its result, or None."""
        row = self._connection.execute(statement).fetchone()
        return row[0] if row is not None else None

    def insert_rows(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows into a temporary table."""
        copied = f"COPY {table} FROM STDIN"
        with self._connection.cursor().copy(copied) as copy:
            for row in rows:
                copy.write_row(row)

    def run_user_query(self, sql: str, parameters: dict[str, Any], seconds: float) -> QueryResult:
        """Run one query and return its result. See `SqliteDesk.ask` for the errors.

        Afterwards, the connection can no longer write.
        """
        check_first_keyword(sql, _READS)
        if not self._guarded:
            if self._may_all:
                _make_role(self._connection)
            self.run_trusted_statement("SET TRANSACTION READ ONLY")
            self._guarded = True
        self._cursors += 1
        name = f"answer_{self._cursors}"
        self.run_trusted_statement(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}")
        with self._enforce_time_limit(seconds):
            names = self._declare_cursor(name, sql, parameters)
            first = self._fetch_chunk(name)
        columns = names or [column.name for column in first.description or ()]
        return QueryResult(columns, self._iterate_rows(name, first.fetchall(), seconds))

    def _declare_cursor(self, name: str, sql: str, parameters: dict[str, Any]) -> list[str] | None:
        """Declare a cursor for one query.

        Returns the names of the columns if the cursor itself does not know them, otherwise None.
        """
        names = None
        if parameters:
            spelt = _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))
            sql = psycopg.ClientCursor(self._connection).mogrify(spelt, parameters)
        if self._may_all:
            sql, names = _build_restricted_query(self._connection, sql)
        # Use the binary protocol, because it refuses a second statement, such as a COMMIT.
        statement = f"DECLARE {name} NO SCROLL CURSOR FOR {sql}"
        self._connection.cursor().execute(statement.encode(), binary=True)
        return names

    def _iterate_rows(self, name: str, rows: list[Any], seconds: float) -> Iterator[Sequence[Any]]:
        while rows:
            yield from rows
            with self._enforce_time_limit(seconds):
                rows = self._fetch_chunk(name).fetchall()

    def _fetch_chunk(self, name: str) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._connection.execute(f"FETCH {_CHUNK} FROM {name}")

    @contextmanager
    def _enforce_time_limit(self, seconds: float) -> Iterator[None]:
        """Cancel a query that takes too long while the `with` block runs.

        The limit of the server is not sufficient, because a query can change it.
        """
        timer = Timer(seconds, self._connection.cancel)
        timer.daemon = True
        timer.start()
        try:
            yield
        except psycopg.Error as error:
            raise self._translate_error(error, seconds) from error
        finally:
            timer.cancel()

    def _translate_error(self, error: psycopg.Error, seconds: float) -> Exception:
        state = error.sqlstate or ""
        if state == _CANCELED:
            return SqlTooLong(seconds)
        if state in _REFUSED or error.diag.source_function == _PARSING:
            return SqlRefused(f"a statement that the database rejects: {reason_of(error)}")
        if state[:2] in _WRONG:
            return SqlWrong(reason_of(error))
        return translate_error(error, self.address, seconds)

    def close(self) -> None:
        """Close the connection and discard its temporary tables."""
        self._connection.close()
