"""Read small files safely, because other users may have replaced them.

A named pipe in place of a file could block the reader forever. A folder or a broken disk raises an
error.
"""

from __future__ import annotations

from pathlib import Path

from eventstore.regular_files import read_regular

#: Maximum number of digits of a process id or a count of clock ticks in a record.
_DIGITS = 20


def read_content(path: Path) -> bytes | None:
    """Return the content of a file, or None if it does not exist.

    Raises OSError if the path cannot be read, for example a folder, a pipe or a device.
    """
    try:
        return read_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_text(path: Path) -> str:
    """Return the text of a file, or an empty string if it is missing or unreadable."""
    try:
        return (read_content(path) or b"").decode(errors="replace")
    except OSError:
        return ""


def parse_number(word: str) -> int | None:
    """Return the number in a text that consists of digits only.

    Returns None for any other text, and for an unreasonably long number.
    """
    word = word.strip()
    is_one = word.isascii() and word.isdigit() and len(word) <= _DIGITS
    return int(word) if is_one else None
