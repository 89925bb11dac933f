"""Who may come in: the login that serves, by a socket of its own or by an address said once."""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import stat
import struct
from collections.abc import Callable
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from threading import Lock

from service.errors import InvalidOption

COOKIE = "wfctl"
_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
#: Bytes that Linux takes for the name of a Unix socket: `man 7 unix`.
_LONGEST = 107


def _runtime_folder() -> Path:
    """Return the folder of this login alone in which the sockets lie; raises `InvalidOption`."""
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")
    folder = base / "wfctl" if _is_own(base) else Path(f"/tmp/wfctl-{os.geteuid()}")  # noqa: S108
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InvalidOption(f"{folder}: cannot be made: {error}; name --socket PATH") from error
    if not _is_own(folder):
        raise InvalidOption(
            f"{folder}: expected a folder that this login alone can enter, found another; "
            "name --socket PATH"
        )
    return folder


def _is_own(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    closed = not found.st_mode & 0o077
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and closed


def usual_socket(what: str) -> Path:
    """Return where the socket of what is served lies: the same each time."""
    return _runtime_folder() / f"serve-{sha256(what.encode()).hexdigest()[:8]}.sock"


def listening(path: Path) -> socket.socket:
    """Return a new socket at the path, of this login alone; raises `InvalidOption`."""
    if len(os.fsencode(path)) > _LONGEST:
        raise InvalidOption(f"--socket: expected a path of at most {_LONGEST} bytes: {path}")
    _free(path)
    made = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        made.bind(str(path))
    except OSError as error:
        made.close()
        raise InvalidOption(f"{path}: cannot be listened on: {error}") from error
    finally:
        os.umask(before)
    made.listen(64)
    return made


def _free(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise InvalidOption(f"--socket: expected nothing at {path}, found a file; name another")
    with socket.socket(socket.AF_UNIX) as asked:
        try:
            asked.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise InvalidOption(f"{path}: {error}; name another with --socket") from error
    raise InvalidOption(f"{path}: somebody serves here already; name another with --socket")


def peer_is_own(connection: socket.socket) -> bool:
    """Whether the other end of a Unix socket is this login, or root."""
    size = struct.calcsize("3i")
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, user, _ = struct.unpack("3i", found)
    return user in (0, os.geteuid())


def owner_of(connection: socket.socket) -> int | None:
    """Return the login at the other end of a connection over loopback; None if nobody tells.

    By the kernel's table of sockets, as proc(5) has it: both addresses, and the user behind them.
    """
    try:
        here, there = (_in_table(one()) for one in (connection.getsockname, connection.getpeername))
        with Path("/proc/net/tcp").open(encoding="ascii") as table:
            for words in map(str.split, table):
                if words[1:3] == [there, here]:
                    return int(words[7])
    except (OSError, ValueError, IndexError):
        pass
    return None


def _in_table(address: tuple[str, int]) -> str:
    host, port = address
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"


def is_host_known(host: str | None) -> bool:
    """Whether a request names this machine as a browser here, or at the end of a tunnel, does.

    Another name is that of a page elsewhere which had itself resolved to this machine.
    """
    if host is None:
        return False
    name, colon, port = host.rpartition(":")
    name = name if colon and port.isdecimal() else host
    return name.lower() in _NAMES


class Door:
    """The way in over a port: an address that works once gives a cookie that lasts.

    ``tell`` is given each new address. The cookie's key lies in this login's runtime folder, so
    that a page finds the server again after a restart.
    """

    def __init__(self, port: int, tell: Callable[[str], None]) -> None:
        self.port, self._tell, self._lock = port, tell, Lock()
        key = _kept_key(_runtime_folder() / f"port-{port}.key")
        self._cookie = hmac.new(key, b"wfctl pages", "sha256").hexdigest()
        self._renew()

    def lets_in(self, header: str | None) -> bool:
        """Whether a ``Cookie`` header holds what was given out."""
        try:
            found = SimpleCookie(header or "").get(f"{COOKIE}{self.port}")
        except CookieError:
            return False
        shown = found.value if found is not None else ""
        return hmac.compare_digest(shown.encode(), self._cookie.encode())

    def opens(self, token: str) -> bool:
        """Whether the token is the one that was said last; it is of no use afterwards."""
        with self._lock:
            if not hmac.compare_digest(token.encode(), self._token.encode()):
                return False
            self._renew()
            return True

    def set_cookie(self) -> str:
        """Return the header that gives the cookie, which no script and no other site gets."""
        return f"{COOKIE}{self.port}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"

    def _renew(self) -> None:
        self._token = secrets.token_urlsafe(24)
        self._tell(f"http://127.0.0.1:{self.port}/?token={self._token}")


def _kept_key(path: Path) -> bytes:
    """Return the key kept at a path, creating it if needed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "r+b") as file:
        found = file.read(64)
        if len(found) == 32:
            return found
        made = secrets.token_bytes(32)
        file.seek(0)
        file.truncate()
        file.write(made)
        return made
