"""Only the user who runs the server can read the pages."""

from __future__ import annotations

import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cli.support import Place
from tests.pages.support import PATIENCE, Served, running, served, started

NOBODY = 65534
#: A program that requests the list of workflows over a Unix socket and prints the reply. Its second
#: argument is the user who sends the request.
_ASK = """
import os, socket, sys
if len(sys.argv) > 2:
    os.setgroups([])
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
asked = socket.socket(socket.AF_UNIX)
asked.connect(sys.argv[1])
asked.sendall(b"GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
found = b""
while block := asked.recv(65536):
    found += block
print(found.decode())
"""


@pytest.fixture
def short() -> Iterator[Path]:
    """Return a folder that other users can enter. Its path is short enough for a socket."""
    with TemporaryDirectory(prefix="wfctl-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def asked(path: Path, user: int | None = None) -> subprocess.CompletedProcess[str]:
    """Send a request over a Unix socket, as the current user or as the given user."""
    more = [] if user is None else [str(user)]
    line = [sys.executable, "-I", "-c", _ASK, str(path), *more]
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_printed_address_works_once(half_way: Place, tmp_path: Path) -> None:
    """The first visit of the address sets a cookie; a second visit with the token is refused."""
    with running(tmp_path, "--port", "0", "--root", str(half_way.path)) as (process, said):
        pages = Served(process, said)
        assert pages.ask("/").status == 403
        answer = pages.enter()
        assert "HttpOnly; SameSite=Strict" in answer.headers["set-cookie"]
        assert pages.get("/").status == 200
        assert pages.ask(f"/?token={pages.token}").status == 403
        assert pages.ask("/", Cookie=pages.cookie[:-1] + "x").status == 403
        assert len(pages.addresses()) == 2  # The server prints a new address for the next browser.


def test_requests_of_other_sites_are_refused(half_way: Place, tmp_path: Path) -> None:
    """The server refuses another host name, and requests that another web site causes."""
    with served(tmp_path, "--root", str(half_way.path)) as pages:
        assert pages.get("/", Host=f"evil.example:{pages.port}").status == 421
        cross = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"}
        assert pages.get("/pages.js", **cross).status == 403
        found = pages.get("/")
        assert "script-src 'self'" in found.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in found.headers["content-security-policy"]
        assert found.headers["cross-origin-resource-policy"] == "same-origin"


def test_server_accepts_only_get(half_way: Place, tmp_path: Path) -> None:
    """The server answers POST and other methods with status 501, because pages never write."""
    before = half_way.version()
    with served(tmp_path, "--root", str(half_way.path)) as pages:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            assert pages.ask("/", method, Cookie=pages.cookie).status == 501
    assert half_way.version() == before


def test_cookie_stays_valid_after_a_restart(half_way: Place, tmp_path: Path) -> None:
    """After a restart of the server, an open page can use its old cookie."""
    with served(tmp_path, "--root", str(half_way.path)) as first:
        cookie, port = first.cookie, first.port
    with served(tmp_path, "--root", str(half_way.path), port=port) as second:
        assert second.ask("/", Cookie=cookie).status == 200


def test_socket_is_restricted_to_its_user(half_way: Place, short: Path) -> None:
    """The socket has the mode 0600, and the server removes it at its end.

    The server also prints an ssh command that makes a tunnel to the socket.
    """
    with started(short, "--root", str(half_way.path)) as said:
        _wait_for(said, "http://localhost:8000/")
        (path,) = (short / "runtime" / "wfctl").glob("serve-*.sock")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert f"ssh -N -L 8000:{path} " in said.read_text()
        assert "200 OK" in asked(path).stdout
    assert not path.exists()


@pytest.mark.parametrize("place", ["--port", "--socket"])
def test_terminated_server_exits_with_the_signal(half_way: Place, short: Path, place: str) -> None:
    """After SIGTERM, the server exits with 128 + SIGTERM, on a port and on a socket."""
    where = "0" if place == "--port" else str(short / "own.sock")
    with running(short, "--root", str(half_way.path), place, where) as (process, _):
        process.terminate()
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM


@pytest.mark.root
def test_socket_refuses_other_users(half_way: Place, short: Path) -> None:
    """Even if all users may open the socket, the server refuses requests of other users."""
    path = short / "open.sock"
    with started(short, "--root", str(half_way.path), "--socket", str(path)) as said:
        _wait_for(said, "http://localhost:8000/")
        assert "Permission denied" in asked(path, NOBODY).stderr
        path.chmod(0o666)
        assert "HTTP" not in asked(path, NOBODY).stdout
        assert "200 OK" in asked(path).stdout


def test_existing_file_is_not_replaced_by_a_socket(half_way: Place, short: Path) -> None:
    """`wfctl serve --socket` refuses to replace a file or the socket of a running server.

    It replaces a socket that no server uses.
    """
    file = short / "file"
    file.write_text("mine")
    answer = half_way.call("serve", "--socket", str(file))
    assert (answer.code, file.read_text()) == (2, "mine")
    dead = short / "dead.sock"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(dead))
    with started(short, "--root", str(half_way.path), "--socket", str(dead)) as said:
        _wait_for(said, "http://localhost:8000/")
        assert "200 OK" in asked(dead).stdout
        assert (
            "another server already uses the socket"
            in half_way.call("serve", "--socket", str(dead)).err
        )


def _wait_for(said: Path, text: str) -> None:
    end = time.monotonic() + PATIENCE
    while text not in said.read_text():
        assert time.monotonic() < end, said.read_text()
        time.sleep(0.02)
