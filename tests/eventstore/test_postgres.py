"""What is special to the log on a PostgreSQL server."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

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
from eventstore.postgres.connection import meaning
from eventstore.private import conninfo, has_password, is_server, public
from eventstore.store import Claim, Expected
from eventstore.tables import metadata
from migrations.upgrade import current, upgrade
from projections.history.tables import history
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
    """What a statement gives, as the owner of everything."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        done = connection.execute(statement.encode())
        return done.fetchall() if done.description else []


def schema_of(url: str) -> set[tuple[str, ...]]:
    """Everything the server says about the tables, whatever the schema is called."""
    (name,) = sql(url, "SELECT current_schema()")[0]
    rows = (tuple(str(v).replace(f"{name}.", "") for v in row) for row in sql(url, CATALOG))
    return {row for row in rows if "alembic_version" not in row[1]}


class TestMigrating:
    """The tables come by migration, forward only, all or nothing."""

    def test_a_migrated_database_is_a_fresh_one(self, server: Server) -> None:
        """What the migrations make is what the tables say."""
        migrated, fresh = server.log(), server.schema()
        engine = create_engine(fresh)
        metadata.create_all(engine)
        history.create_all(engine)
        engine.dispose()
        assert schema_of(migrated) == schema_of(fresh)

    def test_a_version_is_known_before_and_after(self, server: Server) -> None:
        """None without tables; twice is as good as once."""
        url = server.schema()
        assert current(url) is None
        assert upgrade(url) == HEAD == current(url)
        assert upgrade(url) == HEAD

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("end", "code"),
        [("raise RuntimeError", 1), ("os.kill(os.getpid(), signal.SIGKILL)", -9)],
        ids=["error", "killed"],
    )
    def test_an_interrupted_upgrade_leaves_the_old_tables_working(
        self, server: Server, tmp_path: Path, end: str, code: int
    ) -> None:
        """Nothing of the half step stays, and the old program goes on."""
        url = server.log()
        before = schema_of(url)
        scripts = scripts_with(tmp_path, end, "DROP TRIGGER events_no_update ON events")
        assert subprocess_upgrade(url, scripts) == code
        with closing(opened(url)) as store:
            store.append("w", notes(1), expected=Expected.NO_STREAM, claim=claim())
        assert schema_of(url) == before

    def test_a_newer_database_is_refused(self, server: Server, tmp_path: Path) -> None:
        """By the upgrade, a writer and a reader alike."""
        url = server.log()
        scripts = scripts_with(tmp_path, "pass", "DROP TRIGGER events_no_update ON events")
        assert upgrade(url, scripts=scripts) != HEAD
        for opening in (lambda: upgrade(url), lambda: opened(url), lambda: current(url)):
            with pytest.raises(NewerDatabase):
                opening()

    def test_an_older_database_asks_for_an_upgrade(self, server: Server) -> None:
        """The message names the command."""
        url = server.log()
        sql(url, "UPDATE alembic_version SET version_num = '0000'")
        with pytest.raises(OlderDatabase, match="wfctl db upgrade"):
            opened(url)

    def test_tables_of_somebody_else_are_left_alone(self, server: Server) -> None:
        """Neither upgraded nor opened."""
        url = server.schema()
        sql(url, "CREATE TABLE events (theirs int)")
        with pytest.raises(NotOurs):
            upgrade(url)
        with pytest.raises(DatabaseMissing):
            opened(url)

    def test_looking_at_the_version_waits_for_no_writer(self, server: Server) -> None:
        """Not even for one that keeps its turn."""
        url = server.log()
        with psycopg.connect(conninfo(url)) as other:
            other.execute(TURN)
            other.execute("INSERT INTO commands VALUES ('c', 's', 'd', 1, 0)")
            assert current(url, wait=0.2) == HEAD


TURN = "SELECT pg_advisory_xact_lock((2003198836::bigint << 32) | 'events'::regclass::oid::bigint)"


