"""Compute and compare the digests of the input and output files of an attempt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lifecycle.payload import models as p
from reconciler.errors import EmptyInput, MissingInput
from service.root.folder_entries import find_files, is_file, is_folder


def digest_stage_inputs(root: Path, inputs: Sequence[str]) -> tuple[p.FileDigest, ...]:
    """Return path, size in bytes and digest of each input of a stage.

    Raises MissingInput if an input does not exist, or EmptyInput if it has no content.
    """
    found = digests(root, inputs)
    empty = [one.path for one in found if one.size == 0]
    if empty:
        raise EmptyInput(empty[0])
    return found


def digests(root: Path, paths: Sequence[str]) -> tuple[p.FileDigest, ...]:
    """Return path, size in bytes and digest of each given file or folder.

    The digest of a folder covers the names and contents of its files. Raises MissingInput if a path
    does not exist.
    """
    found = ((path, *compute_size_and_digest(root / path, path)) for path in paths)
    return tuple(p.FileDigest(path=path, size=n, sha256=sha256) for path, n, sha256 in found)


def file_digest(root: Path, path: Path, content: bytes) -> p.FileDigest:
    """Return the path relative to the root, the size and the digest of a file.

    The digest is computed from ``content``; the file itself is not read.
    """
    digest = hashlib.sha256(content).hexdigest()
    return p.FileDigest(path=str(path.relative_to(root)), size=len(content), sha256=digest)


def compute_file_sha256(file: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def has_recorded_content(place: Path, recorded: Mapping[str, Any]) -> bool:
    """Return whether a file or folder still has its recorded size and SHA-256.

    Returns False if it no longer exists or cannot be read.
    """
    try:
        if is_file(place) and place.stat().st_size != recorded["size"]:
            return False
        found = compute_size_and_digest(place, place.name)
    except (MissingInput, OSError):
        return False
    return found == (recorded["size"], recorded["sha256"])


def compute_size_and_digest(place: Path, path: str) -> tuple[int, str]:
    """Return the size in bytes and the digest of the file or folder at ``place``.

    Raises MissingInput, with ``path`` as the name for the user, if it does not exist.
    """
    digest, size = hashlib.sha256(), 0
    if not (is_file(place) or is_folder(place)):
        raise MissingInput(path)
    files = [place] if is_file(place) else find_files(place)
    for file in files:
        if file != place:
            name = str(file.relative_to(place))
            digest.update(name.encode("utf-8", "surrogateescape") + b"\0")
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
                size += len(block)
    return size, digest.hexdigest()
