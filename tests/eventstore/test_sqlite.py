"""Behaviour of the event store that is specific to SQLite."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from eventstore.errors import (
    DatabaseMissing,
    LocksUnreliable,
    NotOurs,
    OlderDatabase,
    StoreBusy,
    StoreClosed,
    StoreUnwritable,
    WrongExpectedVersion,
)
from eventstore.store import Expected
from tests.eventstore.support import REFUSAL, claim, fresh_database, note, notes, sqlite_store
from tests.need import need


def everything_in(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return name, bytes and modification time of every file."""
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}


class TestOpening:
    """A store opens only databases of wfctl with the current schema."""

    def test_missing_database_is_reported(self, tmp_path: Path) -> None:
        """Opening a store on a missing file raises an error and creates no file."""
        for read_only in (False, True):
            with pytest.raises(DatabaseMissing, match="no event database"):
                sqlite_store(tmp_path / "no.db", read_only=read_only)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to look" * 9])
    @pytest.mark.parametrize("read_only", [False, True])
    def test_file_that_is_not_a_database_is_refused(
        self, tmp_path: Path, content: bytes, read_only: bool
    ) -> None:
        """Opening an empty file or a text file raises an error and changes nothing."""
        path = tmp_path / "events.db"
        path.write_bytes(content)
        with pytest.raises(NotOurs):
            sqlite_store(path, read_only=read_only)
        assert path.read_bytes() == content

    def test_database_of_another_program_is_refused(self, tmp_path: Path) -> None:
        """The message shows the application id."""
        path = tmp_path / "events.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA application_id = 17")
        with pytest.raises(NotOurs, match="0x11"):
            sqlite_store(path)

    def test_older_database_requires_an_upgrade(self, database: Path) -> None:
        """Opening an older database fails, and the message names the upgrade command."""
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = '0000'")
        with pytest.raises(OlderDatabase, match="wfctl db upgrade"):
            sqlite_store(database)

    @pytest.mark.parametrize(("mode", "level"), [("wal", 2), ("truncate", 3)])
    def test_every_journal_mode_has_a_durable_sync_level(
        self, database: Path, mode: str, level: int
    ) -> None:
        """The level is FULL for the write-ahead log, and EXTRA for the rollback journal."""
        with closing(sqlite_store(database, mode)) as store:
            connection = store._writer.connection  # type: ignore[union-attr]
            assert connection.execute("PRAGMA journal_mode").fetchone() == (mode,)
            assert connection.execute("PRAGMA synchronous").fetchone() == (level,)
            assert store.journal.mode == mode

    def test_network_file_system_gets_the_rollback_journal(self, database: Path) -> None:
        """On a network disk, the store switches to the rollback journal."""
        with closing(sqlite_store(database)) as store:
            store.append("w", notes(2), expected=0, claim=claim())
        with closing(sqlite_store(database, filesystem=lambda _: "nfs4")) as store:
            store.append("w", notes(1), expected=2, claim=claim())
            assert store.journal.mode == "truncate"
            assert "nfs4" in store.journal.reason
        with closing(sqlite_store(database, read_only=True)) as store:
            assert store.journal.mode == "truncate"
            assert store.head("w") is not None

    def test_given_journal_mode_overrides_the_file_system(self, database: Path) -> None:
        """A journal mode that the user names is used even on a network disk."""
        with closing(sqlite_store(database, "wal", filesystem=lambda _: "lustre")) as store:
            assert store.journal.mode == "wal"

    def test_unreliable_locks_are_refused(
        self, database: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A store does not open on a disk without exclusive locks."""
        monkeypatch.setattr("eventstore.sqlite.connection.has_working_file_locks", lambda _: False)
        with pytest.raises(LocksUnreliable):
            sqlite_store(database, filesystem=lambda _: "nfs")

    def test_database_path_may_contain_any_character(self, tmp_path: Path) -> None:
        """A database path may contain spaces and characters with a meaning in URIs."""
        folder = tmp_path / "a b?c#d%41 é"
        folder.mkdir()
        path = fresh_database(folder)
        with closing(sqlite_store(path)) as store:
            store.append("w", notes(1), expected=0, claim=claim())
        assert [p.name for p in tmp_path.iterdir()] == [folder.name]


class TestAppendOnly:
    """The database itself refuses to change or delete records."""

    @pytest.mark.parametrize("table", ["events", "commands", "refusals"])
    @pytest.mark.parametrize("change", ["UPDATE {} SET stream = 'x'", "DELETE FROM {}"])
    def test_records_are_neither_changed_nor_deleted(
        self, database: Path, change: str, table: str
    ) -> None:
        """Triggers stop changes and deletions by any program."""
        with closing(sqlite_store(database)) as store:
            store.append("w", notes(2), expected=0, claim=claim())
            store.record_refusal(REFUSAL)
        with (
            closing(sqlite3.connect(database)) as connection,
            pytest.raises(sqlite3.IntegrityError, match="append-only"),
        ):
            connection.execute(change.format(table))


class TestReadingLeavesNoTrace:
    """A read changes no file, takes no lock of wfctl and waits for no writer."""

    @pytest.mark.parametrize("mode", ["wal", "truncate"])
    def test_read_changes_and_creates_no_file(self, database: Path, mode: str) -> None:
        """After a read, the content and the modification time of each file are the same."""
        with closing(sqlite_store(database, mode)) as store:
            store.append("w", notes(3), expected=0, claim=claim())
        before = everything_in(database.parent)
        with closing(sqlite_store(database, read_only=True)) as store:
            assert len(list(store.read("w"))) == 3
            assert list(store.verify()) == []
        assert everything_in(database.parent) == before

    @pytest.mark.slow
    def test_reader_sees_later_events(self, database: Path) -> None:
        """A reader sees new events even if it opened the log before the writer did."""
        program = (
            "import sys; from contextlib import closing; from pathlib import Path\n"
            "from tests.eventstore.support import claim, notes, sqlite_store\n"
            "with closing(sqlite_store(Path(sys.argv[1]))) as store:\n"
            "    for version in range(20):\n"
            "        store.append('w', notes(1), expected=version, claim=claim())\n"
            "        print(version + 1, flush=True); sys.stdin.readline()\n"
        )
        with closing(sqlite_store(database)) as store:
            store.record_refusal(REFUSAL)
        command = [sys.executable, "-c", program, str(database)]
        pipe = subprocess.PIPE
        with (
            closing(sqlite_store(database, read_only=True)) as reader,
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as writer,
        ):
            assert writer.stdout is not None
            for line in writer.stdout:
                head = reader.head("w")
                assert head is not None
                assert head.version == int(line)
                print(file=writer.stdin, flush=True)
            head = reader.head("w")
        assert head is not None
        assert head.version == 20

    def test_reader_and_writer_in_one_process_are_refused(self, database: Path) -> None:
        """An append next to a reader in one process fails, and the error states the remedy."""
        with closing(sqlite_store(database)) as store:
            store.record_refusal(REFUSAL)
        with (
            closing(sqlite_store(database, read_only=True)),
            closing(sqlite_store(database)) as store,
            pytest.raises(StoreUnwritable, match="close that connection first"),
        ):
            store.append("w", notes(1), expected=0, claim=claim())

    @pytest.mark.parametrize("mode", ["wal", "truncate"])
    def test_partial_read_does_not_block_a_writer(self, database: Path, mode: str) -> None:
        """A writer can append during a read, and the reader then also gets the new event."""
        with closing(sqlite_store(database, mode, wait=5)) as store:
            store.append("w", notes(1500), expected=0, claim=claim())
            with closing(sqlite_store(database, read_only=True)) as other:
                events = other.read("w")
                next(events)
                store.append("w", notes(1), expected=1500, claim=claim())
                assert sum(1 for _ in events) == 1500

    def test_reader_cannot_write(self, database: Path) -> None:
        """The error says that the store was opened for reading."""
        with (
            closing(sqlite_store(database, read_only=True)) as store,
            pytest.raises(StoreClosed, match="reading"),
        ):
            store.append("w", notes(1), expected=0, claim=claim())

    def test_copy_of_the_database_file_alone_is_readable(
        self, database: Path, tmp_path: Path
    ) -> None:
        """A copy without the additional files of SQLite, such as a backup, can be read."""
        with closing(sqlite_store(database)) as store:
            store.append("w", notes(2), expected=0, claim=claim())
            connection = store._writer.connection  # type: ignore[union-attr]
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        copy = tmp_path / "copy.db"
        copy.write_bytes(database.read_bytes())
        with closing(sqlite_store(copy, read_only=True)) as store:
            assert len(list(store.read("w"))) == 2

    def test_interrupted_transaction_is_rolled_back_for_a_reader(self, database: Path) -> None:
        """After a writer with a rollback journal was killed, a reader sees the last valid state."""
        program = (
            "import os, signal, sqlite3, sys\n"
            "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "c.execute('PRAGMA journal_mode=truncate'); c.execute('PRAGMA cache_size=1')\n"
            "c.execute('BEGIN IMMEDIATE')\n"
            "for n in range(200): c.execute('INSERT INTO refusals VALUES (NULL,?,?,?,?,?,?,?)',\n"
            "    ['x' * 900] * 7)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        with closing(sqlite_store(database, "truncate")) as store:
            store.append("w", notes(2), expected=0, claim=claim())
        subprocess.run([sys.executable, "-c", program, str(database)], check=False)
        assert (database.parent / "events.db-journal").stat().st_size > 0
        with closing(sqlite_store(database, read_only=True)) as store:
            assert len(list(store.read("w"))) == 2
            assert list(store.refusals()) == []


class TestWaiting:
    """A writer waits for the lock for a limited time."""

    @pytest.mark.parametrize("mode", ["wal", "truncate"])
    def test_hanging_writer_is_reported_in_time(self, database: Path, mode: str) -> None:
        """If another writer hangs, the error states the waiting time."""
        with (
            closing(sqlite_store(database, mode)) as hanging,
            closing(sqlite_store(database, mode, wait=0.3)) as store,
        ):
            with hanging._transaction(), pytest.raises(StoreBusy) as caught:
                store.append("w", notes(1), expected=0, claim=claim())
            assert caught.value.waited == 0.3
            store.append("w", notes(1), expected=0, claim=claim())

    def test_lock_of_another_program_is_reported(self, database: Path) -> None:
        """A lock of a program that does not use wfctl's queue causes the same error."""
        with (
            closing(sqlite_store(database, wait=0.2)) as store,
            closing(sqlite3.connect(database, isolation_level=None)) as other,
        ):
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy):
                store.append("w", notes(1), expected=0, claim=claim())

    @pytest.mark.slow
    def test_queued_writer_gets_the_lock_when_it_is_free(self, database: Path) -> None:
        """A waiting writer gets the lock as soon as the other process releases it."""
        program = (
            "import sys, time; from contextlib import closing; from pathlib import Path\n"
            "from tests.eventstore.support import sqlite_store\n"
            "with closing(sqlite_store(Path(sys.argv[1]))) as store, store._transaction():\n"
            "    print('held', flush=True); time.sleep(0.6)\n"
        )
        command = [sys.executable, "-c", program, str(database)]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE) as holder,
            closing(sqlite_store(database, wait=30)) as store,
        ):
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            for version in range(3):
                store.append("w", notes(1), expected=version, claim=claim())

    def test_error_in_a_transaction_releases_the_lock(self, database: Path) -> None:
        """After an error, the next writer can append without waiting."""
        with (
            closing(sqlite_store(database)) as store,
            closing(sqlite_store(database, wait=0.2)) as other,
        ):
            with pytest.raises(WrongExpectedVersion):
                store.append("w", notes(1), expected=9, claim=claim())
            other.append("w", notes(1), expected=0, claim=claim())


