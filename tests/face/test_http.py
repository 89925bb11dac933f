"""The HTTP server answers only clients of this machine that have the token."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2 as httpx
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.cli.support import HERE, PLAN, Place, write_plan
from tests.face.support import Agent
from tests.pages.test_entrance import NOBODY, asked

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-the-test"
PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@contextmanager
def served(root: Path, *arguments: str) -> Iterator[str]:
    """Start a server for a folder, and yield the line in which it prints its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "mcp", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(HERE), "WFCTL_MCP_TOKEN": TOKEN},
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    try:
        yield process.stderr.readline()
    finally:
        process.send_signal(signal.SIGTERM)
        process.stderr.close()
        assert process.wait(20) in (-signal.SIGTERM, 128 + signal.SIGTERM)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a workflow."""
    assert (
        Place(tmp_path).call("init", str(write_plan(tmp_path, PLAN)), "--consent", "trust").code
        == 0
    )
    return tmp_path


def _wait_until_it_listens(family: socket.AddressFamily, address: Any) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with socket.socket(family) as tried:
            if tried.connect_ex(address) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nobody listens on {address}")


def _post(client: httpx.Client, url: str, **headers: str) -> int:
    accepted = {"accept": "application/json, text/event-stream", **headers}
    return client.post(url, json=PING, headers=accepted).status_code


def test_server_requires_the_token(root: Path) -> None:
    """A missing or wrong token gives 401, and a foreign host or origin is refused."""
    with served(root, "--port", "0") as said:
        found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", said)
        assert found, said
        assert TOKEN not in said
        url, mine = found[0], {"authorization": f"Bearer {TOKEN}"}
        _wait_until_it_listens(socket.AF_INET, ("127.0.0.1", int(found[1])))
        with httpx.Client(timeout=120) as client:
            assert _post(client, url) == 401
            assert _post(client, url, authorization="Bearer other") == 401
            assert _post(client, url, **mine, host="evil.example") == 421
            assert _post(client, url, **mine, origin="http://evil.example") == 403
        asyncio.run(_note(httpx.AsyncClient(headers=mine, timeout=120), url))
    assert Place(root).notes() == ["over http"]


async def _note(http: httpx.AsyncClient, url: str) -> None:
    async with http, Client(streamable_http_client(url, http_client=http)) as client:
        assert not (await Agent(client).call("record", note="over http")).is_error


def test_socket_is_restricted_to_its_user(root: Path) -> None:
    """The socket has the mode 0600, needs no token, and is removed when the server ends."""
    # The path of a socket must be short, but the folder of a test has a long path.
    with TemporaryDirectory(dir="/tmp") as short:
        _serve_on(Path(short) / "mcp.sock", root)


def test_socket_of_a_killed_server_is_replaced(root: Path) -> None:
    """The server replaces a leftover socket on which no process listens."""
    with TemporaryDirectory(dir="/tmp") as short:
        path = Path(short) / "mcp.sock"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        _serve_on(path, root)


@pytest.mark.root
def test_socket_refuses_other_users_even_with_open_mode(root: Path) -> None:
    """The server checks the user of the client, not only the mode of the socket."""
    with TemporaryDirectory(dir="/tmp") as short:
        Path(short).chmod(0o755)
        path = Path(short) / "mcp.sock"
        with served(root, "--socket", str(path)):
            _wait_until_it_listens(socket.AF_UNIX, str(path))
            path.chmod(0o666)
            assert "HTTP" not in asked(path, NOBODY).stdout
            assert "HTTP/1.1" in asked(path).stdout


def _serve_on(path: Path, root: Path) -> None:
    with served(root, "--socket", str(path)) as said:
        assert f"http://localhost/mcp on the socket {path}" in said
        _wait_until_it_listens(socket.AF_UNIX, str(path))
        refused = Place(root).call("mcp", "--socket", str(path))
        assert refused.code == 2
        assert "a running server already uses it" in refused.err
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for host in ("localhost", "wfctl"):
            http = httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path)), timeout=120)
            asyncio.run(_note(http, f"http://{host}/mcp"))
    assert not path.exists()
    assert Place(root).notes() == ["over http"] * 2


def test_unsafe_server_addresses_are_refused(root: Path) -> None:
    """The server refuses a non-local address, a long path and an existing file."""
    place = Place(root)
    assert place.call("mcp", "--port", "0", "--host", "0.0.0.0").code == 2
    assert place.call("mcp", "--port", "1", "--socket", "x").code == 2
    assert place.call("mcp", "--socket", "x" * 200).code == 2
    (root / "mine").write_text("kept")
    assert place.call("mcp", "--socket", str(root / "mine")).code == 2
    assert (root / "mine").read_text() == "kept"
