"""A new log that the tests copy from an empty log equals one that a migration creates."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventstore.errors import EventStoreError
from migrations.upgrade import upgrade_database
from tests.emptylog import made


def test_a_copied_log_is_the_log_that_a_migration_makes(tmp_path: Path) -> None:
    """The copied log has the same bytes, file mode and schema version as a migrated log."""
    real, copied = tmp_path / "real.db", tmp_path / "copied.db"
    assert upgrade_database(real) == made(copied)
    assert real.read_bytes() == copied.read_bytes()
    assert real.stat().st_mode == copied.stat().st_mode
    assert {path.name for path in tmp_path.iterdir()} == {"real.db", "copied.db"}


def test_a_log_that_is_there_is_left_to_the_migration(tmp_path: Path) -> None:
    """An existing log is migrated and not overwritten by a copy."""
    path = tmp_path / "log.db"
    made(path)
    before = path.read_bytes()
    assert made(path) is not None
    assert path.read_bytes() == before


@pytest.mark.parametrize("beside", ["log.db-wal", "log.db-journal"])
def test_beside_what_another_log_left_the_migration_is_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: str
) -> None:
    """SQLite would read a leftover journal of another log as a part of the copied log."""
    (tmp_path / beside).touch()
    asked: list[Path] = []
    monkeypatch.setattr("tests.emptylog.upgrade_database", asked.append)
    made(tmp_path / "log.db")
    assert asked == [tmp_path / "log.db"]


def test_where_nothing_can_be_written_the_migration_says_so(tmp_path: Path) -> None:
    """If the folder of the log does not exist, the migration raises `store_unwritable`."""
    with pytest.raises(EventStoreError) as found:
        made(tmp_path / "none" / "log.db")
    assert found.value.code == "store_unwritable"
