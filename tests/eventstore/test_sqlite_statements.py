"""The statements for SQLite are those that the tables give."""

import pytest
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from eventstore.core_statements import CoreStatements
from eventstore.sqlite.writer import ROW, SqliteStatements
from eventstore.statements import Statements
from eventstore.tables import events

NAMES = sorted(name for name in vars(Statements) if isinstance(vars(Statements)[name], property))


def plain(text: str) -> str:
    """The text with single spaces."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_written_statement_is_what_the_tables_compile_to(name: str) -> None:
    """Word for word: the tables are the one definition."""
    compiled = getattr(CoreStatements(SQLiteDialect()), name)
    assert plain(getattr(SqliteStatements(), name)) == plain(compiled)


def test_an_append_fills_every_column_of_an_event() -> None:
    """In the order of the table, and the digest of its command, which SQLite alone keeps there."""
    assert (*events.columns.keys(), "command_digest") == ROW
