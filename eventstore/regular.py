"""Opening files without ever waiting for somebody at the other end of a pipe or a device."""

import os
import stat
from errno import EFBIG, EINVAL, EISDIR
from pathlib import Path
from typing import BinaryIO

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
