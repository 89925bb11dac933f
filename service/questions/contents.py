"""What a file held when it had a digest that is on record: in the root, or in its git history."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path

from eventstore.private import read_regular
from service.root.git import git

#: Commits of a file that are looked through, and seconds that git may take for one.
_COMMITS, _SECONDS = 200, 10


def content_of(root: Path, path: str, digest: str) -> bytes | None:
    """Return what a file held with this SHA-256 in hex; None if it lies nowhere any more."""
    return next((one for one in _versions(root, path) if sha256(one).hexdigest() == digest), None)


def _versions(root: Path, path: str) -> Iterator[bytes]:
    """Yield what lies there now, in the kept folders of its stage, and in commits, newest first."""
    stage, _, rest = path.partition("/")
    kept = sorted(root.glob(f"{stage}.v*"), reverse=True) if rest else []
    for place in (root / path, *(folder / rest for folder in kept)):
        try:
            yield read_regular(place)
        except OSError:
            continue
    listed = git(root, "log", f"-{_COMMITS}", "--format=%H", "--", path, within=_SECONDS)
    for commit in listed.stdout.decode().split() if listed is not None else ():
        found = git(root, "show", f"{commit}:./{path}", within=_SECONDS)
        if found is not None and found.returncode == 0:
            yield found.stdout


def difference(before: bytes, after: bytes, of_before: str, of_after: str) -> list[str]:
    """Return a unified diff of two texts, without line ends; of what is no text one line."""
    if b"\0" in before or b"\0" in after:
        return [] if before == after else [f"{of_before} and {of_after} differ, and are no text"]
    old, new = (one.decode("utf-8", "replace").splitlines() for one in (before, after))
    return list(unified_diff(old, new, of_before, of_after, lineterm=""))
