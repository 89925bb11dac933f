"""Write files so that a crash at any time leaves either the old or the new file complete."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from eventstore.event import Instant, format_instant
from eventstore.private_files import open_lock, try_lock
from eventstore.regular_files import open_regular, read_regular, require_file_fits_memory
from service.errors import RootBusy

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Maximum number of characters of the original file name in the name of its temporary file.
_NAME = 200

Mark = list[int]
"""Inode, size in bytes, and times of the last change of content and of status, in ns."""


def file_change_fingerprint(status: os.stat_result) -> Mark:
    """Return file metadata that change whenever the file is written or touched.

    These are the inode, the size, and the times of the last changes.
    """
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def content_of(path: Path) -> bytes | None:
    """Return the content of a file, or None if the file does not exist."""
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file ``path`` by a file with this content, safely in case of a crash.

    The steps are: write a temporary file, fsync, rename it, and fsync the folder.
    """
    write_streamed(path, (content,))


def write_streamed(path: Path, chunks: Iterable[bytes]) -> None:
    """Write the chunks to ``path`` one by one, with the guarantees of `write_whole`."""
    with open_replacement(path) as file:
        file.writelines(chunks)


@contextmanager
def open_replacement(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Yield a new file, which replaces ``path`` when the block ends without an error."""
    with _prepare_temporary_file(path, mode) as (file, temporary):
        yield file
    temporary.replace(path)
    sync_folder(path.parent)


def replace_file_if_unchanged(path: Path, content: bytes, found: bytes | None) -> bool:
    """Replace a file as `write_whole` does, but only if its content is still ``found``.

    Return whether the file was replaced.
    """
    with _prepare_temporary_file(path) as (file, temporary):
        file.write(content)
    if content_of(path) != found:
        temporary.unlink()
        return False
    temporary.replace(path)
    sync_folder(path.parent)
    return True


@contextmanager
def _prepare_temporary_file(path: Path, mode: int = 0o666) -> Iterator[tuple[IO[bytes], Path]]:
    """Yield a new temporary file in the folder of ``path``, and its path.

    When the block ends, the file is written to the disk. After an error, it is removed. Its name is
    unpredictable, and an existing file or link is never opened.
    """
    temporary = path.with_name(f".{path.name[:_NAME]}.{os.urandom(8).hex()}.tmp")
    descriptor = os.open(temporary, _NEW, mode)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            yield file, temporary
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = os.fspath(path)  # the error of a descriptor names no file
        raise


def append_if_unchanged(path: Path, content: bytes, mark: Mark | None) -> Mark | None:
    """Append ``content`` to a file, write it to the disk, and return the new metadata.

    ``mark`` is the metadata at the time of reading, or None if the file did not exist. Return None
    if another program has written to the file since then. The caller must then read the file again.
    """
    if mark is not None and (mark := _break_hard_links(path, mark)) is None:
        return None
    descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
    try:
        before = os.fstat(descriptor)
        if before.st_size if mark is None else file_change_fingerprint(before) != mark:
            return None
        _write_all(descriptor, content)
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if mark is None:
        sync_folder(path.parent)
    return (
        file_change_fingerprint(after) if after.st_size == before.st_size + len(content) else None
    )


def overwrite_in_place(path: Path, content: bytes, mark: Mark | None) -> Mark | None:
    """Overwrite a file in place with ``content``, and return its new metadata.

    The file is not replaced, because other programs may have it open. If it is too long, it is cut.
    Then its bytes are overwritten, and the rest is appended. At no time is the file shorter than
    both the old and the new content. ``mark`` is the metadata at the time of reading, as in
    `append`. Return None if another program has changed the file. Bytes that it appended are kept
    at the end. After a crash, the file may contain the start of ``content`` followed by old bytes.
    """
    if mark is None:
        return append_if_unchanged(path, content, None)
    mark = _break_hard_links(path, mark)
    if mark is None:
        return None
    descriptor = open_regular(path, os.O_RDWR | os.O_NOFOLLOW)
    with open(descriptor, "r+b", buffering=0) as file:  # noqa: PTH123 - a descriptor has no path
        before = os.fstat(file.fileno())
        if file_change_fingerprint(before) != mark:
            return None
        require_file_fits_memory(descriptor, path)
        same = common_start(file.read(), content)
        if os.fstat(file.fileno()).st_size != before.st_size:
            return None
        kept = min(before.st_size, len(content))
        if before.st_size > kept:
            file.truncate(kept)
        file.seek(same)
        _write_all(file.fileno(), content[same:kept])
        after = os.fstat(file.fileno())
    return (
        append_if_unchanged(path, content[kept:], file_change_fingerprint(after))
        if after.st_size == kept
        else None
    )


def _break_hard_links(path: Path, mark: Mark) -> Mark | None:
    """Replace a file that has several hard links by a copy, and return its new metadata.

    The other links, for example in a backup, then keep the old content. Return None if another
    program has changed the file.
    """
    found = path.lstat()
    if found.st_nlink < 2:
        return mark
    content = content_of(path)
    if (
        file_change_fingerprint(found) != mark
        or content is None
        or not replace_file_if_unchanged(path, content, content)
    ):
        return None
    return file_change_fingerprint(path.lstat())


def common_start(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the length of the longest common prefix of two sequences."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
    os.fsync(descriptor)


def config_folder() -> Path:
    """Return the folder of this user account's approvals, outside every workflow folder."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path(os.environ.get("HOME", "~")) / ".config")
    return Path(base).expanduser() / "wfctl"


def state_folder() -> Path:
    """Return the folder of this account's records, outside every workflow folder."""
    home = Path(os.environ.get("HOME", "~"))
    base = os.environ.get("XDG_STATE_HOME") or str(home / ".local/state")
    return Path(base).expanduser() / "wfctl"


def sync_folder(folder: Path) -> None:
    """Write changes of the names in ``folder``, such as renames, to the disk (fsync)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def hold_lock(path: Path, timeout: float = 30.0) -> Iterator[None]:
    """Hold an exclusive lock on the file ``path`` during the block.

    Raises `RootBusy` if the lock is not free after ``timeout`` seconds.
    """
    descriptor = open_lock(path)
    try:
        deadline = time.monotonic() + timeout
        while not try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise RootBusy(path, timeout)
            time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


Clock = Callable[[], datetime]
"""Returns the current time, timezone-aware, at the local offset."""


def system_clock() -> datetime:
    """Return the current time with the offset of the local time zone."""
    return datetime.now().astimezone()


def system_instant() -> Instant:
    """Return the current time in the form that an event store needs."""
    second, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    begun, offset = _second_texts(second)
    return f"{begun}{nanoseconds // 1000:06}Z", offset


@lru_cache(maxsize=1)
def _second_texts(second: int) -> Instant:
    """Return the common text of all times within a second, and the time zone's offset."""
    text, offset = format_instant(datetime.fromtimestamp(second, UTC).astimezone())
    return text[:20], offset


def utc_text(moment: datetime) -> str:
    """Return a time as ``YYYY-MM-DDTHH:MM:SS.ffffffZ``, as the log stores it."""
    return format_instant(moment)[0]


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562). Such ids are unique, and ordered by time."""
    from uuid_utils import uuid7  # imported only here, because the import is slow

    return str(uuid7())
