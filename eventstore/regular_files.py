"""Read regular files only, up to a maximum size."""

from __future__ import annotations

import os
import stat
from errno import EFBIG, EINVAL, EISDIR
from pathlib import Path
from typing import BinaryIO

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
