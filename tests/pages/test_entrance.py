"""Who may look: the login that serves, and nobody else."""

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
#: Asks for the list over a Unix socket and prints what comes back.
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
    """Return a folder whose path leaves room for a socket's name, and that others may enter."""
    with TemporaryDirectory(prefix="wfctl-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def _asked(path: Path, user: int | None = None) -> subprocess.CompletedProcess[str]:
    more = [] if user is None else [str(user)]
    line = [sys.executable, "-I", "-c", _ASK, str(path), *more]
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_an_address_lets_one_browser_in(half_way: Place, tmp_path: Path) -> None:
    """It works once; the cookie it gives is out of reach for scripts and for other sites."""
    with running(tmp_path, "--port", "0", "--root", str(half_way.path)) as (process, said):
        pages = Served(process, said)
        assert pages.ask("/").status == 403
        answer = pages.enter()
        assert "HttpOnly; SameSite=Strict" in answer.headers["set-cookie"]
        assert pages.get("/").status == 200
        assert pages.ask(f"/?token={pages.token}").status == 403
        assert pages.ask("/", Cookie=pages.cookie[:-1] + "x").status == 403
        assert len(pages.addresses()) == 2  # the next browser has one of its own


def test_a_page_of_another_site_gets_nothing(half_way: Place, tmp_path: Path) -> None:
    """Neither by a name that leads here, nor by a request from its own page."""
    with served(tmp_path, "--root", str(half_way.path)) as pages:
        assert pages.get("/", Host=f"evil.example:{pages.port}").status == 421
        cross = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"}
        assert pages.get("/pages.js", **cross).status == 403
        found = pages.get("/")
        assert "script-src 'self'" in found.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in found.headers["content-security-policy"]
        assert found.headers["cross-origin-resource-policy"] == "same-origin"


def test_nothing_but_get_is_answered(half_way: Place, tmp_path: Path) -> None:
    """The pages read."""
    before = half_way.version()
    with served(tmp_path, "--root", str(half_way.path)) as pages:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            assert pages.ask("/", method, Cookie=pages.cookie).status == 501
    assert half_way.version() == before


def test_a_cookie_holds_after_a_restart(half_way: Place, tmp_path: Path) -> None:
    """A page that was left open finds the server again."""
    with served(tmp_path, "--root", str(half_way.path)) as first:
        cookie, port = first.cookie, first.port
    with served(tmp_path, "--root", str(half_way.path), port=port) as second:
        assert second.ask("/", Cookie=cookie).status == 200


def test_the_socket_is_for_this_login_alone(half_way: Place, short: Path) -> None:
    """Mode 0600, with the line for a tunnel; the same path each time; removed at the end."""
    with started(short, "--root", str(half_way.path)) as said:
        _wait_for(said, "http://localhost:8000/")
        (path,) = (short / "runtime" / "wfctl").glob("serve-*.sock")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert f"ssh -N -L 8000:{path} " in said.read_text()
        assert "200 OK" in _asked(path).stdout
    assert not path.exists()


@pytest.mark.parametrize("place", ["--port", "--socket"])
def test_a_server_that_is_told_to_end_says_so(half_way: Place, short: Path, place: str) -> None:
    """128 + SIGTERM: what started it sees that nobody left a pipe."""
    where = "0" if place == "--port" else str(short / "own.sock")
    with running(short, "--root", str(half_way.path), place, where) as (process, _):
        process.terminate()
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM


@pytest.mark.root
def test_another_login_is_refused(half_way: Place, short: Path) -> None:
    """By the mode of the socket, and by who asks where somebody opened it to all."""
    path = short / "open.sock"
    with started(short, "--root", str(half_way.path), "--socket", str(path)) as said:
        _wait_for(said, "http://localhost:8000/")
        assert "Permission denied" in _asked(path, NOBODY).stderr
        path.chmod(0o666)
        assert "HTTP" not in _asked(path, NOBODY).stdout
        assert "200 OK" in _asked(path).stdout


def test_what_lies_at_the_socket_s_place_is_left(half_way: Place, short: Path) -> None:
    """A file is nobody's to remove; a socket that nobody listens on any more is replaced."""
    file = short / "file"
    file.write_text("mine")
    answer = half_way.call("serve", "--socket", str(file))
    assert (answer.code, file.read_text()) == (2, "mine")
    dead = short / "dead.sock"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(dead))
    with started(short, "--root", str(half_way.path), "--socket", str(dead)) as said:
        _wait_for(said, "http://localhost:8000/")
        assert "200 OK" in _asked(dead).stdout
        assert "somebody serves here" in half_way.call("serve", "--socket", str(dead)).err


def _wait_for(said: Path, text: str) -> None:
    end = time.monotonic() + PATIENCE
    while text not in said.read_text():
        assert time.monotonic() < end, said.read_text()
        time.sleep(0.02)
