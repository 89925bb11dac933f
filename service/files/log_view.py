"""The content of progress.log as wfctl last wrote it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from eventstore.regular_files import require_file_fits_memory
from service.root.atomic_files import (
    Mark,
    file_change_fingerprint,
)
from service.root.paths_within_root import content_within, open_within
from service.root.sync_record import NEWER_PART, Synced, digest


class LogView(NamedTuple):
    """The content of progress.log when it was read, compared with its remembered state.

    ``intact`` means that the file still starts with all bytes that wfctl wrote. ``newer`` contains
    the last part of these bytes, and ``tail`` the bytes after them. ``mark`` identifies the version
    of the file by its metadata, and is None if the file is missing.
    """

    intact: bool
    newer: bytes
    tail: bytes
    mark: Mark | None


def read_log_view(root: Path, name: str, left: Synced | None, *, thorough: bool = False) -> LogView:
    """Read a file and compare it with the state that wfctl remembers of it.

    If the metadata of the file is unchanged, only its last part is read. ``thorough`` always reads
    the whole file. Raises `OutsideRoot` if the path leads out of the workflow folder.
    """
    try:
        descriptor = open_within(root, name)
    except FileNotFoundError:
        return LogView(left is None or left.size == 0, b"", b"", None)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
        require_file_fits_memory(descriptor, root / name)
        mark = file_change_fingerprint(os.fstat(descriptor))
        if left is None:
            return LogView(True, b"", file.read(), mark)
        is_trusted = mark == left.mark and not thorough
        file.seek(left.base if is_trusted else 0)
        content = file.read()
    if is_trusted:
        length = left.size - left.base
        newer, tail = content[:length], content[length:]
        return LogView(digest(newer) == left.sha256, newer, tail, mark)
    newer, tail = content[left.base : left.size], content[left.size :]
    return LogView(left.is_start_of(content), newer, tail, mark)


def build_remembered_log_state(
    root: Path, name: str, before: Synced, view: LogView, added: bytes, version: int, mark: Mark
) -> Synced:
    """Return the state of the file to remember after ``added`` was appended to it.

    If the newer part of the file has become long enough, it is joined to the older part.
    """
    part = view.newer + view.tail + added
    size, fresh = before.base + len(part), part.endswith(b"\n") if part else before.fresh
    left = replace(before, version=version, size=size, sha256=digest(part), mark=mark, fresh=fresh)
    if len(part) <= NEWER_PART:
        return left
    content = (content_within(root, name) or b"")[:size]
    if not left.is_start_of(content):
        # Another program changed the older part. Remember no file metadata, so that the next check
        # reads the whole file.
        return replace(left, mark=[])
    return replace(left, base=size, base_sha256=digest(content), sha256=digest(b""))
