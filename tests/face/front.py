"""A proxy for clients that cannot send a token: it adds the token to each request."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: HTTP headers that apply only to a single connection, so the proxy does not forward them.
_OF_A_HOP = frozenset({"connection", "content-length", "transfer-encoding"})


def _handler(port: int, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Write no log."""

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            sent = {k: v for k, v in self.headers.items() if k.lower() not in _OF_A_HOP}
            self.close_connection = True
            # The proxy keeps the host name that the client sent, because the server checks it. Only
            # the port is that of the server.
            name = sent.pop("Host", sent.pop("host", "")).rpartition(":")[0]
            sent |= {"Host": f"{name}:{port}", "Authorization": f"Bearer {token}"}
            back = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            # The client or the server may close the connection in the middle of a stream.
            with closing(back), suppress(OSError, http.client.HTTPException):
                back.request(self.command, self.path, body, sent)
                with back.getresponse() as answer:
                    self._answer(answer)

        def _answer(self, answer: http.client.HTTPResponse) -> None:
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _OF_A_HOP:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while part := answer.read1(65536):
                self.wfile.write(part)
                self.wfile.flush()

        do_GET = do_POST = do_DELETE = _pass_on  # noqa: N815 - names that the base looks for

    return Handler


@contextmanager
def front(port: int, token: str) -> Iterator[int]:
    """Start a proxy for the server on ``port``, and yield the proxy's port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(port, token)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
