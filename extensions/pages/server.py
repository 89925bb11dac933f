"""The HTTP server for the web pages.

It answers only GET requests, for a single user, over a Unix socket or a local port. The standard
library is sufficient, because there are few kinds of requests, and rendering a page takes no more
work than a command.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from ctypes import CDLL
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore
from typing import Any

from extensions.pages import access, render, views
from extensions.pages.access import AccessControl
from extensions.pages.page_data import build_page_look
from extensions.pages.previews import read_figure
from extensions.pages.render import PageRequest, parse_request
from extensions.pages.served_workflows import ChangeWatcher, ServedRoot, ServedWorkflows
from lifecycle.errors import NoWorkflow, UnknownAmendment, UnknownStage
from service.errors import InvalidOption, NotFound
from service.root.paths_within_root import OutsideRoot
from service.root.socket_peer import peer_is_own

#: Class of an error → its HTTP status. All other errors have the status 500.
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (NotFound, 404),
    (NoWorkflow, 404),
    (UnknownStage, 404),
    (UnknownAmendment, 404),
    (OutsideRoot, 404),
    (FileNotFoundError, 404),
    (InvalidOption, 400),
)
#: Maximum number of connections that are answered in parallel, including live pages. Further
#: connections wait.
_AT_ONCE = 256
#: Seconds within which a new connection must send a request. Idle connections would otherwise block
#: others.
_FIRST = 1.0
#: Seconds for a request to arrive completely, and seconds between two messages that keep the
#: connection of a live page open.
_PATIENCE, _SIGN = 30.0, 15.0
#: Maximum number of workflows that a list page watches for changes.
_FOLLOWED = 40

_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_FILE = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'"
_EVERY = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HTML = "text/html; charset=utf-8"


class Pages(ThreadingMixIn, HTTPServer):
    """The HTTP server of the web pages.

    If ``door`` is given, clients need its cookie. Otherwise, only this user and root may connect.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(
        self, shelf: ServedWorkflows, listening: socket.socket, door: AccessControl | None = None
    ) -> None:
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = "localhost", door.port if door else 0
        self.shelf, self.door = shelf, door
        self.pulses = ChangeWatcher(shelf)
        self._room = BoundedSemaphore(_AT_ONCE)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002
        """Return whether the client may connect. Only this user and root may."""
        if self.door is None:
            return peer_is_own(request)
        # Also check the user of a TCP connection. Otherwise, another user could block the server
        # with idle connections.
        return access.find_connection_user(request) in (None, 0, os.geteuid())

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection. Wait first if too many connections are open."""
        with self._room:
            super().process_request_thread(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Print an unexpected error.

        Errors of the connection, such as a closed browser, are ignored.
        """
        error = sys.exception()
        if not isinstance(error, OSError):
            print(f"wfctl: {error!r}", file=sys.stderr, flush=True)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: Pages
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "wfctl", ""
    timeout = _FIRST

    def address_string(self) -> str:
        """Return a fixed name for the client, because a Unix socket has no client address."""
        return "local"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        """Print nothing. The message would contain the secret address of the page."""

    def do_GET(self) -> None:
        """Answer a request with a page, a static file, a figure, or a stream of changes."""
        self.connection.settimeout(_PATIENCE)
        try:
            self._answer_request()
        except (BrokenPipeError, ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - told to the person who asked
            self._send_error_page(
                next((number for kind, number in _STATUSES if isinstance(error, kind)), 500),
                str(getattr(error, "message", error)),
            )

    def _answer_request(self) -> None:
        if not access.is_host_known(self.headers.get("Host")):
            self._send_error_page(
                421,
                (
                    "this server answers only requests for localhost or 127.0.0.1, found another "
                    "host"
                ),
            )
            return
        is_navigation = self.headers.get("Sec-Fetch-Mode") == "navigate"
        if self.headers.get("Sec-Fetch-Site") == "cross-site" and not is_navigation:
            self._send_error_page(
                403,
                (
                    "the request came from another website; this server answers only requests "
                    "from its own pages"
                ),
            )
            return
        request = parse_request(self.path)
        if self.server.door is not None and not self._is_let_in(self.server.door, request):
            return
        self._route_request(request)

    def _is_let_in(self, door: AccessControl, request: PageRequest) -> bool:
        token = request.text("token")
        if token is not None and door.redeem_token(token):
            # Send an intermediate page that sets the cookie. The browser would not send a strict
            # cookie after a navigation from outside.
            self._send_content(
                200,
                _HTML,
                render.render_page("entrance.html.j2"),
                {"Set-Cookie": door.build_cookie_header()},
            )
            return False
        if door.has_valid_cookie(self.headers.get("Cookie")):
            return True
        self._send_error_page(
            403,
            (
                "this address is not valid or was already used. Open the newest address that "
                "`wfctl serve` printed. Each address works only once"
            ),
        )
        return False

    def _route_request(self, request: PageRequest) -> None:
        shelf = self.server.shelf
        match request.parts:
            case ("",):
                self._send_content(200, _HTML, views.render_listing(shelf))
            case ("pages.js",):
                script = files("extensions.pages") / "static" / "pages.js"
                self._send_content(200, "text/javascript; charset=utf-8", script.read_bytes())
            case ("pages.css",):
                self._send_content(200, "text/css; charset=utf-8", render.render_style())
            case ("changes",):
                self._send_changes(shelf.refresh()[:_FOLLOWED])
            case ("w", key, "changes"):
                self._send_changes([shelf.entry(key)])
            case ("w", key, "figure"):
                entry = shelf.entry(key)
                with entry.open() as log:
                    state = shelf.state(entry, log)
                kind, content = read_figure(entry.root, state, request.text("path") or "")
                self._send_content(200, kind, content, {"Content-Security-Policy": _FILE})
            case ("w", key, *_) if len(request.parts) > 2:
                entry = shelf.entry(key)
                with entry.open() as log:
                    content = views.render_requested_page(
                        build_page_look(shelf, entry, log, request)
                    )
                self._send_content(200, _HTML, content)
            case _:
                raise NotFound(
                    f"the server has no page {request.path!r:.200}. Open a page through the list "
                    "of workflows"
                )

    def _send_changes(self, entries: list[ServedRoot]) -> None:
        """Send a message whenever a workflow changes, until the browser disconnects."""
        self.close_connection = True
        self._send_head(200, "text/event-stream", {"Connection": "close"})
        self.wfile.write(b"retry: 1000\n\n")
        seen = self.headers.get("Last-Event-ID", "")
        with self.server.pulses.watch_workflows(entries):
            while True:
                mark = self.server.pulses.wait_for_change(entries, seen, _SIGN)
                if mark in ("", seen):
                    self.wfile.write(b": still here\n\n")
                else:
                    seen = mark
                    self.wfile.write(f"id: {mark}\nevent: change\ndata: {mark}\n\n".encode())

    def _send_error_page(self, status: int, message: str) -> None:
        with suppress(OSError):
            self._send_content(
                status, _HTML, render.render_page("error.html.j2", status=status, message=message)
            )

    def _send_content(
        self, status: int, kind: str, content: bytes, more: dict[str, str] | None = None
    ) -> None:
        self._send_head(status, kind, {"Content-Length": str(len(content)), **(more or {})})
        self.wfile.write(content)

    def _send_head(self, status: int, kind: str, more: dict[str, str]) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Security-Policy": _PAGE, **_EVERY, **more}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def serve_pages(
    shelf: ServedWorkflows,
    listening: socket.socket,
    door: AccessControl | None,
    ready: Callable[[], None],
) -> None:
    """Serve the pages until the process is stopped. Call ``ready`` at the start."""
    # Let all threads share one memory pool. Otherwise, each thread would keep its own free memory.
    # The number is `M_ARENA_MAX` in malloc.h of glibc; other C libraries ignore the call.
    with suppress(OSError, AttributeError):
        CDLL(None).mallopt(-8, 1)
    with Pages(shelf, listening, door) as server:
        ready()
        server.serve_forever(poll_interval=0.5)
