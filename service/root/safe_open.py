"""Opening what lies below a root, and nothing else: no path leads out of it, nor does any link."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import ELOOP, ENOTDIR
from pathlib import Path

from eventstore.private import LARGEST, open_regular, require_bearable
from lifecycle.words.values import is_below
from service.errors import ServiceError
from wording import Worded


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


def open_within(root: Path, path: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """Return a descriptor of a regular file at a path relative to ``root``.

    Raises `OutsideRoot`, and OSError and NotRegular as `open_regular` does.
    """
    if "/" not in path and is_below(path):
        # The root itself is what the caller chose: there is no folder on the way.
        try:
            return open_regular(root / path, flags | os.O_NOFOLLOW, mode)
        except OSError as error:
            if error.errno != ELOOP:
                raise
    with folder_within(root, path) as (folder, name):
        try:
            return open_regular(name, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
        except OSError as error:
            error.filename = str(root / path)
            if error.errno != ELOOP:
                raise
            raise OutsideRoot(root, path, "became a link while it was opened") from error


def content_within(root: Path, path: str, limit: int | None = None) -> bytes | None:
    """Return the bytes of a file below ``root``, None where it is missing. Raises `OutsideRoot`.

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
        if not _is_link(folder, name):
            return folder, name
        os.close(folder)
    real, own = Path(os.path.realpath(root)), real_place(root, path)
    return _entered(real, own.parts[:-1], make), own.name


def _is_link(folder: int, name: str) -> bool:
    try:
        os.readlink(name, dir_fd=folder)
    except OSError:
        return False
    return True


def _entered(root: Path, folders: Sequence[str], make: bool) -> int:
    """Return a descriptor of a folder below the root, with no link on the way."""
    folder = os.open(root, _FOLDER)
    for name in folders:
        try:
            inner = _inner(folder, name, make)
        finally:
            os.close(folder)
        folder = inner
    return folder


def _inner(folder: int, name: str, make: bool) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
        os.mkdir(name, dir_fd=folder)
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
