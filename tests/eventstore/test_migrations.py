"""A database gets its tables by migration, forward only, all or nothing."""

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
from eventstore.intake import unpacked
from eventstore.sqlite.connection import SqliteStatements
from eventstore.store import Cargo, Claim, EventStore, Expected
from eventstore.tables import metadata
from migrations.upgrade import SCRIPTS, current, upgrade
from projections.history.tables import history
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
    """Everything the file says about its tables, whatever the order and the spaces."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
        rows = {tuple(" ".join((value or "").split()) for value in row) for row in found}
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
    return {row for row in rows if "alembic_version" not in row[2]} | {("mark", str(mark))}


def scripts_with(folder: Path, end: str, drop: str = "DROP TRIGGER events_no_update") -> Path:
    """The real migrations and one more that ends as told."""
    scripts = folder / "scripts"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    half = BROKEN.format(revision=NEXT, head=HEAD, end=end, drop=drop)
    (scripts / "versions" / f"{NEXT}_half.py").write_text(half)
    return scripts


def test_a_migrated_database_is_a_fresh_one(tmp_path: Path) -> None:
    """What the migrations make is what the tables say."""
    migrated, fresh = tmp_path / "migrated.db", tmp_path / "fresh.db"
    upgrade(migrated)
    engine = create_engine(f"sqlite:///{fresh}")
    metadata.create_all(engine)
    history.create_all(engine)
    engine.dispose()
    assert schema_of(migrated) == schema_of(fresh)


def test_the_store_knows_the_newest_migration(tmp_path: Path) -> None:
    """The constant that a normal open compares with is the head of the migrations."""
    assert current(tmp_path / "events.db") is None
    assert upgrade(tmp_path / "events.db") == HEAD == current(tmp_path / "events.db")


def test_upgrading_twice_keeps_what_is_there(database: Path) -> None:
    """The second time has nothing to do."""
    with closing(sqlite_store(database)) as store:
        store.append("w", notes(3), expected=0, claim=claim())
    before = schema_of(database)
    assert upgrade(database) == HEAD
    assert schema_of(database) == before
    with closing(sqlite_store(database)) as store:
        assert len(list(store.read("w"))) == 3


@pytest.mark.slow
def test_several_at_once_make_one_database(tmp_path: Path) -> None:
    """One does the work, the others find it done."""
    path = tmp_path / "events.db"
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: subprocess_upgrade(path), range(4)))
    assert found == [0, 0, 0, 0]
    assert current(path) == HEAD


def subprocess_upgrade(path: Path | str, scripts: Path = SCRIPTS) -> int:
    """Exit code of an upgrade in a process of its own."""
    program = (
        "import sys; from pathlib import Path; from migrations.upgrade import upgrade; "
        "upgrade(sys.argv[1], scripts=Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, str(path), str(scripts)]
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "code"),
    [("raise RuntimeError", 1), ("os.kill(os.getpid(), signal.SIGKILL)", -9)],
    ids=["error", "killed"],
)
def test_an_interrupted_upgrade_leaves_the_old_tables_working(
    database: Path, tmp_path: Path, end: str, code: int
) -> None:
    """Nothing of the half step stays, and the old program goes on."""
    before = schema_of(database)
    assert subprocess_upgrade(database, scripts_with(tmp_path, end)) == code
    with closing(sqlite_store(database)) as store:
        store.append("w", notes(1), expected=Expected.NO_STREAM, claim=claim())
        assert list(store.verify()) == []
    assert schema_of(database) == before


@pytest.mark.slow
def test_an_interrupted_making_can_be_done_again(tmp_path: Path) -> None:
    """A first upgrade that dies leaves nothing that the next one trips over."""
    path = tmp_path / "events.db"
    scripts = scripts_with(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert subprocess_upgrade(path, scripts) == -9
    assert upgrade(path) == HEAD


def older_log(path: Path, folder: Path) -> EventStore:
    """A database of the migration before commands were claimed by events, and what it holds."""
    scripts = folder / "older"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__", "0004_*"))
    assert upgrade(path, scripts=scripts) == "0003"
    log = MemoryStore(schema=SCHEMA, clock=ticking())
    for number in (2, 1, 0):
        log.append("w", notes(number), expected=Expected.ANY, claim=claim())
    cargo = Cargo(list(log.all_raw()), list(log.commands()), list(log.refusals()))
    with closing(sqlite3.connect(path)) as database, database:
        for statement, rows in unpacked(cargo, SqliteStatements(), 0):
            database.executemany(statement, rows)
    return log


def test_what_was_claimed_before_an_upgrade_stays_claimed(tmp_path: Path) -> None:
    """By commands of several events, of one and of none, and whatever is asked under their ids."""
    path = tmp_path / "events.db"
    log = older_log(path, tmp_path)
    with pytest.raises(OlderDatabase):
        sqlite_store(path)
    assert upgrade(path) == HEAD
    with closing(sqlite_store(path)) as store:
        for known in log.commands():
            asked = Claim(known.command_id, known.digest)
            first = log.claimed(asked)
            again = store.append(
                "w", [note(event_id=known.command_id)], expected=Expected.ANY, claim=asked
            )
            assert first is not None
            assert (again.repeated, again.events) == (True, first.events)
        assert list(store.commands()) == list(log.commands())
        assert [raw.text for raw in store.all_raw()] == [raw.text for raw in log.all_raw()]
        assert list(store.verify()) == []


def test_a_newer_database_is_refused_by_the_upgrade_too(database: Path, tmp_path: Path) -> None:
    """There is no way back, and the error says both versions."""
    assert upgrade(database, scripts=scripts_with(tmp_path, "pass")) == NEXT
    with pytest.raises(NewerDatabase) as caught:
        upgrade(database)
    assert (caught.value.found, caught.value.known) == (NEXT, HEAD)
    with pytest.raises(NewerDatabase):
        sqlite_store(database)
    with pytest.raises(NewerDatabase):
        sqlite_store(database, read_only=True)


def test_a_foreign_database_is_not_upgraded(tmp_path: Path) -> None:
    """It keeps every byte."""
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(NotOurs):
        upgrade(path)
    assert path.read_bytes() == before


def test_looking_at_the_version_waits_for_no_writer(database: Path) -> None:
    """Not even for one that keeps its turn; and no byte is changed."""
    sqlite_store(database, "wal").close()
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        before = database.read_bytes()
        assert current(database, wait=0.1) == HEAD
        assert database.read_bytes() == before


def test_an_upgrade_waits_only_so_long(database: Path) -> None:
    """Another writer that does not end is named by an error."""
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            upgrade(database, wait=0.1)
