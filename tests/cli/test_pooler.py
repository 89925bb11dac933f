"""A log behind the connection pooler PgBouncer, whose clients share server sessions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from eventstore.database_url import libpq_url
from tests.cli.support import HERE, call
from tests.cli.test_following import following, seen
from tests.cli.test_server import made
from tests.need import need_programs
from tests.server import Server

PORT = 6432


@pytest.fixture(scope="module")
def pooled(server: Server) -> Iterator[str]:
    """Return the URL of an empty log behind a PgBouncer whose clients share one session."""
    need_programs("pgbouncer")
    server.sql("CREATE DATABASE pooled")
    folder = Path(tempfile.mkdtemp(prefix="pgb-"))
    (folder / "users").write_text('"postgres" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={server.data}\n"
        f"[pgbouncer]\nunix_socket_dir = {folder}\nlisten_port = {PORT}\nauth_type = trust\n"
        f"auth_file = {folder}/users\npool_mode = transaction\ndefault_pool_size = 1\n"
        f"logfile = {folder}/log\n"
    )
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    command = [str(program), "-q", str(folder / "pgbouncer.ini")]
    owner = server.data.stat()
    if os.geteuid() == 0:  # PgBouncer refuses to run as root
        os.chown(folder, owner.st_uid, owner.st_gid)
        user = [f"--reuid={owner.st_uid}", f"--regid={owner.st_gid}", "--clear-groups"]
        command = ["setpriv", *user, *command]
    running = subprocess.Popen(command, cwd="/", stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while not (folder / f".s.PGSQL.{PORT}").exists() and time.monotonic() < end:
            time.sleep(0.05)
        url = f"postgresql+psycopg://postgres@/pooled?host={folder}&port={PORT}"
        answer = call("--database-url", url, "db", "upgrade")
        assert answer.code == 0, answer
        yield url
    finally:
        running.terminate()
        running.wait(20)
        shutil.rmtree(folder)


@pytest.mark.slow
def test_run_records_while_its_job_reads_through_the_same_session(
    pooled: str, tmp_path: Path
) -> None:
    """Reading commands leave no read-only setting and no prepared statement in the session."""
    read = f"PYTHONPATH={HERE} {sys.executable} -m cli.main --root .. status > out.txt"
    stages = [
        {
            "id": f"stage-{n}",
            "name": "Read",
            "outputs": [f"stage-{n}/out.txt"],
            "parameters": {"command": f"{read} && {read}"},
        }
        for n in (1, 2)
    ]
    place = made(tmp_path, pooled, "read-meanwhile", stages=stages)
    place.done("run")
    assert [one["status"] for one in place.done("status")["stages"]] == ["completed"] * 2
    assert place.done("fsck")["findings"] == []


@pytest.mark.slow
def test_many_commands_and_a_follower_share_a_session(pooled: str, tmp_path: Path) -> None:
    """`events --follow` works without notifications of the server."""
    place = made(tmp_path, pooled, "followed")
    before = place.types()
    with following(place) as output:
        assert seen(output, len(before)) == before
        for number in range(8):
            place.done("note", str(number))
        assert seen(output, 8) == ["note.logged"] * 8
    file = tmp_path / "notes.jsonl"
    file.write_text('{"type": "note.logged", "data": {"text": "x"}}\n' * 510)
    place.done("append", "--from", str(file))


@pytest.mark.slow
def test_wfctl_leaves_no_setting_in_a_shared_session(pooled: str, tmp_path: Path) -> None:
    """Another program in the session sees no timeout and no channel of wfctl."""
    place = made(tmp_path, pooled, "leaves-nothing")
    with following(place) as output:
        seen(output, 1)
        place.done("note", "x")
        place.done("status")
        with psycopg.connect(libpq_url(pooled), autocommit=True) as other:
            names = (
                "lock_timeout",
                "idle_in_transaction_session_timeout",
                "default_transaction_read_only",
            )
            shown = [other.execute(f"SHOW {name}".encode()).fetchone() for name in names]
            channels = other.execute("SELECT pg_listening_channels()").fetchall()
    assert (shown, channels) == ([("0",), ("0",), ("off",)], [])
