"""How large a decoded document may be, as it would be written out: who made it may be anybody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

#: Bytes of a file, levels of a document, and values in it, keys not counted.
LARGEST, DEEPEST, MOST = 8 << 20, 100, 500_000


def excess(value: Any) -> str | None:
    """Return what of a decoded document is more than it may be; None if all is well."""
    level, count = [iter((value,))], 0
    while level:
        child = next(level[-1], _END)
        if child is _END:
            level.pop()
            continue
        count += 1
        if count > MOST:
            return f"expected {MOST:,} values at most, found more"
        if isinstance(child, dict | list):
            level.append(iter(child.values() if isinstance(child, dict) else child))
        if len(level) > DEEPEST + 1:
            return f"expected {DEEPEST} levels at most, found more"
    return None


_END: Any = object()


def bounded_lines(file: Any, longest: int) -> Iterator[bytes]:
    """Yield the lines of a file; raises ValueError for one of more than ``longest`` bytes."""
    while line := file.readline(longest + 1):
        if len(line) > longest:
            raise ValueError(f"expected lines of {longest >> 20} MiB at most, found a longer one")
        yield line
