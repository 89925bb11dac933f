"""Restrict access to the web pages to the user who runs the server.

Access is through a Unix socket, or through a port with an address that works only once.
"""

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
#: Maximum length in bytes of a Unix socket path on Linux; see `man 7 unix`.
_LONGEST = 107


def _runtime_folder() -> Path:
    """Return the private folder of this user for sockets, creating it if needed.

    Raises `InvalidOption` if the folder cannot be created or is not private.
    """
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")
    folder = base / "wfctl" if _is_own(base) else Path(f"/tmp/wfctl-{os.geteuid()}")  # noqa: S108
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InvalidOption(
            f"the folder {folder} cannot be created: {error}. Choose another path with --socket "
            "PATH."
        ) from error
    if not _is_own(folder):
        raise InvalidOption(
            f"the folder {folder} must belong to your user account and be closed to other users. "
            "Choose another path with --socket PATH."
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
    """Return the default socket path for the served workflows, which is always the same."""
    return _runtime_folder() / f"serve-{sha256(what.encode()).hexdigest()[:8]}.sock"


def open_socket(path: Path) -> socket.socket:
    """Create a Unix socket that only this user can open, and listen on it.

    Raises `InvalidOption` if the path is too long or in use, or if the socket cannot be created.
    """
    if len(os.fsencode(path)) > _LONGEST:
        raise InvalidOption(
            f"the option --socket accepts a path of at most {_LONGEST} bytes, but the path {path} "
            "is longer. Choose a shorter path."
        )
    _remove_unused_socket(path)
    made = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        made.bind(str(path))
    except OSError as error:
        made.close()
        raise InvalidOption(f"wfctl cannot listen on the socket {path}: {error}") from error
    finally:
        os.umask(before)
    made.listen(64)
    return made


def _remove_unused_socket(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise InvalidOption(
            f"the option --socket names the path {path}, but a file already exists at this path. "
            "Choose another path."
        )
    with socket.socket(socket.AF_UNIX) as asked:
        try:
            asked.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise InvalidOption(
                f"wfctl cannot use the socket {path}: {error}. Choose another path with --socket "
                "PATH."
            ) from error
    raise InvalidOption(
        f"another server already uses the socket {path}. Choose another path with --socket PATH."
    )


def find_connection_user(connection: socket.socket) -> int | None:
    """Return the user id at the other end of a local TCP connection, or None if unknown.

    The user is found in the kernel's table of sockets (see proc(5)), by the two addresses of the
    connection.
    """
    try:
        here, there = (
            _format_kernel_address(one())
            for one in (connection.getsockname, connection.getpeername)
        )
        with Path("/proc/net/tcp").open(encoding="ascii") as table:
            for words in map(str.split, table):
                if words[1:3] == [there, here]:
                    return int(words[7])
    except (OSError, ValueError, IndexError):
        pass
    return None


def _format_kernel_address(address: tuple[str, int]) -> str:
    host, port = address
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"


def is_host_known(host: str | None) -> bool:
    """Return whether the ``Host`` header of a request names this machine.

    Any other name may come from a malicious web page whose domain resolves to this machine.
    """
    if host is None:
        return False
    name, colon, port = host.rpartition(":")
    name = name if colon and port.isdecimal() else host
    return name.lower() in _NAMES


class AccessControl:
    """Access control for a port: an address that works once sets a lasting cookie.

    ``tell`` is called with each new address. The key for the cookie is kept in the user's runtime
    folder, so that open pages can reconnect after a restart of the server.
    """

    def __init__(self, port: int, tell: Callable[[str], None]) -> None:
        self.port, self._tell, self._lock = port, tell, Lock()
        key = _load_or_create_key(_runtime_folder() / f"port-{port}.key")
        self._cookie = hmac.new(key, b"wfctl pages", "sha256").hexdigest()
        self._renew_token()

    def has_valid_cookie(self, header: str | None) -> bool:
        """Return whether a ``Cookie`` header contains the cookie of this server."""
        try:
            found = SimpleCookie(header or "").get(f"{COOKIE}{self.port}")
        except CookieError:
            return False
        shown = found.value if found is not None else ""
        return hmac.compare_digest(shown.encode(), self._cookie.encode())

    def redeem_token(self, token: str) -> bool:
        """Return whether the token is valid.

        A valid token is replaced, so that it works only once.
        """
        with self._lock:
            if not hmac.compare_digest(token.encode(), self._token.encode()):
                return False
            self._renew_token()
            return True

    def build_cookie_header(self) -> str:
        """Return the header that sets the cookie.

        Scripts and other websites cannot use this cookie.
        """
        return f"{COOKIE}{self.port}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"

    def _renew_token(self) -> None:
        self._token = secrets.token_urlsafe(24)
        self._tell(f"http://127.0.0.1:{self.port}/?token={self._token}")


def _load_or_create_key(path: Path) -> bytes:
    """Return the secret key in a file. If there is no key, create and store one."""
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
