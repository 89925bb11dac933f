"""The statements name the columns that the tables have."""

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
def test_a_statement_names_every_column_of_a_table(table: str, columns: str) -> None:
    """In their order: the tables are the one definition."""
    assert list(metadata.tables[table].columns.keys()) == columns.split(", ")


def test_an_append_fills_every_column_of_an_event() -> None:
    """In the order of the table, and the digest of its command, which SQLite alone keeps there."""
    assert (*metadata.tables["events"].columns.keys(), "command_digest") == ROW
