"""Parse the names of processes that still ran when their job ended."""

from __future__ import annotations

import re

from projections.words.text import spell_unseen

_PROCESS = re.compile(r"process [0-9]{1,10} \(.{0,64}\)")


def parse_remaining_processes(record: str) -> tuple[str, ...]:
    """Return the lines that name a process, such as ``process 12 (bash)``, without duplicates.

    Invisible characters in the name of a process are escaped.
    """
    found = (spell_unseen(line) for line in record.split("\n") if _PROCESS.fullmatch(line))
    return tuple(dict.fromkeys(found))
