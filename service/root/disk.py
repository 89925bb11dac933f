"""Writing files so that a crash at any point leaves the old one or the new one, whole."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from errno import ELOOP, ENOTDIR
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from eventstore.event import Instant, instant
from eventstore.private import (
    LARGEST,
    granted,
    open_lock,
    open_regular,
    read_regular,
    require_bearable,
)
from lifecycle.words.values import is_below
from service.errors import RootBusy, ServiceError
from wording import Worded

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: So much of a name goes into that of its temporary file, which must not be too long for a disk.
_NAME = 200

Mark = list[int]
"""Inode, size in bytes, times of the last change to content and to anything, in ns."""


def mark_of(status: os.stat_result) -> Mark:
    """Return what changes whenever a file is touched."""
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def content_of(path: Path) -> bytes | None:
    """Return the file's bytes, None if it is missing."""
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None


def write_whole(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path``: temporary file, fsync, rename, fsync of the folder."""
    write_streamed(path, (content,))


def write_streamed(path: Path, chunks: Iterable[bytes]) -> None:
    """Put the chunks at ``path`` as `write_whole` does, one at a time."""
    with replaced(path) as file:
        file.writelines(chunks)


@contextmanager
def replaced(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Give a file to write to, which becomes ``path`` once it is whole and durable."""
    with _prepared(path, mode) as (file, temporary):
        yield file
    temporary.replace(path)
    sync_folder(path.parent)


def write_over(path: Path, content: bytes, found: bytes | None) -> bool:
    """As `write_whole`, where the file still holds what was ``found``; else do nothing."""
    with _prepared(path) as (file, temporary):
        file.write(content)
    if content_of(path) != found:
        temporary.unlink()
        return False
    temporary.replace(path)
    sync_folder(path.parent)
    return True


@contextmanager
def _prepared(path: Path, mode: int = 0o666) -> Iterator[tuple[IO[bytes], Path]]:
    """Give a new file beside ``path``, and make it durable; after an error it is gone.

    Nobody can know its name before, and a file or a link that is there is never opened.
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
            error.filename = os.fspath(path)  # a descriptor names no file
        raise


def append(path: Path, content: bytes, mark: Mark | None) -> Mark | None:
    """Append ``content`` in place and make it durable; return the file's mark then.

    ``mark`` is that of the file as it was read, None if it was missing. None is returned where
    others wrote to it in between: what stands where must be looked at again.
    """
    descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
    try:
        before = os.fstat(descriptor)
        if before.st_size if mark is None else mark_of(before) != mark:
            return None
        _write(descriptor, content)
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if mark is None:
        sync_folder(path.parent)
    return mark_of(after) if after.st_size == before.st_size + len(content) else None


def restore(path: Path, content: bytes, mark: Mark | None) -> Mark | None:
    """Make the file hold ``content``, in place, for others have it open; return its mark then.

    It is cut to its new length at most, then written over, then appended to: nobody sees it shorter
    than it was or will be. ``mark`` as in `append`; None is returned where it is not so any more,
    or where others appended meanwhile: their bytes stand at its end then. A crash leaves a
    beginning of ``content``, and behind it what was there.
    """
    if mark is None:
        return append(path, content, None)
    descriptor = open_regular(path, os.O_RDWR | os.O_NOFOLLOW)
    with open(descriptor, "r+b", buffering=0) as file:  # noqa: PTH123 - a descriptor has no path
        before = os.fstat(file.fileno())
        if mark_of(before) != mark:
            return None
        require_bearable(descriptor, path)
        same = common_start(file.read(), content)
        if os.fstat(file.fileno()).st_size != before.st_size:
            return None
        kept = min(before.st_size, len(content))
        if before.st_size > kept:
            file.truncate(kept)
        file.seek(same)
        _write(file.fileno(), content[same:kept])
        after = os.fstat(file.fileno())
    return append(path, content[kept:], mark_of(after)) if after.st_size == kept else None


def common_start(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return how many items both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
    os.fsync(descriptor)


def config_folder() -> Path:
    """Return where this login keeps what it agreed to, outside every root."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path(os.environ.get("HOME", "~")) / ".config")
    return Path(base).expanduser() / "wfctl"


def state_folder() -> Path:
    """Return where this login keeps what it knows, outside every root and every database."""
    home = Path(os.environ.get("HOME", "~"))
    base = os.environ.get("XDG_STATE_HOME") or str(home / ".local/state")
    return Path(base).expanduser() / "wfctl"


def sync_folder(folder: Path) -> None:
    """Make renames and new names in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, timeout: float = 30.0) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; raises `RootBusy` after ``timeout`` seconds."""
    descriptor = open_lock(path)
    try:
        deadline = time.monotonic() + timeout
        while not granted(descriptor):
            if time.monotonic() >= deadline:
                raise RootBusy(path, timeout)
            time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


Clock = Callable[[], datetime]
"""Returns the time now, aware, at the local offset."""


def system_clock() -> datetime:
    """Return the time now at the local offset."""
    return datetime.now().astimezone()


def system_instant() -> Instant:
    """Return the time now as a store records it."""
    second, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    begun, offset = _in_second(second)
    return f"{begun}{nanoseconds // 1000:06}Z", offset


@lru_cache(maxsize=1)
def _in_second(second: int) -> Instant:
    """Return what all times of a second since the epoch begin with, and the local offset then."""
    text, offset = instant(datetime.fromtimestamp(second, UTC).astimezone())
    return text[:20], offset


def utc_text(moment: datetime) -> str:
    """Return ``YYYY-MM-DDTHH:MM:SS.ffffffZ``, the form in which the log holds times."""
    return instant(moment)[0]


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562): ordered by time, unique without coordination."""
    from uuid_utils import uuid7  # its import costs more than most commands need

    return str(uuid7())


class OutsideRoot(Worded, ServiceError):
    """A path that leads out of the root, by its words or by a link on the way."""

    code = "outside_root"
    text = (
        "{path!r:.200}: expected a path that stays below {root}, found one that {found}; "
        "nothing there was read or written. Take away the link, or name another path."
    )
    untold = ("found",)
    root: Path
    path: str
    found: str


def below(root: Path, path: str) -> Path:
    """Return where a path relative to ``root`` is; raises `OutsideRoot`.

    A link that stays below the root is resolved. To open it, `within` looks and opens
    in one step.
    """
    real = real_place(root, path)
    place = root / path
    return Path(os.path.realpath(root)) / real if place.is_symlink() else place


def real_place(root: Path, path: str) -> Path:
    """Return where a path leads to, all links followed, relative to the real root.

    Raises `OutsideRoot`.
    """
    if not is_below(path):
        raise OutsideRoot(root, path, "is absolute, leads upwards or holds a control character")
    real, top = _real(root / path), Path(os.path.realpath(root))
    if real is None:
        raise OutsideRoot(root, path, "became a link, or ceased to be one, while it was looked at")
    if not real.is_relative_to(top):
        raise OutsideRoot(root, path, f"leads out of it, to {real}")
    return real.relative_to(top)


def seen_from(folder: Path, path: str) -> Path:
    """Return the place that a path names from a folder, by its words alone."""
    return Path(os.path.normpath(folder / path))


def _real(path: Path) -> Path | None:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):  # exchanged between two steps; a NUL
        return None


def is_inside(place: Path, folder: Path) -> bool:
    """Whether a path, all links followed, is the folder or lies in it; links in a circle do not."""
    real = _real(place)
    return real is not None and real.is_relative_to(os.path.realpath(folder))


_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def open_within(root: Path, path: str) -> int:
    """Return a descriptor, for reading, of a regular file at a path relative to ``root``.

    Raises `OutsideRoot`, and OSError and NotRegular as `open_regular` does.
    """
    if "/" not in path and is_below(path):
        # The root itself is what the caller chose: there is no folder on the way.
        try:
            return open_regular(root / path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != ELOOP:
                raise
    with folder_within(root, path) as (folder, name):
        try:
            return open_regular(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        except OSError as error:
            error.filename = str(root / path)
            if error.errno != ELOOP:
                raise
            raise OutsideRoot(root, path, "became a link while it was opened") from error


def content_within(root: Path, path: str, limit: int | None = None) -> bytes | None:
    """Return the bytes of a file below ``root``, None if it is missing. Raises `OutsideRoot`.

    Of a file longer than ``limit`` come one more; without it TooLarge is raised for one that would
    fill the memory.
    """
    try:
        descriptor = open_within(root, path)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if limit is None:
            require_bearable(descriptor, root / path)
        return file.read((LARGEST if limit is None else limit) + 1)


@contextmanager
def folder_within(root: Path, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Give the folder that a path below ``root`` lies in, open, and the path's last name in it.

    ``make``: folders that are missing are made. Raises `OutsideRoot`, and OSError.
    """
    folder, name = _found(root, path, make)
    try:
        yield folder, name
    finally:
        os.close(folder)


