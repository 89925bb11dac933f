"""The server over HTTP: who has the token is served, on this machine, and nobody else."""

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

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-the-test"
PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@contextmanager
def served(root: Path, *arguments: str) -> Iterator[str]:
    """Serve a folder and yield what the server says of where it listens."""
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
    """A workflow."""
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


def test_only_who_has_the_token_is_served(root: Path) -> None:
    """No token or another one: 401. A foreign host or origin: refused as well."""
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


def test_a_socket_is_for_this_login_alone(root: Path) -> None:
    """Its mode says so, an ordinary client is served without a token, and it is gone afterwards."""
    # The name of a socket is short, that of a test's folder is not.
    with TemporaryDirectory(dir="/tmp") as short:
        _serve_on(Path(short) / "mcp.sock", root)


def test_a_socket_that_a_killed_server_left_is_taken_over(root: Path) -> None:
    """Nobody listens on it any more."""
    with TemporaryDirectory(dir="/tmp") as short:
        path = Path(short) / "mcp.sock"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        _serve_on(path, root)


def _serve_on(path: Path, root: Path) -> None:
    with served(root, "--socket", str(path)) as said:
        assert f"http://localhost/mcp on the socket {path}" in said
        _wait_until_it_listens(socket.AF_UNIX, str(path))
        refused = Place(root).call("mcp", "--socket", str(path))
        assert refused.code == 2
        assert "one that a server listens on" in refused.err
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for host in ("localhost", "wfctl"):
            http = httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path)), timeout=120)
            asyncio.run(_note(http, f"http://{host}/mcp"))
    assert not path.exists()
    assert Place(root).notes() == ["over http"] * 2


def test_what_others_could_reach_is_not_served_by_accident(root: Path) -> None:
    """Another address than this machine's own is said twice; a file in the way is left alone."""
    place = Place(root)
    assert place.call("mcp", "--port", "0", "--host", "0.0.0.0").code == 2
    assert place.call("mcp", "--port", "1", "--socket", "x").code == 2
    assert place.call("mcp", "--socket", "x" * 200).code == 2
    (root / "mine").write_text("kept")
    assert place.call("mcp", "--socket", str(root / "mine")).code == 2
    assert (root / "mine").read_text() == "kept"