class TestTheLogBeside:
    """The write-ahead log is not copied at every close, and its size is limited."""

    def test_single_append_does_not_copy_the_write_ahead_log(self, database: Path) -> None:
        """Closing a store after one append leaves the database file unchanged."""
        with closing(sqlite_store(database, "wal")) as store:
            store.append("w", notes(1), expected=0, claim=claim())
        before = database.read_bytes()
        with closing(sqlite_store(database)) as store:
            store.append("w", notes(1), expected=1, claim=claim())
        assert database.read_bytes() == before
        assert Path(f"{database}-wal").stat().st_size > 0

    def test_long_write_ahead_log_is_copied_into_the_database(self, database: Path) -> None:
        """Closing the store copies a long write-ahead log into the database."""
        with closing(sqlite_store(database, "wal")) as store:
            for version in range(50):
                long = note("x" * 40_000)
                store.append("w", [long], expected=version, claim=claim())
        assert Path(f"{database}-wal").stat().st_size == 0
        with closing(sqlite_store(database)) as store:
            assert len(list(store.read("w"))) == 50

    def test_active_reader_delays_the_copy(self, database: Path) -> None:
        """While another program reads, closing the store neither fails nor waits."""
        with closing(sqlite3.connect(database)) as other:
            with closing(sqlite_store(database, "wal")) as store:
                store.append("w", notes(1), expected=0, claim=claim())
                other.execute("BEGIN")
                other.execute("SELECT * FROM events").fetchall()
                store.append("w", [note("x" * 2_000_000)], expected=1, claim=claim())
            assert Path(f"{database}-wal").stat().st_size > 0
        with closing(sqlite_store(database)) as store:
            assert len(list(store.read("w"))) == 2


