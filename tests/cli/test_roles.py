"""The page on PostgreSQL: its SQL makes roles that may do what it says, and no more."""

from __future__ import annotations

import re
import ssl
import subprocess
from pathlib import Path

import psycopg
import pytest

from eventstore.private import conninfo
from tests.cli.support import HERE, Place, call
from tests.cli.test_server import made
from tests.eventstore.wire import Wire
from tests.need import need_programs
from tests.server import Server

PAGE = HERE / "docs" / "run" / "postgresql.md"


def blocks() -> list[list[str]]:
    """Return the statements of each SQL block of the page."""
    found = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [[s.strip() for s in block.split(";") if s.strip()] for block in found]


@pytest.fixture(scope="session")
def page(server: Server) -> dict[str, str]:
    """Do what the page says; return the URL of each role."""
    once, in_database, after = blocks()
    server.sql(*once)
    server.sql(*in_database, url=server.url("wfctl"))
    owner = server.url("wfctl", "wfctl_owner")
    answer = call("--database-url", owner, "db", "upgrade")
    assert answer.code == 0, answer
    server.sql(*after, url=owner)
    server.sql(
        "CREATE ROLE ada LOGIN IN ROLE wfctl_writer", "CREATE ROLE bo LOGIN IN ROLE wfctl_reader"
    )
    roles = {"owner": "wfctl_owner", "writer": "ada", "reader": "bo"}
    return {role: server.url("wfctl", name) for role, name in roles.items()}


@pytest.mark.slow
def test_a_writer_does_all_work(page: dict[str, str], tmp_path: Path) -> None:
    """From init on, refusals and the stored fold included."""
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
def test_nobody_but_the_owner_changes_anything(
    page: dict[str, str], role: str, statement: str
) -> None:
    """Neither rows nor what guards them."""
    with (
        psycopg.connect(conninfo(page[role])) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement.encode())


#: A row put in past wfctl, with whatever chain: an event, a claim, a kept state, a row of history.
ROWS = ("events", "commands", "refusals", "folds", "history_events", "history_amendments")


@pytest.mark.parametrize("table", ROWS)
def test_a_login_that_reads_can_put_in_no_row(page: dict[str, str], table: str) -> None:
    """So an agent that has this login appends through the writer's rules, or not at all."""
    with (
        psycopg.connect(conninfo(page["reader"])) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(f"INSERT INTO {table} SELECT * FROM {table}".encode())
    with psycopg.connect(conninfo(page["writer"])) as connection:
        connection.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE 1 = 0".encode())


@pytest.mark.parametrize("statement", STATEMENTS[:9])
def test_the_owner_is_stopped_by_triggers(page: dict[str, str], statement: str) -> None:
    """As long as nobody takes them away, which the owner may."""
    with (
        psycopg.connect(conninfo(page["owner"])) as connection,
        pytest.raises(psycopg.errors.RaiseException, match="append-only"),
    ):
        connection.execute(statement.encode())


@pytest.mark.slow
def test_a_reader_looks_and_does_not_write(page: dict[str, str], tmp_path: Path) -> None:
    """Every command that looks; a write says what right is missing."""
    place = made(tmp_path, page["writer"], "for-a-reader")
    for line in (["status"], ["events"], ["fsck"], ["replay", "--check"], ["audit", "bypasses"]):
        answer = place.json("--database-url", page["reader"], *line)
        assert answer.code == 0, answer
    answer = place.json("--database-url", page["reader"], "note", "x")
    assert (answer.code, answer.error["code"]) == (1, "store_unwritable")
    assert "permission denied" in answer.error["message"]


@pytest.mark.slow
def test_a_dump_of_the_server_is_a_backup_too(
    server: Server, page: dict[str, str], tmp_path: Path
) -> None:
    """Brought back into another database, it is the same log, guarded as before."""
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
    """Make a certificate of a host of this name that vouches for itself, and its key."""
    need_programs("openssl")
    key, made_ = folder / f"{name}.key", folder / f"{name}.crt"
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", key, "-out", made_], check=True, capture_output=True)
    return made_


@pytest.mark.slow
def test_tls_is_what_the_url_says(server: Server, tmp_path: Path) -> None:
    """A server of the right name and authority is taken, any other and a plain one is not."""
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
    """Return what a server with this certificate answers with."""
    found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    found.load_cert_chain(made_, made_.with_suffix(".key"))
    return found


def test_the_place_of_the_page_is_real(place: Place) -> None:
    """The commands it names are there."""
    for words in (["db", "copy"], ["db", "backup"], ["db", "restore"], ["db", "upgrade"]):
        assert place.call(*words, "--help").code == 0
