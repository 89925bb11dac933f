"""Serve MCP clients over stdin and stdout, over a local port, or over a Unix socket."""

from __future__ import annotations

import asyncio
import errno
import hmac
import os
import re
import signal
import socket
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, cast

import anyio
import uvicorn
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.root.socket_peer import peer_is_own

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def serve_over_stdio(server: Server[Any]) -> None:
    """Serve one client over stdin and stdout until the client disconnects."""

    async def serve() -> None:
        writer, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        async with stdio_server() as (received, sent), anyio.create_task_group() as group:
            group.start_soon(_forward_messages, received, writer, sent.send)
            await server.run(messages, sent, server.create_initialization_options())
            group.cancel_scope.cancel()

    anyio.run(serve)


async def _forward_messages(
    received: AsyncIterable[SessionMessage | Exception],
    writer: MemoryObjectSendStream[SessionMessage | Exception],
    answer: Callable[[SessionMessage], Awaitable[None]],
) -> None:
    """Pass protocol messages to the server, and reply with an error to invalid lines."""
    async with writer:
        async for message in received:
            if not isinstance(message, Exception):
                await writer.send(message)
            elif refusal := _build_line_error(message):
                await answer(SessionMessage(refusal))


#: Matches a JSON string, a bracket, or the key ``id`` with its value.
_TOKEN = re.compile(r'"id"\s*:\s*(?P<id>"(?:[^"\\]|\\.)*"|-?\d+)|"(?:[^"\\]|\\.)*"|[][{}]')


def _build_line_error(error: Exception) -> JSONRPCError | None:
    """Return the error reply to a line that is not a protocol message.

    Returns None for a blank line.
    """
    code, reason, id_ = INVALID_REQUEST, "expected a message of JSON-RPC 2.0", None
    for problem in error.errors() if isinstance(error, ValidationError) else ():
        found = problem["input"]
        if problem["type"] == "json_invalid" and isinstance(found, str):
            if not found.strip():
                return None
            code, reason, id_ = PARSE_ERROR, problem["msg"], find_request_id(found)
        elif isinstance(found, dict) and type(found.get("id")) in (int, str):
            id_ = found["id"]
    return JSONRPCError(jsonrpc="2.0", id=id_, error=ErrorData(code=code, message=reason))


def find_request_id(line: str) -> int | str | None:
    """Return the request id in a line of invalid JSON, or None if no id is found."""
    depth = 0
    for token in _TOKEN.finditer(line):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if depth == 1 and token["id"] is not None:
            try:
                return cast("int | str", from_json(token["id"]))
            except ValueError:
                return None
    return None


def serve_over_http(
    server: Server[Any], token: str, *, host: str, port: int, allowed: Iterable[str] = ()
) -> None:
    """Serve clients over HTTP on a local address. Each request must contain the token."""
    names = [*LOOPBACK, *allowed]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*names, *(f"{name}:*" for name in names)],
        allowed_origins=[f"http://{name}:*" for name in names],
    )
    app = server.streamable_http_app(transport_security=security)
    uvicorn.run(TokenMiddleware(app, token), host=host, port=port, log_level="error")


class OwnUserHttpProtocol(H11Protocol):
    """HTTP protocol that closes connections of other users before any data is read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection of an own client, and abort any other connection."""
        if peer_is_own(transport.get_extra_info("socket")):
            super().connection_made(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of a connection, unless it was aborted immediately."""
        if self.transport is not None:
            super().connection_lost(exc)


def serve_over_socket(server: Server[Any], path: Path) -> None:
    """Serve clients of this user account and of root over a Unix socket.

    The user account of each client is checked, regardless of the socket's permissions. A leftover
    socket of a stopped server is replaced. The host name of a request is not checked, because
    browsers cannot open Unix sockets.
    """
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(transport_security=security)
    config = uvicorn.Config(app, log_level="error", http=OwnUserHttpProtocol)
    with socket.socket(socket.AF_UNIX) as listening:
        if is_leftover_socket(path):
            path.unlink()
        # Create the socket here with a strict umask. Uvicorn would create a socket that every user
        # can open.
        before = os.umask(0o177)
        try:
            listening.bind(str(path))
        finally:
            os.umask(before)
        # Uvicorn raises the signal again after its shutdown. This handler turns the signal into a
        # normal exit, so that the socket is removed.
        signal.signal(signal.SIGTERM, _exit_on_signal)
        try:
            uvicorn.Server(config).run(sockets=[listening])
        finally:
            path.unlink(missing_ok=True)


def is_leftover_socket(path: Path) -> bool:
    """Return whether the path is a leftover Unix socket on which no process listens."""
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX) as tried:
        return tried.connect_ex(str(path)) == errno.ECONNREFUSED


def _exit_on_signal(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def free_port(host: str) -> int:
    """Return a free TCP port on the host address."""
    with socket.create_server((host, 0)) as found:
        return int(found.getsockname()[1])


class TokenMiddleware:
    """ASGI middleware that refuses each request without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request with the token to the application; answer others with 401."""
        if scope["type"] != "http" or self._has_token(scope):
            await self._app(scope, receive, send)
            return
        told = {
            "error": "expected the header `Authorization: Bearer TOKEN` with this server's token"
        }
        await JSONResponse(told, status_code=401)(scope, receive, send)

    def _has_token(self, scope: Scope) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(given, self._expected)
