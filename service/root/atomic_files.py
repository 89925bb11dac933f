"""Writing of files so that a crash at any point leaves the old or the new file complete."""

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

from eventstore.event import Instant, format_instant
from eventstore.private_files import (
    LARGEST,
    open_lock,
    open_regular,
    read_regular,
    require_bearable,
    try_lock,
)
from lifecycle.words.values import is_below
from service.errors import RootBusy, ServiceError
from wording import Worded

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Maximum number of characters of a name in the name of its temporary file.
_NAME = 200

Mark = list[int]
"""Inode, size in bytes, and times of the last change of content and of status, in ns."""


def mark_of(status: os.stat_result) -> Mark:
    """Return values that change whenever a file is touched."""
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def content_of(path: Path) -> bytes | None:
    """Return the file's bytes, None if it is missing."""
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None


def write_whole(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``: temporary file, fsync, rename, fsync of the folder."""
    write_streamed(path, (content,))


def write_streamed(path: Path, chunks: Iterable[bytes]) -> None:
    """Write the chunks to ``path`` as `write_whole` does, one at a time."""
    with open_replacement(path) as file:
        file.writelines(chunks)


@contextmanager
def open_replacement(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Yield a file to write to, which replaces ``path`` once it is complete and durable."""
    with _prepare_temporary_file(path, mode) as (file, temporary):
        yield file
    temporary.replace(path)
    sync_folder(path.parent)


def write_over(path: Path, content: bytes, found: bytes | None) -> bool:
    """Write like `write_whole` if the file still has the content ``found``.

    Return whether it had.
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
    """Yield a new file next to ``path``, then make it durable, and remove it after an error.

    Its name is unpredictable, and an existing file or link is never opened.
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


def append(path: Path, content: bytes, mark: Mark | None) -> Mark | None:
    """Append ``content`` to the file and make it durable, and return the new mark.

    ``mark`` is the mark at reading, None if the file was missing. Returns None if others wrote to
    the file since: the caller must read the file again.
    """
    if mark is not None and (mark := _with_one_name(path, mark)) is None:
        return None
    descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
    try:
        before = os.fstat(descriptor)
        if before.st_size if mark is None else mark_of(before) != mark:
            return None
        _write_all(descriptor, content)
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if mark is None:
        sync_folder(path.parent)
    return mark_of(after) if after.st_size == before.st_size + len(content) else None


def restore(path: Path, content: bytes, mark: Mark | None) -> Mark | None:
    """Overwrite the file in place, because others have it open, and return the new mark.

    The file is first cut to its new length if longer, then overwritten, then appended to, so nobody
    sees it shorter than before and after. ``mark`` is as in `append`. Returns None if the mark
    changed, or if others appended meanwhile: their bytes are then at the end. A crash leaves the
    start of ``content``, followed by old bytes.
    """
    if mark is None:
        return append(path, content, None)
    mark = _with_one_name(path, mark)
    if mark is None:
        return None
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
        _write_all(file.fileno(), content[same:kept])
        after = os.fstat(file.fileno())
    return append(path, content[kept:], mark_of(after)) if after.st_size == kept else None


def _with_one_name(path: Path, mark: Mark) -> Mark | None:
    """Replace a file that has hard links by a copy, and return its new mark.

    Hard links elsewhere, such as in a backup, stay unchanged. Returns None if the mark changed.
    """
    found = path.lstat()
    if found.st_nlink < 2:
        return mark
    content = content_of(path)
    if mark_of(found) != mark or content is None or not write_over(path, content, content):
        return None
    return mark_of(path.lstat())


def common_start(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the length of the common start of two sequences."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
    os.fsync(descriptor)


def config_folder() -> Path:
    """Return the folder with this user account's approvals, outside every root."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path(os.environ.get("HOME", "~")) / ".config")
    return Path(base).expanduser() / "wfctl"


def state_folder() -> Path:
    """Return the folder with this user account's records, outside every root and database."""
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
def hold_lock(path: Path, timeout: float = 30.0) -> Iterator[None]:
    """Hold an exclusive lock on ``path``. Raises `RootBusy` after ``timeout`` seconds."""
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
    """Return the current time at the local offset."""
    return datetime.now().astimezone()


def system_instant() -> Instant:
    """Return the current time in the form of a store."""
    second, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    begun, offset = _second_texts(second)
    return f"{begun}{nanoseconds // 1000:06}Z", offset


@lru_cache(maxsize=1)
def _second_texts(second: int) -> Instant:
    """Return the text that all times within a second share, and the local offset."""
    text, offset = format_instant(datetime.fromtimestamp(second, UTC).astimezone())
    return text[:20], offset


def utc_text(moment: datetime) -> str:
    """Return ``YYYY-MM-DDTHH:MM:SS.ffffffZ``, the form of times in the log."""
    return format_instant(moment)[0]


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562): ordered by time, unique without coordination."""
    from uuid_utils import uuid7  # imported only here, because the import is slow

    return str(uuid7())


class OutsideRoot(Worded, ServiceError):
    """A path that leads out of the root, by its steps or by a link."""

    code = "outside_root"
    text = (
        "the path {path!r:.200} must stay below {root}, but it {found}. Nothing was read or "
        "written there. Remove the link, or choose another path."
    )
    untold = ("found",)
    root: Path
    path: str
    found: str


def resolve_below(root: Path, path: str) -> Path:
    """Return the absolute path for a path relative to ``root``. Raises `OutsideRoot`.

    Resolves a link that stays below the root. To check and open in one step, use `open_within`.
    """
    real = real_place(root, path)
    place = root / path
    return Path(os.path.realpath(root)) / real if place.is_symlink() else place


def real_place(root: Path, path: str) -> Path:
    """Return the target of a path, relative to the real root, with all links followed.

    Raises `OutsideRoot`.
    """
    if not _is_below(path):
        raise OutsideRoot(root, path, "is absolute, contains .. or contains a control character")
    real, top = _real_path_or_none(root / path), Path(os.path.realpath(root))
    if real is None:
        raise OutsideRoot(
            root,
            path,
            "changed from a file to a link, or from a link to a file, while wfctl read it",
        )
    if not real.is_relative_to(top):
        raise OutsideRoot(root, path, f"leads out of the root, to {real}")
    return real.relative_to(top)


def _is_below(path: str) -> bool:
    """Return whether a path names something below the root, even with bytes that are not UTF-8."""
    try:
        return is_below(os.fsencode(path).decode(errors="replace"))
    except UnicodeEncodeError:  # not a valid name on any disk
        return False


def resolve_words(folder: Path, path: str) -> Path:
    """Return the path that a path names from a folder, without following links."""
    return Path(os.path.normpath(folder / path))


def _real_path_or_none(path: Path) -> Path | None:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):  # replaced between two steps, or a NUL byte
        return None


def is_inside(place: Path, folder: Path) -> bool:
    """Return whether a path leads to the folder or into it, all links followed."""
    real = _real_path_or_none(place)
    return real is not None and real.is_relative_to(os.path.realpath(folder))


_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def open_within(root: Path, path: str) -> int:
    """Return a descriptor for reading a regular file at a path relative to ``root``.

    Raises `OutsideRoot`, and OSError and NotRegular as `open_regular` does.
    """
    if "/" not in path and is_below(path):
        # The caller chose the root itself, so no folder above it is checked.
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

    Returns at most ``limit`` + 1 bytes. Without a limit, raises TooLarge for a file that would fill
    the memory.
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
    """Yield the open folder of a path below ``root``, and the last name in the path.

    ``make`` creates missing folders. Raises `OutsideRoot` or OSError.
    """
    folder, name = _open_parent_folder(root, path, make)
    try:
        yield folder, name
    finally:
        os.close(folder)


@contextmanager
def place_within(root: Path, path: str, *, make: bool = False) -> Iterator[Path]:
    """Yield a path for writing that stays in the same folder, even if the folder is renamed."""
    with folder_within(root, path, make=make) as (folder, name):
        yield Path(f"/proc/self/fd/{folder}/{name}")


def _open_parent_folder(root: Path, path: str, make: bool) -> tuple[int, str]:
    if not _is_below(path):
        real_place(root, path)  # raises OutsideRoot
    *folders, name = path.split("/")
    try:
        folder = _open_folder(root, folders, make)
    except OSError as error:
        if error.errno not in (ELOOP, ENOTDIR):
            raise
    else:
        try:
            os.readlink(name, dir_fd=folder)
        except OSError:  # not a link
            return folder, name
        os.close(folder)
    real, own = Path(os.path.realpath(root)), real_place(root, path)
    return _open_folder(real, own.parts[:-1], make), own.name


def _open_folder(root: Path, folders: Sequence[str], make: bool) -> int:
    """Return a descriptor of a folder below the root. Links on the path are refused."""
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
