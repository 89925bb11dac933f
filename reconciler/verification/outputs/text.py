"""Text, and the numbers that stand in it in columns."""

from __future__ import annotations

import math
import re
from typing import BinaryIO

from reconciler.verification.outputs.column import are_finite, number
from reconciler.verification.outputs.lines import TextLine, lines
from reconciler.verification.outputs.reading import Cut, FileReading

_KIND = "text"
#: What begins a line of words in the tables of simulation codes.
_COMMENTS = ("#", "@", "%", "!", ";")
_GAPS = re.compile(r"[\s,;]+")
_SNIFFED = 8192


def read(stream: BinaryIO) -> FileReading:
    """Read text to its last line, which must be whole where there is more than one.

    A row is a line that holds more numbers than words. What holds a zero byte is no text, and is
    not looked into.
    """
    if b"\0" in stream.read(_SNIFFED):
        return FileReading("bytes", "no text; not looked into")
    stream.seek(0)
    rows, not_finite, last = 0, None, None
    try:
        for line in lines(stream):
            last = line
            if are_finite(line.text.split()):
                rows += not line.text.isspace()
                continue
            values = _values(line.text)
            rows += bool(values)
            if not_finite is None and not all(map(math.isfinite, values)):
                not_finite = f"line {line.number}: {line.text.strip()[:60]}"
    except Cut as error:
        return FileReading(_KIND, remarks=[f"{error}; not looked into"])
    count = last.number if last else 0
    content = f"{count} lines, {rows} of numbers" if rows else f"{count} lines"
    alone = count == 1 and last is not None and not last.ended
    return FileReading(
        _KIND,
        content,
        problem=_cut_off(last),
        not_finite=not_finite,
        has_numbers=rows > 0,
        remarks=["its one line has no newline at its end"] if alone else [],
    )


def _values(text: str) -> list[float]:
    """Return the numbers of a row, none of a line that is no row."""
    if text.startswith(_COMMENTS):
        return []
    words = [word for word in _GAPS.split(text) if word]
    found = [value for value in map(number, words) if value is not None]
    return found if len(found) * 2 > len(words) else []


def _cut_off(last: TextLine | None) -> str | None:
    if last is None or last.ended or last.number == 1:
        return None
    return f"the last line is cut off: {last.text[-60:]!r} has no newline at its end"
