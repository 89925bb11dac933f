"""Find the content of a file by its digest, in the workflow folder or in its Git history."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path

from eventstore.regular_files import read_regular
from service.root.git import run_git

#: Maximum number of commits to search, and maximum number of seconds for each git command.
_COMMITS, _SECONDS = 200, 10


def find_content(root: Path, path: str, digest: str) -> bytes | None:
    """Return the content of a file with the given SHA-256, or None if it is lost."""
    return next(
        (one for one in _read_versions(root, path) if sha256(one).hexdigest() == digest), None
    )


def _read_versions(root: Path, path: str) -> Iterator[bytes]:
    """Yield the current, archived and committed versions of a file, newest first."""
    stage, _, rest = path.partition("/")
    kept = sorted(root.glob(f"{stage}.v*"), reverse=True) if rest else []
    for place in (root / path, *(folder / rest for folder in kept)):
        try:
            yield read_regular(place)
        except OSError:
            continue
    listed = run_git(root, "log", f"-{_COMMITS}", "--format=%H", "--", path, within=_SECONDS)
    for commit in listed.stdout.decode().split() if listed is not None else ():
        found = run_git(root, "show", f"{commit}:./{path}", within=_SECONDS)
        if found is not None and found.returncode == 0:
            yield found.stdout


def format_difference(before: bytes, after: bytes, of_before: str, of_after: str) -> list[str]:
    """Return the lines of a unified diff of two files.

    If a file is not text, return a single line that states whether the files differ.
    """
    if b"\0" in before or b"\0" in after:
        return (
            []
            if before == after
            else [
                (
                    f"{of_before} and {of_after} differ, but wfctl cannot show the difference, "
                    "because the files are not text"
                )
            ]
        )
    old, new = (one.decode("utf-8", "replace").splitlines() for one in (before, after))
    return list(unified_diff(old, new, of_before, of_after, lineterm=""))
