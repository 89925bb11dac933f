"""A connection between a store and its server that tests can cut after any byte."""

import socket
import ssl
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

UP, DOWN = "to the server", "to the client"


class Wire:
    """Forwards and counts bytes, and cuts the connection once at a given byte.

    Clients connect to a socket in a folder or to a local port: with `tcp` without encryption, with
    `tls` as a TLS server.
    """

    def __init__(
        self, server: Path, *, tcp: bool = False, tls: ssl.SSLContext | None = None
    ) -> None:
        self._server = str(server / ".s.PGSQL.5432")
        self._folder = tempfile.TemporaryDirectory(prefix="wire-")
        self._tls = tls
        self._listener = socket.socket(socket.AF_INET if tcp or tls else socket.AF_UNIX)
        beginning = ("127.0.0.1", 0) if tcp or tls else f"{self._folder.name}/.s.PGSQL.5432"
        self._listener.bind(beginning)
        self._listener.listen()
        self._cut_after: dict[str, int] = {}
        self.passed = {UP: 0, DOWN: 0}

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._folder.cleanup()

    def url(self, direct: str, folder: Path) -> str:
        """Return the URL of a database that uses this connection."""
        place = quote(self._folder.name)
        if self._listener.family == socket.AF_INET:
            place = f"localhost&port={self._listener.getsockname()[1]}"
        return direct.replace(f"host={folder}", f"host={place}")

    def count(self) -> None:
        """Set the counts of forwarded bytes to zero."""
        self.passed = {UP: 0, DOWN: 0}

    def cut(self, direction: str, after: int) -> None:
        """Cut the connection after the given number of bytes in a direction."""
        self.count()
        self._cut_after = {direction: after}

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                client = _secured(client, self._tls) if self._tls else client
            except OSError:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            for direction, source, sink in ((UP, client, server), (DOWN, server, client)):
                pump = threading.Thread(
                    target=self._pass_on, args=(direction, source, sink), daemon=True
                )
                pump.start()

    def _pass_on(self, direction: str, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                data, cut = self._allowed(direction, data)
                sink.sendall(data)
                if cut:
                    break
        except OSError:
            return
        finally:
            for end in (source, sink):
                _hang_up(end)

    def _allowed(self, direction: str, data: bytes) -> tuple[bytes, bool]:
        """Return the part of the data that passes, and whether the connection is then cut."""
        limit = self._cut_after.get(direction)
        before = self.passed[direction]
        self.passed[direction] += len(data)
        if limit is None or before + len(data) <= limit:
            return data, False
        self._cut_after = {}
        return data[: limit - before], True


def _secured(client: socket.socket, tls: ssl.SSLContext) -> socket.socket:
    """Accept a request for TLS, which is eight bytes long."""
    client.recv(8, socket.MSG_WAITALL)
    client.sendall(b"S")
    return tls.wrap_socket(client, server_side=True)


def _hang_up(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
    finally:
        end.close()
