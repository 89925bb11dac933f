"""Behaviour of the event store that is specific to PostgreSQL."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

from eventstore.database_url import has_password, is_postgres_url, libpq_url, url_without_password
from eventstore.errors import (
    CommandConflict,
    DatabaseMissing,
    EventStoreError,
    NewerDatabase,
    NotOurs,
    OlderDatabase,
    StoreBusy,
    StoreClosed,
    StoreUnreachable,
    StoreUnwritable,
)
from eventstore.event import HEAD
from eventstore.store import Claim, Expected
from eventstore.tables import metadata
from extensions.history.table_schema import history
from extensions.postgres.connection import translate_error
from migrations.upgrade import current_revision, upgrade_database
from tests.eventstore.support import REFUSAL, claim, notes, opened
from tests.eventstore.test_migrations import scripts_with, subprocess_upgrade
from tests.server import Server

CATALOG = """
SELECT 'column', table_name, column_name, data_type, is_nullable, column_default, collation_name
FROM information_schema.columns WHERE table_schema = current_schema()
UNION ALL SELECT 'index', tablename, indexname, indexdef, '', '', ''
FROM pg_indexes WHERE schemaname = current_schema()
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid), '', '', ''
FROM pg_trigger WHERE NOT tgisinternal
 AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace)
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid),
 contype::text, '', ''
FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
UNION ALL SELECT 'function', proname, pg_get_functiondef(oid), '', '', '', ''
FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
UNION ALL SELECT 'mark', obj_description('events'::regclass, 'pg_class'), '', '', '', '', ''
"""


def sql(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement as the owner of the database, and return its rows."""
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        done = connection.execute(statement.encode())
        return done.fetchall() if done.description else []


def schema_of(url: str) -> set[tuple[str, ...]]:
    """Return the schema of the tables, without the name of the PostgreSQL schema."""
    (name,) = sql(url, "SELECT current_schema()")[0]
    rows = (tuple(str(v).replace(f"{name}.", "") for v in row) for row in sql(url, CATALOG))
    return {row for row in rows if "alembic_version" not in row[1]}


class TestMigrating:
    """Migrations create the tables: only forward, and all or nothing."""

    def test_migrated_database_equals_a_new_one(self, server: Server) -> None:
        """The migrations create the same schema as the table definitions."""
        migrated, fresh = server.log(), server.schema()
        engine = create_engine(fresh)
        metadata.create_all(engine)
        history.create_all(engine)
        engine.dispose()
        assert schema_of(migrated) == schema_of(fresh)

    def test_revision_is_known_before_and_after_an_upgrade(self, server: Server) -> None:
        """A database without tables has no revision, and a second upgrade changes nothing."""
        url = server.schema()
        assert current_revision(url) is None
        assert upgrade_database(url) == HEAD == current_revision(url)
        assert upgrade_database(url) == HEAD

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("end", "code"),
        [("raise RuntimeError", 1), ("os.kill(os.getpid(), signal.SIGKILL)", -9)],
        ids=["error", "killed"],
    )
    def test_interrupted_upgrade_keeps_the_old_tables(
        self, server: Server, tmp_path: Path, end: str, code: int
    ) -> None:
        """No change of the failed migration remains, and the older program still works."""
        url = server.log()
        before = schema_of(url)
        scripts = scripts_with(tmp_path, end, "DROP TRIGGER events_no_update ON events")
        assert subprocess_upgrade(url, scripts) == code
        with closing(opened(url)) as store:
            store.append("w", notes(1), expected=Expected.NO_STREAM, claim=claim())
        assert schema_of(url) == before

    def test_newer_database_is_refused(self, server: Server, tmp_path: Path) -> None:
        """On a newer database, the upgrade, a writer and a reader raise the same error."""
        url = server.log()
        scripts = scripts_with(tmp_path, "pass", "DROP TRIGGER events_no_update ON events")
        assert upgrade_database(url, scripts=scripts) != HEAD
        for opening in (
            lambda: upgrade_database(url),
            lambda: opened(url),
            lambda: current_revision(url),
        ):
            with pytest.raises(NewerDatabase):
                opening()

    def test_older_database_requires_an_upgrade(self, server: Server) -> None:
        """Opening an older database fails, and the message names the upgrade command."""
        url = server.log()
        sql(url, "UPDATE alembic_version SET version_num = '0000'")
        with pytest.raises(OlderDatabase, match="wfctl db upgrade"):
            opened(url)

    def test_foreign_tables_are_not_changed(self, server: Server) -> None:
        """A database with foreign tables is neither upgraded nor opened."""
        url = server.schema()
        sql(url, "CREATE TABLE events (theirs int)")
        with pytest.raises(NotOurs):
            upgrade_database(url)
        with pytest.raises(DatabaseMissing):
            opened(url)

    def test_looking_at_the_version_waits_for_no_writer(self, server: Server) -> None:
        """Reading the revision does not wait for a writer that holds the lock."""
        url = server.log()
        with psycopg.connect(libpq_url(url)) as other:
            other.execute(TURN)
            other.execute("INSERT INTO commands VALUES ('c', 's', 'd', 1, 0)")
            assert current_revision(url, wait=0.2) == HEAD


