"""The server: GET alone, for the login that started it, over a Unix socket or a port of loopback.

Of the standard library: what it is asked is small, and a page costs no more than one command does.
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

from lifecycle.errors import NoWorkflow, UnknownAmendment, UnknownStage
from pages import entrance, render, views
from pages.entrance import Door
from pages.looking import looked
from pages.render import PageRequest, figure, parsed
from pages.shelf import Pulses, ServedRoot, Shelf
from service.errors import InvalidOption, NotFound
from service.root.disk import OutsideRoot

#: An error, and the number of HTTP with which it is answered; any other: 500.
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (NotFound, 404),
    (NoWorkflow, 404),
    (UnknownStage, 404),
    (UnknownAmendment, 404),
    (OutsideRoot, 404),
    (FileNotFoundError, 404),
    (InvalidOption, 400),
)
#: Requests that are answered at once, pages that are followed among them; more wait.
_AT_ONCE = 256
#: Seconds that a request may take to come, and after which a followed page is sent a sign of life.
_PATIENCE, _SIGN = 30.0, 15.0
#: Workflows of a list that are followed.
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
    """Serves a shelf; with a door to those that came through it, else to this login's own."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, shelf: Shelf, listening: socket.socket, door: Door | None = None) -> None:
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = "localhost", door.port if door else 0
        self.shelf, self.door = shelf, door
        self.pulses = Pulses(shelf)
        self._room = BoundedSemaphore(_AT_ONCE)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002
        """Whether the other end may ask: only this login and root."""
        if self.door is None:
            return entrance.peer_is_own(request)
        # Another login could take all the room by connections that ask nothing.
        return entrance.owner_of(request) in (None, 0, os.geteuid())

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one connection, where there is room for it."""
        with self._room:
            super().process_request_thread(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Say what nobody foresaw; a browser that leaves is no error."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print(f"wfctl: {error!r}", file=sys.stderr, flush=True)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Pages
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "wfctl", ""
    timeout = _PATIENCE

    def address_string(self) -> str:
        """Return who asks; a Unix socket has no address."""
        return "local"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class has it
        """Say nothing: the log of a page would hold its address."""

    def do_GET(self) -> None:
        """Answer with a page, a file of ours, a figure, or what changes."""
        try:
            self._answer()
        except (BrokenPipeError, ConnectionError, TimeoutError):
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - told to the person who asked
            self._fail(
                next((number for kind, number in _STATUSES if isinstance(error, kind)), 500),
                str(getattr(error, "message", error)),
            )

    def _answer(self) -> None:
        if not entrance.is_host_known(self.headers.get("Host")):
            self._fail(421, "expected a request for localhost or 127.0.0.1, found another host")
            return
        is_navigation = self.headers.get("Sec-Fetch-Mode") == "navigate"
        if self.headers.get("Sec-Fetch-Site") == "cross-site" and not is_navigation:
            self._fail(403, "expected a request of this page, found one of another site")
            return
        request = parsed(self.path)
        if self.server.door is not None and not self._is_let_in(self.server.door, request):
            return
        self._route(request)

    def _is_let_in(self, door: Door, request: PageRequest) -> bool:
        token = request.text("token")
        if token is not None and door.opens(token):
            # A page in between: a browser sends the cookie only to what was asked for from here.
            self._send(
                200, _HTML, render.page("entrance.html.j2"), {"Set-Cookie": door.set_cookie()}
            )
            return False
        if door.lets_in(self.headers.get("Cookie")):
            return True
        self._fail(403, "expected the address that `wfctl serve` said last; each works once")
        return False

    def _route(self, request: PageRequest) -> None:
        shelf = self.server.shelf
        match request.parts:
            case ("",):
                self._send(200, _HTML, views.listing(shelf))
            case ("pages.js",):
                script = files("pages") / "static" / "pages.js"
                self._send(200, "text/javascript; charset=utf-8", script.read_bytes())
            case ("pages.css",):
                self._send(200, "text/css; charset=utf-8", render.style())
            case ("changes",):
                self._follow(shelf.refresh()[:_FOLLOWED])
            case ("w", key, "changes"):
                self._follow([shelf.entry(key)])
            case ("w", key, "figure"):
                entry = shelf.entry(key)
                with entry.open() as log:
                    state = shelf.state(entry, log)
                kind, content = figure(entry.root, state, request.text("path") or "")
                self._send(200, kind, content, {"Content-Security-Policy": _FILE})
            case ("w", key, *_) if len(request.parts) > 2:
                entry = shelf.entry(key)
                with entry.open() as log:
                    content = views.page_of(looked(shelf, entry, log, request))
                self._send(200, _HTML, content)
            case _:
                raise NotFound(f"no page {request.path!r:.200}; the list leads to all there are")

    def _follow(self, entries: list[ServedRoot]) -> None:
        """Send a line whenever the mark of the workflows changes, until the browser leaves."""
        self.close_connection = True
        self._head(200, "text/event-stream", {"Connection": "close"})
        self.wfile.write(b"retry: 1000\n\n")
        seen = self.headers.get("Last-Event-ID", "")
        with self.server.pulses.heard(entries):
            while True:
                mark = self.server.pulses.after(entries, seen, _SIGN)
                if mark in ("", seen):
                    self.wfile.write(b": still here\n\n")
                else:
                    seen = mark
                    self.wfile.write(f"id: {mark}\nevent: change\ndata: {mark}\n\n".encode())

    def _fail(self, status: int, message: str) -> None:
        with suppress(OSError):
            self._send(status, _HTML, render.page("error.html.j2", status=status, message=message))

    def _send(
        self, status: int, kind: str, content: bytes, more: dict[str, str] | None = None
    ) -> None:
        self._head(status, kind, {"Content-Length": str(len(content)), **(more or {})})
        self.wfile.write(content)

    def _head(self, status: int, kind: str, more: dict[str, str]) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Security-Policy": _PAGE, **_EVERY, **more}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def serve(
    shelf: Shelf, listening: socket.socket, door: Door | None, ready: Callable[[], None]
) -> None:
    """Serve until somebody ends it."""
    # All threads take memory from one place: each would keep what it has taken for itself. The
    # number is `M_ARENA_MAX` of glibc's malloc.h; elsewhere nothing is done.
    with suppress(OSError, AttributeError):
        CDLL(None).mallopt(-8, 1)
    with Pages(shelf, listening, door) as server:
        ready()
        server.serve_forever(poll_interval=0.5)
