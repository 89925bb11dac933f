"""Create and open the files and database URLs of a log without exposing them to other users."""

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


def private_file_mode(folder: Path) -> int:
    """Return the access mode for a new private file in the folder.

    The file is for its owner alone, or also for the group if the group may write to the folder.
    """
    try:
        shared = folder.stat().st_mode & stat.S_IWGRP
    except FileNotFoundError:
        return _OWNER
    return _OWNER | (_GROUP if shared else 0)


def open_lock(path: Path, home: Path | None = None) -> int:
    """Open the lock file at `path`, creating it if needed, and return its descriptor.

    `home` is the folder whose access mode decides whether the group may use the file. Its default
    is the folder of the file. An existing file of this user gets the same access mode. Raises
    OSError, also if the path is not a regular file.
    """
    wanted = private_file_mode(home or path.parent)
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


def create_private_file(path: Path) -> None:
    """Create an empty private file, unless the path exists.

    The group gets access to the file only if it may write to the folder.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER)
    except FileExistsError:
        return
    try:
        os.fchmod(descriptor, private_file_mode(path.parent))
    finally:
        os.close(descriptor)


def create_owner_only_folder(path: Path) -> None:
    """Create a folder and its missing parents, accessible only to their owner.

    The parents must be private too: anyone with write access to a parent could replace the folder.
    """
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)


def create_private_folder(path: Path, home: Path | None = None) -> None:
    """Create a private folder, unless the folder exists.

    The group gets access only if it may write to the folder `home`. Without `home`, only the owner
    has access.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    if home is not None and private_file_mode(home) & _GROUP:
        # Keep the set-group-ID bit, which gives new files in the folder to the folder's group.
        path.chmod(0o770 | path.stat().st_mode & stat.S_ISGID)


def is_shared_with_group(root: Path) -> bool:
    """Return whether a group shares the folder.

    In a shared folder, the group may write, and new files belong to the group of the folder.
    """
    try:
        mode = root.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)


def set_umask_for_shared_folder(root: Path) -> None:
    """Change the process's umask to give the group access to new files, if the folder is shared."""
    if is_shared_with_group(root):
        os.umask(os.umask(0o077) & ~0o070)


# Opening a pipe must not wait for the other end, and opening a terminal must not make it the
# terminal of this process.
_NEVER_WAIT = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: Maximum size in bytes of a file that is read completely into memory. No file of wfctl is larger.
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
    """Open a regular file and return its descriptor.

    A relative path starts at the folder `dir_fd`. Raises OSError like `os.open`, and NotRegular for
    a FIFO, a socket or a device.
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
    """Return the bytes of a regular file.

    With a `limit`, return at most `limit` + 1 bytes, and the caller can detect a longer file.
    Without a limit, raise TooLarge for a file of more than `LARGEST` bytes. Also raises the errors
    of `open_regular`.
    """
    with open_for_reading(path) as file:
        if limit is not None:
            return file.read(limit + 1)
        require_file_fits_memory(file.fileno(), path)
        return file.read(LARGEST + 1)


def require_file_fits_memory(descriptor: int, path: Path | str) -> None:
    """Raise TooLarge if the open file is too large to be read into memory."""
    size = os.fstat(descriptor).st_size
    if size > LARGEST:
        said = f"expected at most {LARGEST >> 20} MiB, found {size:,} bytes"
        raise TooLarge(EFBIG, said, os.fspath(path))


#: Prefixes of a PostgreSQL URL. wfctl stores URLs with the first prefix.
SERVERS = ("postgresql+psycopg://", "postgresql://", "postgres://")
_SECRETS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)


def is_postgres_url(address: str) -> bool:
    """Return whether the address is a URL of PostgreSQL."""
    return address.startswith(SERVERS)


def libpq_url(address: str) -> str:
    """Return the database URL in the form that libpq, the PostgreSQL client library, accepts."""
    return f"postgresql://{_strip_scheme(address)}"


def url_without_password(address: str) -> str:
    """Return the database URL without passwords and other secrets, for printing and storing."""
    login, at, host, query = _split_url(address)
    shown = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] not in _SECRETS]
    after = f"?{urlencode(shown, safe='/', quote_via=quote)}" if shown else ""
    return f"{SERVERS[0]}{login.partition(':')[0]}{at}{host}{after}"


def remove_default_url_user(address: str, login: str) -> str:
    """Return the database URL without its user name, if this is the server's default ``login``.

    Return a URL with any other user name unchanged.
    """
    found, at, host, query = _split_url(address)
    if not at or found.partition(":")[0] != login:
        return address
    return f"{SERVERS[0]}{host}{'?' if query else ''}{query}"


def has_password(address: str) -> bool:
    """Return whether a PostgreSQL URL contains a password or another secret."""
    login, _, _, query = _split_url(address)
    return bool(login.partition(":")[2]) or any(name in _SECRETS for name, _ in parse_qsl(query))


def _split_url(address: str) -> tuple[str, str, str, str]:
    """Split a database URL into its user part, the @ sign, the host part and the query.

    As in libpq, the user part may contain a `?`.
    """
    rest = _strip_scheme(address)
    begin = rest.partition("/")[0].find("@") + 1
    place, _, query = rest[begin:].partition("?")
    return *(rest[:begin] + place).rpartition("@"), query


def _strip_scheme(address: str) -> str:
    return address.partition("://")[2]
