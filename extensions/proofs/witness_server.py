"""Run a witness as an HTTP server.

It answers ``add-checkpoint`` requests, and requests for the last signed checkpoint of a log.
"""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from extensions.proofs.witness import Reply, Witness
from service.errors import NotFound

_LATEST = re.compile(r"/([0-9a-f]{64})/checkpoint", re.ASCII)
_MOST_BYTES = 1_000_000


class WitnessServer(ThreadingHTTPServer):
    """An HTTP server for a witness. It answers requests after it is started.

    With port 0, a free port is selected.
    """

    def __init__(self, witness: Witness, host: str, port: int) -> None:
        self.witness = witness
        super().__init__((host, port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    server: WitnessServer

    def do_POST(self) -> None:
        """Answer an ``add-checkpoint`` request."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > len(str(_MOST_BYTES)):
            self.close_connection = True  # the next request cannot be found
            self._send_reply(Reply(400, f"expected a body of at most {_MOST_BYTES} bytes\n"))
            return
        body = self.rfile.read(int(length))
        known = self.path == "/add-checkpoint"
        missing = Reply(404, "expected /add-checkpoint\n")
        self._send_reply(self.server.witness.answer(body) if known else missing)

    def do_GET(self) -> None:
        """Answer a request for the last signed checkpoint of a log."""
        asked = _LATEST.fullmatch(self.path)
        if asked is None:
            self._send_reply(Reply(404, "expected /<hash of the origin>/checkpoint\n"))
            return
        try:
            self._send_reply(Reply(200, self.server.witness.latest(asked[1])))
        except NotFound as error:
            self._send_reply(Reply(404, f"{error.message}\n"))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Print nothing, because each signature is stored anyway."""

    def _send_reply(self, reply: Reply) -> None:
        content = reply.body.encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