READ_ONLY = """
set -e
mount -t tmpfs -o size=4m tmpfs "$1"
cp "$2"/events.db* "$1"
mount -o remount,bind,ro "$1"
exec "$3" -m tests.eventstore.elsewhere read "$1/events.db"
"""

FULL = """
set -e
mount -t tmpfs -o size=400k tmpfs "$1"
cp "$2"/events.db* "$1"
exec "$3" -m tests.eventstore.elsewhere fill "$1/events.db" "$4"
"""


def on_a_small_disk(script: str, database: Path, tmp_path: Path, *more: str) -> str:
    """Run the script with a private mount of a small file system, and return its output."""
    tried = subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True)
    need(tried.returncode == 0, "this kernel lets nobody mount in a name space")
    disk = tmp_path / "disk"
    disk.mkdir()
    sh = ["unshare", "-rm", "sh", "-c", script, "sh"]
    command = [*sh, str(disk), str(database.parent), sys.executable, *more]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestDisks:
    """A log on a read-only disk is readable, and a full disk loses no event."""

    @pytest.mark.few(2)
    @pytest.mark.parametrize("beside", [True, False], ids=["with its log", "alone"])
    @pytest.mark.parametrize("mode", ["wal", "truncate"])
    def test_read_only_disk_is_readable(
        self, database: Path, tmp_path: Path, mode: str, beside: bool
    ) -> None:
        """A log on a read-only disk can be read, and an append raises an error."""
        with closing(sqlite_store(database, mode)) as store:
            store.append("w", notes(3), expected=0, claim=claim())
            if mode == "wal" and not beside:
                connection = store._writer.connection  # type: ignore[union-attr]
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if not beside:
            for suffix in ("-wal", "-shm", "-lock", "-queue"):
                Path(f"{database}{suffix}").unlink(missing_ok=True)
        said = on_a_small_disk(READ_ONLY, database, tmp_path)
        assert said.split() == ["3", "store_unwritable"]

    @pytest.mark.few(1)
    @pytest.mark.parametrize("mode", ["wal", "truncate"])
    def test_full_disk_keeps_acknowledged_events(
        self, database: Path, tmp_path: Path, mode: str
    ) -> None:
        """On a full disk, the append raises an error and the log stays valid."""
        said = on_a_small_disk(FULL, database, tmp_path, mode).split()
        acknowledged, code, kept, findings = said
        assert int(acknowledged) > 5
        assert (code, kept, findings) == ("store_unwritable", acknowledged, "0")


def test_two_stores_on_one_file_see_each_others_events(database: Path) -> None:
    """Each store sees the event of the other one immediately."""
    with closing(sqlite_store(database)) as one, closing(sqlite_store(database)) as two:
        one.append("w", notes(1), expected=Expected.NO_STREAM, claim=claim())
        two.append("w", notes(1), expected=1, claim=claim())
        one.append("w", notes(1), expected=2, claim=claim())
        assert one.head("w") == two.head("w")
