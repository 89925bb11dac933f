"""``progress.log`` on the disk: what was left in it, and what has come since.

It only grows, in place: people follow it, and others append to it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from eventstore.regular import require_bearable
from service.root.disk import Mark, mark_of
from service.root.sync import NEWER_PART, Synced, digest
from service.root.within import content_within, open_within


class LogView(NamedTuple):
    """The file as it was read.

    ``intact``: it begins with every byte that was left. ``newer`` are the last of those,
    ``tail`` what follows them. ``mark`` is None where the file is missing.
    """

    intact: bool
    newer: bytes
    tail: bytes
    mark: Mark | None


def look(root: Path, name: str, left: Synced | None, *, thorough: bool = False) -> LogView:
    """Read the file of this name in the root beside what was left of it; raises `OutsideRoot`.

    A file that nobody touched is trusted but for its newer part; ``thorough`` reads it whole.
    """
    try:
        descriptor = open_within(root, name)
    except FileNotFoundError:
        return LogView(left is None or left.size == 0, b"", b"", None)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
        require_bearable(descriptor, root / name)
        mark = mark_of(os.fstat(descriptor))
        if left is None:
            return LogView(True, b"", file.read(), mark)
        if mark == left.mark and not thorough:
            file.seek(left.base)
            return _trusted(file.read(), left, mark)
        return _verified(file.read(), left, mark)


def _trusted(newer: bytes, left: Synced, mark: Mark) -> LogView:
    length = left.size - left.base
    intact = digest(newer[:length]) == left.sha256
    return LogView(intact, newer[:length], newer[length:], mark)


def _verified(content: bytes, left: Synced, mark: Mark) -> LogView:
    newer, tail = content[left.base : left.size], content[left.size :]
    return LogView(left.shows(content), newer, tail, mark)


def left_now(before: Synced, view: LogView, added: bytes, version: int, mark: Mark) -> Synced:
    """Return what to remember of the file once it was looked at and ``added`` was appended."""
    part = view.newer + view.tail + added
    fresh = part.endswith(b"\n") if part else before.fresh
    return replace(
        before,
        version=version,
        size=before.base + len(part),
        sha256=digest(part),
        mark=mark,
        fresh=fresh,
    )


def joined_up(root: Path, name: str, left: Synced) -> Synced:
    """Return ``left`` with its newer part joined to the older one, once it is long enough."""
    if left.size - left.base <= NEWER_PART:
        return left
    content = (content_within(root, name) or b"")[: left.size]
    if not left.shows(content):
        # Somebody changed the older part unseen: without a mark, the next look is thorough.
        return replace(left, mark=[])
    return replace(left, base=left.size, base_sha256=digest(content), sha256=digest(b""))