TURN = "LOCK TABLE folds IN SHARE UPDATE EXCLUSIVE MODE"


class TestOrder:
    """Positions follow the order of commits, without a gap."""

    def test_late_commit_is_never_overtaken(self, server: Server) -> None:
        """A writer waits for the uncommitted append of another writer.

        A reader sees neither event at first, and then both in order.
        """
        url = server.log()
        with closing(opened(url)) as store, psycopg.connect(libpq_url(url)) as late:
            store.append("a", notes(1), expected=0, claim=claim())
            late.execute(TURN)
            late.execute("INSERT INTO events SELECT 2, 'b', 1, 'late', 't', 'r', 'h', '{}'")
            with ThreadPoolExecutor() as pool:
                other = pool.submit(put, url, "c")
                time.sleep(0.3)
                assert not other.done()
                assert store.wait(1, 0.1) == 1
                late.commit()
                assert other.result() == 3
            assert store.wait(1, 0.1) == 3

    def test_rolled_back_append_leaves_no_gap(self, server: Server) -> None:
        """A rolled-back append uses no position."""
        url = server.log()
        with psycopg.connect(libpq_url(url)) as gone:
            gone.execute(TURN)
            gone.execute("INSERT INTO events SELECT 1, 'b', 1, 'gone', 't', 'r', 'h', '{}'")
            gone.rollback()
        assert put(url, "c") == 1

    def test_command_id_is_used_once_across_streams(self, server: Server) -> None:
        """The later of two commands with one id gets an error that names the first stream."""
        url = server.log()
        with psycopg.connect(libpq_url(url)) as first, ThreadPoolExecutor() as pool:
            first.execute(TURN)
            first.execute("INSERT INTO commands VALUES ('k', 'other', 'd', 1, 0)")
            second = pool.submit(put, url, "c", Claim("k", "d"))
            time.sleep(0.3)
            first.commit()
            with pytest.raises(CommandConflict, match="other"):
                second.result()

    def test_conflict_of_command_and_event_id_names_the_command(self, server: Server) -> None:
        """If the command id and the event id are both in use, the error names the command."""
        url = server.log()
        with psycopg.connect(libpq_url(url)) as first, ThreadPoolExecutor() as pool:
            first.execute(TURN)
            first.execute("INSERT INTO events SELECT 1, 'other', 1, 'k', 't', 'r', 'h', '{}'")
            first.execute("INSERT INTO commands VALUES ('k', 'other', 'd', 1, 1)")
            second = pool.submit(put, url, "c", Claim("k", "d"), "k")
            time.sleep(0.3)
            first.commit()
            with pytest.raises(CommandConflict, match="other"):
                second.result()

    def test_idle_writer_loses_the_lock(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The server takes the lock from a suspended writer after a limited time."""
        monkeypatch.setattr("extensions.postgres.connection._IDLE_SECONDS", 0.3)
        url = server.log()
        with closing(opened(url)) as still:
            connection = still._server._connection  # type: ignore[attr-defined]
            still._server.begin(connection)  # type: ignore[attr-defined]
            connection.execute(TURN)
            assert put(url, "c") == 1
            assert still.append("d", notes(1), expected=0, claim=claim()).events[0].position == 2


def put(url: str, stream: str, asked: Claim | None = None, event_id: str | None = None) -> int:
    """Append an event through a new store, and return its position."""
    [event] = notes(1)
    event = event._replace(event_id=event_id or event.event_id)
    with closing(opened(url)) as store:
        done = store.append(stream, [event], expected=Expected.ANY, claim=asked or claim())
        return done.events[0].position


class TestAppendOnly:
    """The database itself refuses to change or delete records."""

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE events SET body = '{}'",
            "DELETE FROM events WHERE version = 2",
            "TRUNCATE events",
            "UPDATE commands SET digest = 'another'",
            "DELETE FROM commands",
            "TRUNCATE commands",
            "UPDATE refusals SET code = 'another'",
            "DELETE FROM refusals",
            "TRUNCATE refusals",
        ],
    )
    def test_records_are_neither_changed_nor_deleted(self, server: Server, statement: str) -> None:
        """Triggers stop changes and deletions, even by the owner of the tables."""
        url = server.log()
        with closing(opened(url)) as store:
            store.append("w", notes(2), expected=0, claim=claim())
            store.record_refusal(REFUSAL)
        table = next(word for word in statement.split() if word.islower())
        with pytest.raises(psycopg.errors.RaiseException, match=f"{table} are append-only"):
            sql(url, statement)

    def test_upgrade_protects_an_older_log(self, server: Server) -> None:
        """The records of the log stay, and the triggers protect them from then on."""
        url = server.log()
        with closing(opened(url)) as store:
            store.append("w", notes(2), expected=0, claim=claim())
        sql(url, "DROP FUNCTION kept_refuse() CASCADE")
        sql(url, "UPDATE alembic_version SET version_num = '0002'")
        assert upgrade_database(url) == HEAD
        with pytest.raises(psycopg.errors.RaiseException, match="commands are append-only"):
            sql(url, "DELETE FROM commands")
        with closing(opened(url)) as store:
            assert (len(list(store.read("w"))), len(list(store.commands()))) == (2, 1)

    @pytest.mark.parametrize(
        ("statement", "kind"),
        [
            ("UPDATE events SET body = replace(body, 'line', 'lime') WHERE version = 2", "altered"),
            ("UPDATE events SET type = 'note.sung' WHERE version = 2", "misfiled"),
            ("DELETE FROM events WHERE version = 2", "gap"),
            ("DELETE FROM events WHERE stream = 'x'", "missing"),
            ("DELETE FROM commands WHERE stream = 'w'", "unclaimed"),
        ],
    )
    def test_change_without_triggers_is_found(
        self, server: Server, statement: str, kind: str
    ) -> None:
        """`verify` finds a change made without the triggers, and a removed stream."""
        url = server.log()
        with closing(opened(url)) as store:
            store.append("x", notes(2), expected=0, claim=claim())
            store.append("w", notes(3), expected=0, claim=claim())
            for table in ("events", "commands"):
                sql(url, f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            sql(url, statement)
            assert next(iter(store.verify())).kind == kind


class TestConnecting:
    """Each kind of connection problem raises its own error."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda url: url.replace("/d&", "/nowhere&").replace("host=", "host=/nowhere"),
            lambda url: url.replace("/postgres?", "/nosuch?"),
            lambda url: url.replace("postgres@", "nobody:secret@"),
            lambda _: "postgresql+psycopg://u:secret@[bad/x",
        ],
        ids=["no server", "no database", "no such user", "no URL"],
    )
    def test_unreachable_server_is_reported(
        self, server: Server, change: Callable[[str], str]
    ) -> None:
        """The error appears immediately and contains no password."""
        with pytest.raises(StoreUnreachable) as caught:
            opened(change(server.url()))
        assert "secret" not in str(caught.value)
        assert "secret" not in str(caught.value.data)

    def test_database_without_tables_is_missing(self, server: Server) -> None:
        """Opening a store creates no tables."""
        url = server.schema()
        for read_only in (False, True):
            with pytest.raises(DatabaseMissing):
                opened(url, read_only=read_only)

    def test_reader_cannot_write(self, server: Server) -> None:
        """Both the store and the server refuse a write of a reader."""
        url = server.log()
        with closing(opened(url, read_only=True)) as store:
            with pytest.raises(StoreClosed):
                store.append("w", notes(1), expected=0, claim=claim())
            with pytest.raises(StoreUnwritable):
                store._fetch("DELETE FROM folds RETURNING 1")

    def test_writer_waits_for_a_limited_time(self, server: Server) -> None:
        """The error names the writer that holds the lock, and later appends succeed."""
        url = server.log()
        with closing(opened(url, wait=0.2)) as store, psycopg.connect(libpq_url(url)) as other:
            other.execute(TURN)
            with pytest.raises(StoreBusy, match="because postgres \\(process"):
                store.append("w", notes(1), expected=0, claim=claim())
            other.rollback()
            store.append("w", notes(1), expected=0, claim=claim())

    def test_asynchronous_commit_is_switched_off(self, server: Server) -> None:
        """wfctl overrides a server setting that acknowledges commits before they are on disk."""
        url = server.log().replace("options=", "options=-csynchronous_commit%3Doff%20")
        with closing(opened(url)) as store:
            shown = "SELECT current_setting('synchronous_commit')"
            assert store._fetch(shown) == [("on",)]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (psycopg.errors.LockNotAvailable(), "store_busy"),
        (psycopg.errors.DiskFull(), "store_unwritable"),
        (psycopg.errors.InsufficientPrivilege(), "store_unwritable"),
        (psycopg.errors.ReadOnlySqlTransaction(), "store_unwritable"),
        (psycopg.errors.UndefinedTable(), "database_missing"),
        (psycopg.errors.UntranslatableCharacter(), "invalid_data"),
        (psycopg.errors.AdminShutdown(), "store_unreachable"),
        (psycopg.errors.DataCorrupted(), "store_damaged"),
    ],
)
def test_each_server_error_has_a_wfctl_error(error: psycopg.Error, code: str) -> None:
    """Each error of the server becomes the wfctl error that states what the user can do."""
    found: EventStoreError = translate_error(error, "postgresql://u:secret@h/d", 1.0)
    assert found.code == code
    assert "secret" not in found.message


