"""Migrations create the tables of a database: only forward, and all or nothing."""

import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from eventstore.errors import NewerDatabase, NotOurs, OlderDatabase, StoreBusy
from eventstore.event import HEAD
from eventstore.import_rows import build_import_statements
from eventstore.sqlite.connection import SqliteStatements
from eventstore.store import Claim, EventStore, Expected, ImportBatch
from eventstore.tables import metadata
from extensions.history.table_schema import history
from migrations.upgrade import SCRIPTS, current_revision, upgrade_database
from tests.eventstore.memory import MemoryStore
from tests.eventstore.support import SCHEMA, claim, note, notes, sqlite_store, ticking

BROKEN = """
import os, signal
from alembic import op
revision, down_revision, branch_labels, depends_on = "{revision}", "{head}", None, None
def upgrade():
    op.execute("CREATE TABLE half (done INTEGER)")
    op.execute("{drop}")
    {end}
"""


NEXT = f"{int(HEAD) + 1:04}"


def schema_of(path: Path) -> set[tuple[str, ...]]:
    """Return the schema of the file, without its order and spaces."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
        rows = {tuple(" ".join((value or "").split()) for value in row) for row in found}
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
    return {row for row in rows if "alembic_version" not in row[2]} | {("mark", str(mark))}


def scripts_with(folder: Path, end: str, drop: str = "DROP TRIGGER events_no_update") -> Path:
    """Copy the migrations, and add one that ends with the given code."""
    scripts = folder / "scripts"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    half = BROKEN.format(revision=NEXT, head=HEAD, end=end, drop=drop)
    (scripts / "versions" / f"{NEXT}_half.py").write_text(half)
    return scripts


def test_migrated_database_equals_a_new_one(tmp_path: Path) -> None:
    """The migrations create the same schema as the table definitions."""
    migrated, fresh = tmp_path / "migrated.db", tmp_path / "fresh.db"
    upgrade_database(migrated)
    engine = create_engine(f"sqlite:///{fresh}")
    metadata.create_all(engine)
    history.create_all(engine)
    engine.dispose()
    assert schema_of(migrated) == schema_of(fresh)


def test_store_knows_the_newest_migration(tmp_path: Path) -> None:
    """The constant in the store equals the head of the migrations."""
    assert current_revision(tmp_path / "events.db") is None
    assert (
        upgrade_database(tmp_path / "events.db") == HEAD == current_revision(tmp_path / "events.db")
    )


def test_second_upgrade_changes_nothing(database: Path) -> None:
    """A second upgrade changes no table, and the events stay in the database."""
    with closing(sqlite_store(database)) as store:
        store.append("w", notes(3), expected=0, claim=claim())
    before = schema_of(database)
    assert upgrade_database(database) == HEAD
    assert schema_of(database) == before
    with closing(sqlite_store(database)) as store:
        assert len(list(store.read("w"))) == 3


@pytest.mark.long
@pytest.mark.slow
def test_concurrent_upgrades_create_one_database(tmp_path: Path) -> None:
    """One process runs the migrations, and the others find them done."""
    path = tmp_path / "events.db"
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: subprocess_upgrade(path), range(4)))
    assert found == [0, 0, 0, 0]
    assert current_revision(path) == HEAD


def subprocess_upgrade(path: Path | str, scripts: Path = SCRIPTS) -> int:
    """Upgrade a database in a separate process, and return the exit code."""
    program = (
        "import sys; from pathlib import Path; from migrations.upgrade import upgrade_database; "
        "upgrade_database(sys.argv[1], scripts=Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, str(path), str(scripts)]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code"),
    [("raise RuntimeError", 1), ("os.kill(os.getpid(), signal.SIGKILL)", -9)],
    ids=["error", "killed"],
)
def test_interrupted_upgrade_keeps_the_old_tables(
    database: Path, tmp_path: Path, end: str, code: int
) -> None:
    """No change of the failed migration remains, and the older program still works."""
    before = schema_of(database)
    assert subprocess_upgrade(database, scripts_with(tmp_path, end)) == code
    with closing(sqlite_store(database)) as store:
        store.append("w", notes(1), expected=Expected.NO_STREAM, claim=claim())
        assert list(store.verify()) == []
    assert schema_of(database) == before


@pytest.mark.slow
def test_interrupted_creation_is_repeatable(tmp_path: Path) -> None:
    """If the first upgrade is killed, the next upgrade creates the database."""
    path = tmp_path / "events.db"
    scripts = scripts_with(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert subprocess_upgrade(path, scripts) == -9
    assert upgrade_database(path) == HEAD


def older_log(path: Path, folder: Path) -> EventStore:
    """Create a database at migration 0003, and return the content as a log in memory."""
    scripts = folder / "older"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__", "0004_*"))
    assert upgrade_database(path, scripts=scripts) == "0003"
    log = MemoryStore(schema=SCHEMA, clock=ticking())
    for number in (2, 1, 0):
        log.append("w", notes(number), expected=Expected.ANY, claim=claim())
    cargo = ImportBatch(list(log.all_raw()), list(log.commands()), list(log.refusals()))
    with closing(sqlite3.connect(path)) as database, database:
        for statement, rows in build_import_statements(cargo, SqliteStatements(), 0):
            database.executemany(statement, rows)
    return log


def test_claims_before_an_upgrade_are_kept(tmp_path: Path) -> None:
    """Commands with several events, one event or none stay claimed."""
    path = tmp_path / "events.db"
    log = older_log(path, tmp_path)
    with pytest.raises(OlderDatabase):
        sqlite_store(path)
    assert upgrade_database(path) == HEAD
    with closing(sqlite_store(path)) as store:
        for known in log.commands():
            asked = Claim(known.command_id, known.digest)
            first = log.find_executed_command(asked)
            again = store.append(
                "w", [note(event_id=known.command_id)], expected=Expected.ANY, claim=asked
            )
            assert first is not None
            assert (again.repeated, again.events) == (True, first.events)
        assert list(store.commands()) == list(log.commands())
        assert [raw.text for raw in store.all_raw()] == [raw.text for raw in log.all_raw()]
        assert list(store.verify()) == []


def test_newer_database_is_refused_by_the_upgrade(database: Path, tmp_path: Path) -> None:
    """`upgrade` cannot go back to an older version. The error states both versions."""
    assert upgrade_database(database, scripts=scripts_with(tmp_path, "pass")) == NEXT
    with pytest.raises(NewerDatabase) as caught:
        upgrade_database(database)
    assert (caught.value.found, caught.value.known) == (NEXT, HEAD)
    with pytest.raises(NewerDatabase):
        sqlite_store(database)
    with pytest.raises(NewerDatabase):
        sqlite_store(database, read_only=True)


def test_foreign_database_is_not_upgraded(tmp_path: Path) -> None:
    """`upgrade` refuses a database of another program and does not change its file."""
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(NotOurs):
        upgrade_database(path)
    assert path.read_bytes() == before


def test_looking_at_the_version_waits_for_no_writer(database: Path) -> None:
    """Reading the version of a database changes no byte and does not wait for a writer."""
    sqlite_store(database, "wal").close()
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        before = database.read_bytes()
        assert current_revision(database, wait=0.1) == HEAD
        assert database.read_bytes() == before


def test_upgrade_waits_for_a_limited_time(database: Path) -> None:
    """If another writer does not finish, an error reports the lock."""
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            upgrade_database(database, wait=0.1)
