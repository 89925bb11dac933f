"""The SQL of the PostgreSQL page creates roles with exactly the documented rights."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import psycopg
import pytest

from eventstore.database_url import libpq_url
from tests.cli.support import Place, call
from tests.cli.test_server import made
from tests.eventstore.wire import Wire
from tests.need import need_programs
from tests.server import Server


@pytest.mark.slow
def test_writer_role_can_run_every_command(page: dict[str, str], tmp_path: Path) -> None:
    """The writer role can also run `init`, record refusals and store cached states."""
    place = made(tmp_path, page["writer"], "by-a-writer")
    place.done("dispatch", "stage-1", "--sync")
    assert place.json("stage", "launch", "stage-2").code == 5
    file = tmp_path / "notes.jsonl"
    file.write_text('{"type": "note.logged", "data": {"text": "x"}}\n' * 510)
    place.done("append", "--from", str(file))
    assert place.done("fsck")["findings"] == []
    assert place.done("replay", "--check")["findings"] == []


STATEMENTS = (
    "UPDATE events SET body = ''",
    "DELETE FROM events",
    "TRUNCATE events",
    "UPDATE commands SET digest = ''",
    "DELETE FROM commands",
    "TRUNCATE commands",
    "UPDATE refusals SET code = ''",
    "DELETE FROM refusals",
    "TRUNCATE refusals",
    "DROP TRIGGER events_no_update ON events",
    "ALTER TABLE events DISABLE TRIGGER ALL",
    "SET session_replication_role = replica",
    "DROP TABLE events",
    "CREATE TABLE mine (x int)",
)


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("role", ["writer", "reader"])
def test_roles_other_than_the_owner_change_no_row(
    page: dict[str, str], role: str, statement: str
) -> None:
    """They can change neither rows nor the triggers that protect the rows."""
    with (
        psycopg.connect(libpq_url(page[role])) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement.encode())


#: Tables into which a role could insert a row without wfctl.
ROWS = ("events", "commands", "refusals", "folds", "history_events", "history_amendments")


@pytest.mark.parametrize("table", ROWS)
def test_reader_role_inserts_no_row(page: dict[str, str], table: str) -> None:
    """The reader role cannot insert rows, so an agent with it cannot bypass the rules."""
    with (
        psycopg.connect(libpq_url(page["reader"])) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(f"INSERT INTO {table} SELECT * FROM {table}".encode())
    with psycopg.connect(libpq_url(page["writer"])) as connection:
        connection.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0".encode())


@pytest.mark.parametrize("statement", STATEMENTS[:9])
def test_triggers_stop_the_owner(page: dict[str, str], statement: str) -> None:
    """The triggers stop the owner of the tables until the owner drops the triggers."""
    with (
        psycopg.connect(libpq_url(page["owner"])) as connection,
        pytest.raises(psycopg.errors.RaiseException, match="append-only"),
    ):
        connection.execute(statement.encode())


@pytest.mark.slow
def test_reader_role_reads_and_does_not_write(page: dict[str, str], tmp_path: Path) -> None:
    """Every reading command works, and a write names the missing right."""
    place = made(tmp_path, page["writer"], "for-a-reader")
    for line in (["status"], ["events"], ["fsck"], ["replay", "--check"], ["audit", "bypasses"]):
        answer = place.json("--database-url", page["reader"], *line)
        assert answer.code == 0, answer
    answer = place.json("--database-url", page["reader"], "note", "x")
    assert (answer.code, answer.error["code"]) == (1, "store_unwritable")
    assert "permission denied" in answer.error["message"]


@pytest.mark.slow
def test_dump_of_the_server_is_a_valid_backup(
    server: Server, page: dict[str, str], tmp_path: Path
) -> None:
    """A database restored from pg_dump has the same log and the same protective triggers."""
    place = made(tmp_path, page["writer"], "dumped")
    before = [event["hash"] for event in place.done("events")]
    dump = server.folder / "d" / "log.dump"
    where = ("-h", str(server.data), "-U", "postgres")
    server.program("pg_dump", *where, "--schema=log", "-Fc", "-f", str(dump), "wfctl")
    server.sql("CREATE DATABASE again", "ALTER DATABASE again SET search_path = log")
    server.program("pg_restore", *where, "-d", "again", str(dump))
    url = ("--database-url", server.url("again"))
    assert [event["hash"] for event in place.done(*url, "events")] == before
    assert place.done(*url, "fsck")["findings"] == []
    answer = place.json(*url, "db", "restore", str(dump))
    assert "pg_restore" in answer.error["message"]


def certificate(folder: Path, name: str) -> Path:
    """Create a self-signed certificate for a hostname, and its key."""
    need_programs("openssl")
    key, made_ = folder / f"{name}.key", folder / f"{name}.crt"
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", key, "-out", made_], check=True, capture_output=True)
    return made_


@pytest.mark.slow
def test_tls_options_of_the_url_are_enforced(server: Server, tmp_path: Path) -> None:
    """wfctl refuses a server without TLS, or with another name or certificate authority."""
    good, other = certificate(tmp_path, "localhost"), certificate(tmp_path, "elsewhere")
    direct = server.log()

    def code(wire: Wire, **more: str) -> int:
        url = wire.url(direct, server.data) + "".join(f"&{k}={v}" for k, v in more.items())
        return call("--database-url", url, "db", "current").code

    with Wire(server.data, tls=context(good)) as wire:
        assert code(wire, sslmode="verify-full", sslrootcert=str(good)) == 0
        assert code(wire, sslmode="verify-full", sslrootcert=str(other)) == 1
    with Wire(server.data, tls=context(other)) as wire:
        assert code(wire, sslmode="verify-full", sslrootcert=str(other)) == 1
        assert code(wire, sslmode="verify-ca", sslrootcert=str(other)) == 0
    with Wire(server.data, tcp=True) as wire:
        assert code(wire) == 0
        assert code(wire, sslmode="require") == 1


def context(made_: Path) -> ssl.SSLContext:
    """Return the TLS context of a server with this certificate."""
    found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    found.load_cert_chain(made_, made_.with_suffix(".key"))
    return found


def test_commands_named_on_the_page_exist(place: Place) -> None:
    """Each wfctl command that the PostgreSQL page names prints its help."""
    for words in (["db", "copy"], ["db", "backup"], ["db", "restore"], ["db", "upgrade"]):
        assert place.call(*words, "--help").code == 0


#: SQL locks that a reader role can take, and for which a writer might have to wait.
_HELD = (
    "SELECT pg_advisory_lock((2003198836::bigint << 32) | 'events'::regclass::oid::bigint)",
    "LOCK TABLE folds IN ACCESS SHARE MODE",
    "LOCK TABLE events IN ACCESS SHARE MODE",
)


@pytest.mark.slow
@pytest.mark.parametrize("held", _HELD)
def test_reader_role_does_not_block_writers(
    page: dict[str, str], tmp_path: Path, held: str
) -> None:
    """A reader role cannot take the lock for which commands that write wait."""
    place = made(tmp_path, page["writer"], f"unhindered-{_HELD.index(held)}")
    with psycopg.connect(libpq_url(page["reader"])) as reader:
        reader.execute(held.encode())
        place.done("note", "written")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("LOCK TABLE folds IN SHARE UPDATE EXCLUSIVE MODE")
