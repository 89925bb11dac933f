"""Limits for the size of a decoded document, because any person or program may have written it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Maximum bytes of a file, depth of a document, and number of its values, without keys.
LARGEST, DEEPEST, MOST = 8 << 20, 100, 500_000


def excess(value: Any) -> str | None:
    """Return which limit a decoded document exceeds, or None if it exceeds none."""
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
    """Yield the lines of a file. Raises ValueError for a line of more than ``longest`` bytes."""
    while line := file.readline(longest + 1):
        if len(line) > longest:
            raise ValueError(
                f"the file contains a line of more than {longest >> 20} MiB, but longer lines are "
                "not allowed"
            )
        yield line
