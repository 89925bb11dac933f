"""Parse the names of processes that still ran when their job ended."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PROCESS = re.compile(r"process [0-9]{1,10} \(.{0,64}\)")


def parse_remaining_processes(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines that name a process, such as ``process 12 (bash)``, without duplicates."""
    found = (line for line in lines if _PROCESS.fullmatch(line) and line.isprintable())
    return tuple(dict.fromkeys(found))