@contextmanager
def place_within(root: Path, path: str, *, make: bool = False) -> Iterator[Path]:
    """Give a path to write at that leads to the same folder, whatever becomes of its name."""
    with folder_within(root, path, make=make) as (folder, name):
        yield Path(f"/proc/self/fd/{folder}/{name}")


def _found(root: Path, path: str, make: bool) -> tuple[int, str]:
    if not is_below(path):
        real_place(root, path)  # raises
    *folders, name = path.split("/")
    try:
        folder = _entered(root, folders, make)
    except OSError as error:
        if error.errno not in (ELOOP, ENOTDIR):
            raise
    else:
        try:
            os.readlink(name, dir_fd=folder)
        except OSError:  # no link
            return folder, name
        os.close(folder)
    real, own = Path(os.path.realpath(root)), real_place(root, path)
    return _entered(real, own.parts[:-1], make), own.name


def _entered(root: Path, folders: Sequence[str], make: bool) -> int:
    """Return a descriptor of a folder below the root, with no link on the way."""
    folder = os.open(root, _FOLDER)
    for name in folders:
        outer = folder
        try:
            folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=outer)
        except FileNotFoundError:
            if not make:
                raise
            os.mkdir(name, dir_fd=outer)
            folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=outer)
        finally:
            os.close(outer)
    return folder
