"""Test files and folders that users and jobs write.

Depending on the version of Python, `Path.is_dir` and `os.DirEntry.is_dir` raise an error for
circular links and for links into folders without permission. The functions here return False
instead.
"""

from __future__ import annotations

import os
from errno import EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM
from itertools import chain
from pathlib import Path
from stat import S_ISDIR, S_ISREG

#: Errors that are caused by the path itself. Any other error means that the disk has failed.
_UNRESOLVABLE = frozenset({EACCES, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EPERM})

#: Maximum number of entries to name in a description.
_NAMED = 5

Place = str | os.PathLike[str]


def stat_of(place: Place) -> os.stat_result | None:
    """Return the status of a file, following links, or None if it cannot be inspected.

    Raises OSError if the disk fails.
    """
    try:
        return os.stat(place)  # noqa: PTH116 - a string is fast
    except ValueError:  # a NUL byte
        return None
    except OSError as error:
        if error.errno in _UNRESOLVABLE:
            return None
        raise


def is_file(place: Place) -> bool:
    """Return whether a path leads to a file, or False if it cannot be inspected."""
    found = stat_of(place)
    return found is not None and S_ISREG(found.st_mode)


def is_folder(place: Place) -> bool:
    """Return whether a path leads to a folder, or False if it cannot be inspected."""
    found = stat_of(place)
    return found is not None and S_ISDIR(found.st_mode)


def exists(place: Place) -> bool:
    """Return whether a path leads to an entry, or False if it cannot be inspected."""
    return stat_of(place) is not None


def find_files(folder: Path) -> list[Path]:
    """Return all files inside a folder and its subfolders, including links to files.

    Links to folders are not followed.
    """
    found = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return sorted(path for path in found if is_file(path))


def describe_inspection_error(place: Place) -> str | None:
    """Return the reason why a path cannot be inspected, or None.

    None means that the path can be inspected or does not exist.
    """
    try:
        os.stat(place)  # noqa: PTH116 - see `stat_of`
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return error.strerror or "unknown error"
    return None


def describe_unreadable_entries(folder: Path) -> str | None:
    """Return a message about the entries in a folder that cannot be inspected, or None.

    The text names only the first entries, with the reasons. Links to missing files are ignored.
    """
    entries = (Path(at, name) for at, *names in os.walk(folder) for name in chain(*names))
    reasons = sorted((path, why) for path in entries if (why := describe_inspection_error(path)))
    found = [f"{path.relative_to(folder)} ({why})" for path, why in reasons[:_NAMED]]
    more = f" and {len(reasons) - _NAMED} more" if len(reasons) > _NAMED else ""
    return f"cannot be read: {', '.join(found)}{more}" if found else None
