"""Open the files of a log privately: address, access rights, regular files only."""

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
    """Return the mode of a private file in the folder, or below the folder."""
    try:
        shared = folder.stat().st_mode & stat.S_IWGRP
    except FileNotFoundError:
        return _OWNER
    return _OWNER | (_GROUP if shared else 0)


def open_lock(path: Path, home: Path | None = None) -> int:
    """Open the lock file at `path`, creating it if needed, and return its descriptor.

    `home` is the folder that decides who shares the file; default: the file's own folder. Removes
    the access of others from an older private file. Raises OSError, also if the path is not a
    regular file.
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


def try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Try to lock an open file without waiting, and return whether the lock was acquired."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_file(path: Path) -> None:
    """Create an empty file that other users cannot open, unless the path exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER)
    except FileExistsError:
        return
    try:
        os.fchmod(descriptor, file_mode(path.parent))
    finally:
        os.close(descriptor)


def make_own_folder(path: Path) -> None:
    """Create a folder and its missing parents for their owner alone, as OpenSSH does.

    Anyone with write access to a parent could replace the folder below it.
    """
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)


def make_folder(path: Path, home: Path | None = None) -> None:
    """Create a folder that other users cannot enter, unless the folder exists.

    `home` is the folder that decides who shares it; without `home` only the owner has access.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    if home is not None and file_mode(home) & _GROUP:
        # The set-group-ID bit of the parent gives new files in the folder to its group.
        path.chmod(0o770 | path.stat().st_mode & stat.S_ISGID)


def is_shared(root: Path) -> bool:
    """Return whether new files in the folder get its group, and the group may write there."""
    try:
        mode = root.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)


def let_group_write(root: Path) -> None:
    """Let this process create files with access for the group, if the root is shared."""
    if is_shared(root):
        os.umask(os.umask(0o077) & ~0o070)


# Flags that prevent waiting for the other end of a pipe and taking over a terminal.
_NEVER_WAIT = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: Maximum bytes of a file that is read completely, more than any file of wfctl has.
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
    """A file that is too large to be read into memory."""


def open_regular(
    path: Path | str, flags: int = os.O_RDONLY, mode: int = 0o666, *, dir_fd: int | None = None
) -> int:
    """Open a regular file and return its descriptor; a relative path starts at `dir_fd`.

    Raises OSError like `os.open`, and NotRegular for a FIFO, a socket or a device.
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


def open_for_reading(path: Path | str) -> BinaryIO:
    """Open a regular file for reading. Raises the errors of `open_regular`."""
    return open(open_regular(path), "rb")


def read_regular(path: Path | str, limit: int | None = None) -> bytes:
    """Return the bytes of a regular file, at most `limit` + 1 of them.

    Raises the errors of `open_regular`. Without a limit, raises TooLarge for a file of more than
    `LARGEST` bytes.
    """
    with open_for_reading(path) as file:
        if limit is not None:
            return file.read(limit + 1)
        require_bearable(file.fileno(), path)
        return file.read(LARGEST + 1)


def require_bearable(descriptor: int, path: Path | str) -> None:
    """Raise TooLarge if the file is too large to be read completely."""
    size = os.fstat(descriptor).st_size
    if size > LARGEST:
        said = f"expected at most {LARGEST >> 20} MiB, found {size:,} bytes"
        raise TooLarge(EFBIG, said, os.fspath(path))


#: Prefixes of a PostgreSQL URL. The first one is the stored form.
SERVERS = ("postgresql+psycopg://", "postgresql://", "postgres://")
_SECRETS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)


def is_server(address: str) -> bool:
    """Return whether the address is a URL of PostgreSQL."""
    return address.startswith(SERVERS)


def libpq_url(address: str) -> str:
    """Return the URL in the form that libpq accepts."""
    return f"postgresql://{_strip_scheme(address)}"


def url_without_password(address: str) -> str:
    """Return the URL without its password. Only this form is printed or stored."""
    login, at, host, query = _split_url(address)
    shown = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] not in _SECRETS]
    after = f"?{urlencode(shown, safe='/', quote_via=quote)}" if shown else ""
    return f"{SERVERS[0]}{login.partition(':')[0]}{at}{host}{after}"


def without_login(address: str, login: str) -> str:
    """Return the URL without its user if that is ``login``, the default user of the server."""
    found, at, host, query = _split_url(address)
    if not at or found.partition(":")[0] != login:
        return address
    return f"{SERVERS[0]}{host}{'?' if query else ''}{query}"


def has_password(address: str) -> bool:
    """Return whether a URL of PostgreSQL contains a password."""
    login, _, _, query = _split_url(address)
    return bool(login.partition(":")[2]) or any(name in _SECRETS for name, _ in parse_qsl(query))


def _split_url(address: str) -> tuple[str, str, str, str]:
    """Return user, @, host and query. As in libpq, the user may contain a `?`."""
    rest = _strip_scheme(address)
    begin = rest.partition("/")[0].find("@") + 1
    place, _, query = rest[begin:].partition("?")
    return *(rest[:begin] + place).rpartition("@"), query


def _strip_scheme(address: str) -> str:
    return address.partition("://")[2]
