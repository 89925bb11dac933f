"""The SQL statements name the columns of the tables."""

import pytest

from eventstore.sql import CLAIMED, EVENT, FOLD, REFUSAL
from eventstore.sqlite.connection import ROW
from eventstore.tables import metadata


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("events", EVENT),
        ("commands", CLAIMED),
        ("folds", FOLD),
        ("refusals", f"id, {REFUSAL}"),
    ],
)
def test_statement_names_every_column_of_a_table(table: str, columns: str) -> None:
    """The columns are in the order of the table definition."""
    assert list(metadata.tables[table].columns.keys()) == columns.split(", ")


def test_append_fills_every_column_of_an_event() -> None:
    """The append statement fills all columns, including SQLite's own one for the digest."""
    assert (*metadata.tables["events"].columns.keys(), "command_digest") == ROW
