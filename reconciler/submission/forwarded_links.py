"""Check whether symbolic links in the files for a job can be copied to the job's folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR

from reconciler.errors import UnusableLink

#: Maximum number of entries, and of bytes, that links may add to the files for a job.
_MAX_ENTRIES, _MAX_BYTES = 10**5, 10**12

_Key = tuple[int, int]


@dataclass(slots=True)
class _Size:
    """The number of files and folders that a copy creates, and their total bytes."""

    entries: int = 0
    bytes: int = 0

    def add(self, other: _Size) -> None:
        self.entries += other.entries
        self.bytes += other.bytes


@dataclass(slots=True)
class _Folder:
    """A folder that the search is currently visiting.

    ``link`` is the last symbolic link on the path to it, or None. ``adds`` states that the folder
    is the target of a link.
    """

    path: Path
    key: _Key
    link: Path | None
    adds: bool
    entries: Iterator[str]
    size: _Size = field(default_factory=_Size)
    #: The part of ``size`` that exists only because of links.
    added: _Size = field(default_factory=_Size)


def check_forwarded_links(root: Path, paths: Iterable[Path], target: Path) -> None:
    """Raise `UnusableLink` if a symbolic link in the files for a job cannot be copied.

    DPDispatcher replaces each link by a copy of its target. ``paths`` are the files and folders for
    the job, and ``target`` is the folder of the job.
    """
    search = _Search(root, Path(os.path.realpath(target)))
    for path in paths:
        search.visit(path)


class _Search:
    """A search through the folders for a job, which follows links.

    Each folder is visited once.
    """

    def __init__(self, root: Path, target: Path) -> None:
        self._root, self._target = root, target
        self._sizes: dict[_Key, tuple[_Size, _Size]] = {}
        self._added = _Size()

    def visit(self, path: Path) -> None:
        """Check the links in a file or folder that is sent to a job."""
        open_folders = [_Folder(path, (0, 0), None, False, iter(()))]
        self._enter_path(open_folders, path)
        while len(open_folders) > 1:
            folder = open_folders[-1]
            name = next(folder.entries, None)
            if name is not None:
                self._enter_path(open_folders, folder.path / name)
                continue
            open_folders.pop()
            self._sizes[folder.key] = folder.size, folder.added
            self._add_size(open_folders[-1], folder.path, folder.size, folder.added, folder.adds)
        self._added.add(open_folders[0].added)
        self._check_size(path, self._added)

    def _enter_path(self, open_folders: list[_Folder], path: Path) -> None:
        """Add a file to the size of its folder, or start to visit a folder."""
        above, is_link = open_folders[-1], path.is_symlink()
        # A link that the stage itself names as an input is intended, so its size is not limited.
        adds = is_link and len(open_folders) > 1
        try:
            found = path.stat()
            key = (found.st_dev, found.st_ino)
            if not S_ISDIR(found.st_mode):
                self._add_size(above, path, _Size(1, found.st_size), _Size(), adds)
                return
            link = path if is_link else above.link
            if is_link:
                self._check_target(path)
            if link is not None and any(key == one.key for one in open_folders):
                raise self._build_refusal(link, "leads to a folder that contains the link")
            if key in self._sizes:
                self._add_size(above, path, *self._sizes[key], adds)
                return
            names = iter(sorted(os.listdir(path)))  # noqa: PTH208 - only the names are needed
        except OSError as error:
            if is_link:
                raise self._build_refusal(
                    path, f"leads to nothing readable ({error.strerror})"
                ) from error
            raise
        open_folders.append(_Folder(path, key, link, adds, names, _Size(1)))

    def _check_target(self, link: Path) -> None:
        """Raise an error if a link leads to a folder that contains the link or the job."""
        place = os.path.realpath(link)
        if Path(os.path.realpath(link.parent)).is_relative_to(place):
            raise self._build_refusal(link, "leads to a folder that contains the link")
        if self._target.is_relative_to(place):
            raise self._build_refusal(link, "leads to a folder that contains the folder of the job")

    def _add_size(self, above: _Folder, path: Path, size: _Size, added: _Size, adds: bool) -> None:
        above.size.add(size)
        above.added.add(size if adds else added)
        self._check_size(path, above.added)

    def _check_size(self, path: Path, added: _Size) -> None:
        if added.entries > _MAX_ENTRIES or added.bytes > _MAX_BYTES:
            why = (
                f"and other links add {added.entries} entries of {added.bytes} bytes to the copy "
                f"(maximum {_MAX_ENTRIES} and {_MAX_BYTES})"
            )
            raise self._build_refusal(path, why)

    def _build_refusal(self, link: Path, why: str) -> UnusableLink:
        place = Path(os.path.realpath(link.parent), link.name)
        return UnusableLink(os.path.relpath(place, os.path.realpath(self._root)), why)