class TestOrder:
    """Positions are in the order of commits, without a gap."""

    def test_a_late_commit_is_never_overtaken(self, server: Server) -> None:
        """Another stream's writer waits; a reader sees neither, then both in order."""
        url = server.log()
        with closing(opened(url)) as store, psycopg.connect(conninfo(url)) as late:
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

    def test_a_writer_that_gives_up_leaves_no_gap(self, server: Server) -> None:
        """What was rolled back has used no position."""
        url = server.log()
        with psycopg.connect(conninfo(url)) as gone:
            gone.execute(TURN)
            gone.execute("INSERT INTO events SELECT 1, 'b', 1, 'gone', 't', 'r', 'h', '{}'")
            gone.rollback()
        assert put(url, "c") == 1

    def test_a_command_id_is_used_once_by_writers_of_two_streams(self, server: Server) -> None:
        """Even at the same time: the second is told whose it is."""
        url = server.log()
        with psycopg.connect(conninfo(url)) as first, ThreadPoolExecutor() as pool:
            first.execute(TURN)
            first.execute("INSERT INTO commands VALUES ('k', 'other', 'd', 1, 0)")
            second = pool.submit(put, url, "c", Claim("k", "d"))
            time.sleep(0.3)
            first.commit()
            with pytest.raises(CommandConflict, match="other"):
                second.result()

    def test_two_writers_of_the_same_event_under_one_command_are_told_of_the_command(
        self, server: Server
    ) -> None:
        """The event's id is taken too, and that is not what was done wrong."""
        url = server.log()
        with psycopg.connect(conninfo(url)) as first, ThreadPoolExecutor() as pool:
            first.execute(TURN)
            first.execute("INSERT INTO events SELECT 1, 'other', 1, 'k', 't', 'r', 'h', '{}'")
            first.execute("INSERT INTO commands VALUES ('k', 'other', 'd', 1, 1)")
            second = pool.submit(put, url, "c", Claim("k", "d"), "k")
            time.sleep(0.3)
            first.commit()
            with pytest.raises(CommandConflict, match="other"):
                second.result()

    def test_a_writer_that_does_nothing_for_long_loses_its_turn(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A machine that stands still in the middle of an append holds up nobody for ever."""
        monkeypatch.setattr("eventstore.postgres.connection._IDLE_SECONDS", 0.3)
        url = server.log()
        with closing(opened(url)) as still:
            connection = still._server._connection  # type: ignore[attr-defined]
            connection.execute("BEGIN")
            connection.execute(TURN)
            assert put(url, "c") == 1
            assert still.append("d", notes(1), expected=0, claim=claim()).events[0].position == 2


def put(url: str, stream: str, asked: Claim | None = None, event_id: str | None = None) -> int:
    """Append an event through a store of its own; return its position."""
    [event] = notes(1)
    event = event._replace(event_id=event_id or event.event_id)
    with closing(opened(url)) as store:
        done = store.append(stream, [event], expected=Expected.ANY, claim=asked or claim())
        return done.events[0].position


class TestAppendOnly:
    """The database itself refuses to forget."""

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
    def test_what_is_kept_is_neither_changed_nor_deleted(
        self, server: Server, statement: str
    ) -> None:
        """Not even by the owner of the table, as long as the triggers are there."""
        url = server.log()
        with closing(opened(url)) as store:
            store.append("w", notes(2), expected=0, claim=claim())
            store.record_refusal(REFUSAL)
        table = next(word for word in statement.split() if word.islower())
        with pytest.raises(psycopg.errors.RaiseException, match=f"{table} are append-only"):
            sql(url, statement)

    def test_an_older_log_is_guarded_by_an_upgrade(self, server: Server) -> None:
        """What it holds stays, and from then on is kept."""
        url = server.log()
        with closing(opened(url)) as store:
            store.append("w", notes(2), expected=0, claim=claim())
        sql(url, "DROP FUNCTION kept_refuse() CASCADE")
        sql(url, "UPDATE alembic_version SET version_num = '0002'")
        assert upgrade(url) == HEAD
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
    def test_who_gets_round_that_is_found(self, server: Server, statement: str, kind: str) -> None:
        """As on every engine; a whole stream that is gone leaves a hole in the positions."""
        url = server.log()
        with closing(opened(url)) as store:
            store.append("x", notes(2), expected=0, claim=claim())
            store.append("w", notes(3), expected=0, claim=claim())
            for table in ("events", "commands"):
                sql(url, f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            sql(url, statement)
            assert next(iter(store.verify())).kind == kind


class TestConnecting:
    """What may be wrong on the way to the server, each with an error of ours."""

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
    def test_a_server_that_lets_nobody_in_is_named(
        self, server: Server, change: Callable[[str], str]
    ) -> None:
        """At once, without a password in the message."""
        with pytest.raises(StoreUnreachable) as caught:
            opened(change(server.url()))
        assert "secret" not in str(caught.value)
        assert "secret" not in str(caught.value.data)

    def test_a_database_without_tables_is_missing(self, server: Server) -> None:
        """Opening never makes any."""
        url = server.schema()
        for read_only in (False, True):
            with pytest.raises(DatabaseMissing):
                opened(url, read_only=read_only)

    def test_a_reader_cannot_write(self, server: Server) -> None:
        """The store says so, and the server would too."""
        url = server.log()
        with closing(opened(url, read_only=True)) as store:
            with pytest.raises(StoreClosed):
                store.append("w", notes(1), expected=0, claim=claim())
            with pytest.raises(StoreUnwritable):
                store._fetch("DELETE FROM folds RETURNING 1")

    def test_a_writer_waits_only_so_long(self, server: Server) -> None:
        """For one that keeps its turn; then both go on."""
        url = server.log()
        with closing(opened(url, wait=0.2)) as store, psycopg.connect(conninfo(url)) as other:
            other.execute(TURN)
            with pytest.raises(StoreBusy):
                store.append("w", notes(1), expected=0, claim=claim())
            other.rollback()
            store.append("w", notes(1), expected=0, claim=claim())

    def test_a_server_set_to_forget_is_told_to_remember(self, server: Server) -> None:
        """Where commits are set to return before they are on disk, ours are not."""
        url = server.log().replace("options=", "options=-csynchronous_commit%3Doff%20")
        with closing(opened(url)) as store:
            assert store._fetch("SHOW synchronous_commit") == [("on",)]


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
def test_each_error_of_the_server_has_one_of_ours(error: psycopg.Error, code: str) -> None:
    """By what somebody can do about it."""
    found: EventStoreError = meaning(error, "postgresql://u:secret@h/d", 1.0)
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
def test_a_url_is_shown_without_its_password(url: str, shown: str, secret: bool) -> None:
    """Wherever in it the password stands, and whatever it is made of."""
    assert is_server(url)
    assert public(url) == shown
    assert has_password(url) is secret
