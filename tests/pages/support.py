"""Start a server of web pages, and send requests to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from tests.cli.support import HERE

#: Maximum number of seconds that a server may take to start. It usually takes a tenth of that.
PATIENCE = 30.0
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)")


class Reply(NamedTuple):
    """The status, headers and text of a server's reply."""

    status: int
    headers: dict[str, str]
    text: str


class Served:
    """A running ``wfctl serve``, with its port and the cookie of its first reply."""

    def __init__(self, process: subprocess.Popen[str], said: Path) -> None:
        self.process = process
        self.said = said
        found = self.addresses()
        assert found, f"the server printed no address: {said.read_text()}"
        self.port, self.token = int(found[0][0]), found[0][1]
        self.cookie = ""

    def addresses(self) -> list[tuple[str, str]]:
        """Return the port and token of each address that the server has printed."""
        return ADDRESS.findall(self.said.read_text())

    def ask(self, path: str, method: str = "GET", **headers: str) -> Reply:
        """Send a request with the given headers."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        text = answer.read().decode()
        connection.close()
        return Reply(answer.status, found, text)

    def enter(self) -> Reply:
        """Open the address that the server printed, and store the cookie of the reply."""
        answer = self.ask(f"/?token={self.token}")
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def get(self, path: str, **headers: str) -> Reply:
        """Send a request with the cookie."""
        return self.ask(path, Cookie=self.cookie, **headers)


@contextmanager
def started(folder: Path, *arguments: str, cwd: Path | None = None) -> Iterator[Path]:
    """Start ``wfctl serve``, and yield the path of a file with its output.

    The file already has the first line of the output.
    """
    with running(folder, *arguments, cwd=cwd) as (_, said):
        yield said


@contextmanager
def running(
    folder: Path, *arguments: str, cwd: Path | None = None
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start ``wfctl serve`` with its own runtime folder, and yield the process and its output file.

    The server is stopped at the end.
    """
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    said = folder / f"said-{time.monotonic_ns()}"
    environ = {**os.environ, "PYTHONPATH": str(HERE), "XDG_RUNTIME_DIR": str(runtime)}
    line = [sys.executable, "-m", "cli.main", "serve", *arguments]
    with said.open("w") as out:
        process = subprocess.Popen(line, cwd=cwd, env=environ, stderr=out, stdout=out, text=True)
    try:
        end = time.monotonic() + PATIENCE
        while said.read_text().count("\n") < 1 and process.poll() is None:
            assert time.monotonic() < end, "the server says nothing"
            time.sleep(0.02)
        yield process, said
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def served(folder: Path, *arguments: str, port: int = 0) -> Iterator[Served]:
    """Start ``wfctl serve`` on a port, open its address, and yield the server."""
    with running(folder, "--port", str(port), *arguments) as (process, said):
        found = Served(process, said)
        found.enter()
        yield found
