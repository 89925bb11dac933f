"""Files of a log: its address, who may read it, regular files alone."""

from __future__ import annotations

import fcntl
import os
import stat
from errno import EFBIG, EINVAL, EISDIR
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qsl, quote, urlencode

_OWNER, _GROUP = 0o600, 0o060
_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def file_mode(folder: Path) -> int:
    """The mode of a private file in the folder, or below it."""
    try:
        shared = folder.stat().st_mode & stat.S_IWGRP
    except FileNotFoundError:
        return _OWNER
    return _OWNER | (_GROUP if shared else 0)


def open_lock(path: Path, home: Path | None = None) -> int:
    """A descriptor of a lock file, which is made where it is not there.

    `home` is the folder that says who shares it, its own without one. An older file of ours that
    others can open is closed to them. Raises OSError, also where it is no regular file.
    """
    wanted = file_mode(home or path.parent)
    descriptor = os.open(path, _LOCK, wanted)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(EINVAL, "expected a regular file", os.fspath(path))
        if stat.S_IMODE(found.st_mode) != wanted and found.st_uid == os.geteuid():
            os.fchmod(descriptor, wanted)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def granted(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Whether a lock on an open file is given at once; it is held then."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_file(path: Path) -> None:
    """Make an empty file that other logins cannot open, unless something is there."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER)
    except FileExistsError:
        return
    try:
        os.fchmod(descriptor, file_mode(path.parent))
    finally:
        os.close(descriptor)


def make_own_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone, as OpenSSH does.

    Anyone who may write in one of them could put another in its place.
    """
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)


def make_folder(path: Path, home: Path | None = None) -> None:
    """Make a folder that other logins cannot enter, unless it is there.

    `home` is the folder that says who shares it; without one it is for its owner alone.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    if home is not None and file_mode(home) & _GROUP:
        # The bit that gives what is made in the folder to its group comes from the folder above.
        path.chmod(0o770 | path.stat().st_mode & stat.S_ISGID)


def is_shared(root: Path) -> bool:
    """Return whether the folder gives what is made in it to its group, which may write there."""
    try:
        mode = root.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)


def let_group_write(root: Path) -> None:
    """Let this process make its files for the group too, if the root is shared."""
    if is_shared(root):
        os.umask(os.umask(0o077) & ~0o070)


# Neither waits for the other end, nor makes a terminal ours.
_NEVER_WAIT = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: Bytes of a file that is read whole: far more than any of ours has, and less than most memories.
LARGEST = 512 << 20
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotRegular(OSError):
    """A FIFO, a device or a socket where a file is expected."""


class TooLarge(OSError):
    """A file that is not read, as it would fill the memory."""


def open_regular(
    path: Path | str, flags: int = os.O_RDONLY, mode: int = 0o666, *, dir_fd: int | None = None
) -> int:
    """A descriptor of a regular file; a relative path is taken from the folder `dir_fd`.

    Raises OSError as `os.open` does, NotRegular for a FIFO, a socket or a device.
    """
    descriptor = os.open(path, flags | _NEVER_WAIT, mode, dir_fd=dir_fd)
    try:
        _require_regular(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(found: os.stat_result, path: Path | str) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), os.fspath(path))
    if kind != stat.S_IFREG:
        said = f"expected a regular file, found {_KINDS.get(kind, 'something else')}"
        raise NotRegular(EINVAL, said, os.fspath(path))


def opened(path: Path | str) -> BinaryIO:
    """A regular file, open for reading. Raises as `open_regular`."""
    return open(open_regular(path), "rb")


def read_regular(path: Path | str, limit: int | None = None) -> bytes:
    """The bytes of a regular file, of a longer one `limit` + 1 at most.

    Raises as `open_regular`; without a limit TooLarge for a file of more than `LARGEST` bytes.
    """
    with opened(path) as file:
        if limit is not None:
            return file.read(limit + 1)
        require_bearable(file.fileno(), path)
        return file.read(LARGEST + 1)


def require_bearable(descriptor: int, path: Path | str) -> None:
    """Raises TooLarge for a file that nobody should read whole."""
    size = os.fstat(descriptor).st_size
    if size > LARGEST:
        said = f"expected {LARGEST >> 20} MiB at most, found {size:,} bytes"
        raise TooLarge(EFBIG, said, os.fspath(path))


#: What a URL of PostgreSQL begins with; the first is the one that is written down.
SERVERS = ("postgresql+psycopg://", "postgresql://", "postgres://")
_SECRETS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)


def is_server(address: str) -> bool:
    """Whether the address is a URL of PostgreSQL."""
    return address.startswith(SERVERS)


def conninfo(address: str) -> str:
    """The URL as libpq takes it."""
    return f"postgresql://{_rest(address)}"


def public(address: str) -> str:
    """The URL without its password: all that is ever shown or kept of it."""
    login, at, host, query = _parts(address)
    shown = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] not in _SECRETS]
    after = f"?{urlencode(shown, safe='/', quote_via=quote)}" if shown else ""
    return f"{SERVERS[0]}{login.partition(':')[0]}{at}{host}{after}"


def without_login(address: str, login: str) -> str:
    """The URL without its user where that is ``login``: the server takes who is logged in."""
    found, at, host, query = _parts(address)
    if not at or found.partition(":")[0] != login:
        return address
    return f"{SERVERS[0]}{host}{'?' if query else ''}{query}"


def has_password(address: str) -> bool:
    """Whether a URL of PostgreSQL holds a password."""
    login, _, _, query = _parts(address)
    return bool(login.partition(":")[2]) or any(name in _SECRETS for name, _ in parse_qsl(query))


def _parts(address: str) -> tuple[str, str, str, str]:
    """Login, @, place and query; as libpq reads it, a `?` may stand in the login."""
    rest = _rest(address)
    begin = rest.partition("/")[0].find("@") + 1
    place, _, query = rest[begin:].partition("?")
    return *(rest[:begin] + place).rpartition("@"), query


def _rest(address: str) -> str:
    return address.partition("://")[2]
