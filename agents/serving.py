"""Where the server listens: the client's own pipe, a port of this machine, or a Unix socket."""

from __future__ import annotations

import errno
import hmac
import os
import signal
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def over_stdio(server: Server[Any]) -> None:
    """Serve one client over stdin and stdout, until it leaves."""

    async def serve() -> None:
        async with stdio_server() as (received, sent):
            await server.run(received, sent, server.create_initialization_options())

    anyio.run(serve)


def over_http(
    server: Server[Any], token: str, *, host: str, port: int, allowed: Iterable[str] = ()
) -> None:
    """Serve clients that know the token, on an address of this machine."""
    names = [*LOOPBACK, *allowed]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*names, *(f"{name}:*" for name in names)],
        allowed_origins=[f"http://{name}:*" for name in names],
    )
    app = server.streamable_http_app(transport_security=security)
    uvicorn.run(WithToken(app, token), host=host, port=port, log_level="error")


def over_socket(server: Server[Any], path: Path) -> None:
    """Serve clients of this login over a Unix socket, which nobody else can open.

    A socket that a server left behind is taken over. No page in a browser can open it either, so
    the host that a client names says nothing.
    """
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(transport_security=security)
    config = uvicorn.Config(app, log_level="error")
    with socket.socket(socket.AF_UNIX) as listening:
        if is_left_behind(path):
            path.unlink()
        # The server's own way to make one opens it to every login.
        before = os.umask(0o177)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        # The server raises the signal that ended it once more when it is done.
        signal.signal(signal.SIGTERM, _leave)
        try:
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            path.unlink(missing_ok=True)


def is_left_behind(path: Path) -> bool:
    """Return whether a Unix socket lies there on which nobody listens."""
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as tried:
        return tried.connect_ex(str(path)) == errno.ECONNREFUSED


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def free_port(host: str) -> int:
    """Return a port of the address that nobody listens on."""
    with socket.create_server((host, 0)) as found:
        return int(found.getsockname()[1])


class WithToken:
    """Refuses each request that does not hold the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or 401."""
        if scope["type"] != "http" or self._holds(scope):
            await self._app(scope, receive, send)
            return
        told = {
            "error": "expected the header `Authorization: Bearer TOKEN` with this server's token"
        }
        await JSONResponse(told, status_code=401)(scope, receive, send)

    def _holds(self, scope: Scope) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(given, self._expected)
