"""Open files and folders only if they are in the root, also if links lead out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import ELOOP, ENOTDIR
from pathlib import Path

from eventstore.regular_files import LARGEST, open_regular, require_file_fits_memory
from lifecycle.words.values import is_inside_base_folder
from service.errors import ServiceError
from wording import TemplatedError


class OutsideRoot(TemplatedError, ServiceError):
    """A path leads out of the workflow folder, through ``..`` or through a symbolic link."""

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
    """Return the absolute path for a path relative to ``root``.

    Symbolic links inside the root are followed. Raises `OutsideRoot` if the path leads out of the
    root. To check and open a file in one step, use `open_within`.
    """
    real = real_path_relative_to_root(root, path)
    place = root / path
    return Path(os.path.realpath(root)) / real if place.is_symlink() else place


def real_path_relative_to_root(root: Path, path: str) -> Path:
    """Return the target of a path relative to the root, with all links followed.

    Raises `OutsideRoot` if the path leads out of the root.
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
    """Return whether a relative path stays inside the root.

    It may contain bytes that are not UTF-8.
    """
    try:
        return is_inside_base_folder(os.fsencode(path).decode(errors="replace"))
    except UnicodeEncodeError:  # not a valid name on any disk
        return False


def join_normalized_path(folder: Path, path: str) -> Path:
    """Join a folder and a path, removing ``.`` and ``..`` without following links."""
    return Path(os.path.normpath(folder / path))


def _real_path_or_none(path: Path) -> Path | None:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):  # replaced between two steps, or a NUL byte
        return None


def is_inside(place: Path, folder: Path) -> bool:
    """Return whether a path leads into the folder or to the folder itself.

    All symbolic links are followed.
    """
    real = _real_path_or_none(place)
    return real is not None and real.is_relative_to(os.path.realpath(folder))


_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def open_within(root: Path, path: str) -> int:
    """Open a regular file inside ``root``, and return its descriptor for reading.

    Raises `OutsideRoot` if the path leads out of the root. Raises OSError or NotRegular, as
    `open_regular` does.
    """
    if "/" not in path and is_inside_base_folder(path):
        # The file is directly in the root. The caller chose the root itself, so no folder needs a
        # check for links.
        try:
            return open_regular(root / path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno != ELOOP:
                raise
    with open_parent_folder_within(root, path) as (folder, name):
        try:
            return open_regular(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        except OSError as error:
            error.filename = str(root / path)
            if error.errno != ELOOP:
                raise
            raise OutsideRoot(root, path, "became a link while it was opened") from error


def content_within(root: Path, path: str, limit: int | None = None) -> bytes | None:
    """Return the content of a file inside ``root``, or None if it does not exist.

    Return at most ``limit`` + 1 bytes. Without a limit, raises TooLarge for a file that would fill
    the memory. Raises `OutsideRoot` if the path leads out of the root.
    """
    try:
        descriptor = open_within(root, path)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if limit is None:
            require_file_fits_memory(descriptor, root / path)
        return file.read((LARGEST if limit is None else limit) + 1)


@contextmanager
def open_parent_folder_within(
    root: Path, path: str, *, make: bool = False
) -> Iterator[tuple[int, str]]:
    """Open the folder of a path inside ``root``, and yield its descriptor and a file name.

    ``make`` creates missing folders. Raises OSError, or `OutsideRoot` if the path leads out of the
    root.
    """
    folder, name = _open_parent_folder(root, path, make)
    try:
        yield folder, name
    finally:
        os.close(folder)


@contextmanager
def open_stable_path_within(root: Path, path: str, *, make: bool = False) -> Iterator[Path]:
    """Yield a path for writing a file inside ``root``.

    The path refers to the opened folder, so it stays valid if another program renames the folder.
    """
    with open_parent_folder_within(root, path, make=make) as (folder, name):
        yield Path(f"/proc/self/fd/{folder}/{name}")


def _open_parent_folder(root: Path, path: str, make: bool) -> tuple[int, str]:
    if not _is_below(path):
        real_path_relative_to_root(root, path)  # raises OutsideRoot
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
    real, own = Path(os.path.realpath(root)), real_path_relative_to_root(root, path)
    return _open_folder(real, own.parts[:-1], make), own.name


def _open_folder(root: Path, folders: Sequence[str], make: bool) -> int:
    """Open a folder inside the root, and return its descriptor.

    Symbolic links on the path are rejected with an error.
    """
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
