"""A witness over HTTP: ``add-checkpoint``, and what it cosigned last."""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from service.errors import NotFound
from service.proofs.witness import Reply, Witness

_LATEST = re.compile(r"/([0-9a-f]{64})/checkpoint", re.ASCII)
_MOST_BYTES = 1_000_000


class WitnessServer(ThreadingHTTPServer):
    """A server that is bound, and answers once it is run; port 0 takes a free one."""

    def __init__(self, witness: Witness, host: str, port: int) -> None:
        self.witness = witness
        super().__init__((host, port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    server: WitnessServer

    def do_POST(self) -> None:
        """Answer ``add-checkpoint``."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > len(str(_MOST_BYTES)):
            self.close_connection = True  # what follows cannot be told from a next request
            self._send(Reply(400, f"expected a body of at most {_MOST_BYTES} bytes\n"))
            return
        body = self.rfile.read(int(length))
        known = self.path == "/add-checkpoint"
        missing = Reply(404, "expected /add-checkpoint\n")
        self._send(self.server.witness.answer(body) if known else missing)

    def do_GET(self) -> None:
        """Answer what was cosigned last."""
        asked = _LATEST.fullmatch(self.path)
        if asked is None:
            self._send(Reply(404, "expected /<hash of the origin>/checkpoint\n"))
            return
        try:
            self._send(Reply(200, self.server.witness.latest(asked[1])))
        except NotFound as error:
            self._send(Reply(404, f"{error.message}\n"))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing of each request: what was cosigned is kept."""

    def _send(self, reply: Reply) -> None:
        content = reply.body.encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
