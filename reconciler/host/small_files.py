"""Reading small files that others may have put something else in place of.

A named pipe would make its reader wait for ever, and a folder or a broken disk would end it.
"""

from __future__ import annotations

from pathlib import Path

from eventstore.private import read_regular

#: Digits of the longest number that any of these files holds: a process id, clock ticks.
_DIGITS = 20


def content(path: Path) -> bytes | None:
    """Return what a file holds, None if nothing is there.

    Raises OSError for what cannot be read: a folder, a pipe, a device.
    """
    try:
        return read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def text(path: Path) -> str:
    """Return a file's text; nothing if it is missing or cannot be read."""
    try:
        return (content(path) or b"").decode(errors="replace")
    except OSError:
        return ""


def number(word: str) -> int | None:
    """Return a number of plain digits; None for anything else, or one that nobody would write."""
    word = word.strip()
    is_one = word.isascii() and word.isdigit() and len(word) <= _DIGITS
    return int(word) if is_one else None