@pytest.mark.parametrize(
    ("url", "shown", "secret"),
    [
        ("postgresql+psycopg://h/d", "postgresql+psycopg://h/d", False),
        ("postgresql://u@h/d", "postgresql+psycopg://u@h/d", False),
        ("postgresql://u:@h/d", "postgresql+psycopg://u@h/d", False),
        ("postgres://u:p@h:1/d", "postgresql+psycopg://u@h:1/d", True),
        ("postgresql://u:p@q/r@h/d", "postgresql+psycopg://u@h/d", True),
        (
            "postgresql://u@/d?host=/s&password=p&sslmode=verify-full",
            "postgresql+psycopg://u@/d?host=/s&sslmode=verify-full",
            True,
        ),
        ("postgresql://h/d?sslpassword=p", "postgresql+psycopg://h/d", True),
        ("postgresql://h/d?oauth_client_secret=p", "postgresql+psycopg://h/d", True),
        ("postgresql://u:p?q@h/d?user=a%40b", "postgresql+psycopg://u@h/d?user=a%40b", True),
        ("postgresql://u@h/d?user=a@b", "postgresql+psycopg://u@h/d?user=a%40b", False),
    ],
)
def test_url_is_shown_without_its_password(url: str, shown: str, secret: bool) -> None:
    """The password is removed from every part of the URL, whatever characters it contains."""
    assert is_postgres_url(url)
    assert url_without_password(url) == shown
    assert has_password(url) is secret
