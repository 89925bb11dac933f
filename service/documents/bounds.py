"""Limits for the size of documents, which are needed because anybody may write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Maximum size of a file in bytes, maximum depth of a document, and maximum number of its values
#: (without keys).
LARGEST, DEEPEST, MOST = 8 << 20, 100, 500_000


def describe_exceeded_limit(value: Any) -> str | None:
    """Return a message that names the limit a document exceeds, or None if it exceeds none."""
    level, count = [iter((value,))], 0
    while level:
        child = next(level[-1], _END)
        if child is _END:
            level.pop()
            continue
        count += 1
        if count > MOST:
            return f"the file has more than {MOST:,} values"
        if isinstance(child, dict | list):
            level.append(iter(child.values() if isinstance(child, dict) else child))
        if len(level) > DEEPEST + 1:
            return f"the file has more than {DEEPEST} levels of nesting"
    return None


_END: Any = object()


def bounded_lines(file: Any, longest: int) -> Iterator[bytes]:
    """Yield the lines of a file. Raises ValueError for a line longer than ``longest``."""
    while line := file.readline(longest + 1):
        if len(line) > longest:
            raise ValueError(
                f"the file contains a line of more than {longest >> 20} MiB, but longer lines are "
                "not allowed"
            )
        yield line
