"""A superuser's question is answered by a role that may read the views, and may do nothing else.

A superuser may read the server's files and end its sessions from within a query, whatever the
transaction says. So the question runs in a function of a role that exists in this transaction
alone. From a function that runs as its owner there is no way back to another role: a ``SET ROLE``,
which a question can undo by ``set_config``, would not do.
"""

from __future__ import annotations

import secrets
from typing import Any

import psycopg
from psycopg import sql as spelling
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from projections.history.tables import VIEWS

_MAY_ALL = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
# Only a superuser can hand a function to a role that nobody is a member of.
_ANSWER = (
    "CREATE FUNCTION pg_temp.wfctl_answer(question text) RETURNS SETOF record LANGUAGE plpgsql "
    "SECURITY DEFINER AS 'BEGIN RETURN QUERY EXECUTE question; END'"
)
#: Types that no column of a function's answer can have.
_PSEUDO = frozenset({"record", "void", "cstring"})

Connection = psycopg.Connection[tuple[Any, ...]]


def may_all(connection: Connection) -> bool:
    """Return whether the login is a superuser."""
    row = connection.execute(_MAY_ALL).fetchone()
    return row is not None and bool(row[0])


def make_role(connection: Connection) -> None:
    """Make the role and its function. Both are gone with the transaction, which never commits."""
    role = f"wfctl_question_{secrets.token_hex(8)}"
    schemas = "SELECT quote_ident(s) FROM unnest(current_schemas(false)) s"
    named = [str(schema) for (schema,) in connection.execute(schemas)]
    for statement in (
        f"CREATE ROLE {role}",
        _ANSWER,
        f"ALTER FUNCTION pg_temp.wfctl_answer(text) OWNER TO {role}",
        # What is there is refused by its name, instead of not found.
        *(f"GRANT USAGE ON SCHEMA {schema} TO {role}" for schema in named),
        f"GRANT SELECT ON {', '.join(f'pg_temp.{name}' for name in VIEWS)} TO {role}",
    ):
        connection.execute(statement.encode())


def handed_over(connection: Connection, question: str) -> tuple[str, list[str]]:
    """Return the statement by which the role answers a question, and the answer's columns.

    The question is parsed here and not carried out. Raises `psycopg.Error`.
    """
    names, types = _columns(connection, question)
    numbered = [f"c{number}" for number in range(1, len(names) + 1)]
    if _PSEUDO.intersection(types):
        as_text = ", ".join(f"{c}::text" if t in _PSEUDO else c
                            for c, t in zip(numbered, types, strict=True))  # fmt: skip
        question = f"SELECT {as_text} FROM ({question}\n) q({', '.join(numbered)})"
        types = ["text" if type_ in _PSEUDO else type_ for type_ in types]
    listed = ", ".join(f"{c} {t}" for c, t in zip(numbered, types, strict=True))
    literal = spelling.Literal(question).as_string(connection)
    return f"SELECT * FROM pg_temp.wfctl_answer({literal}) t({listed})", names


def _columns(connection: Connection, question: str) -> tuple[list[str], list[str]]:
    """Return names and types of the columns of a statement's answer."""
    server = connection.pgconn
    described = server.prepare(b"", question.encode())
    if described.status == ExecStatus.COMMAND_OK:
        described = server.describe_prepared(b"")
    if described.status != ExecStatus.COMMAND_OK:
        raise error_from_result(described)
    found = range(described.nfields)
    names = [(described.fname(n) or b"").decode() for n in found]
    kinds = [(described.ftype(n), described.fmod(n)) for n in found]
    return names, [_spelt(connection, *kind) for kind in kinds]


def _spelt(connection: Connection, type_: int, modifier: int) -> str:
    row = connection.execute("SELECT format_type(%s::oid, %s)", (type_, modifier)).fetchone()
    return str(row[0]) if row is not None else "text"
