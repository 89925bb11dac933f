"""The lines of a text, one after another; a line without an end does not fill the memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from reconciler.verification.outputs.reading import Cut

#: Bytes of the longest line that is read.
LONGEST = 1 << 24


class TextLine(NamedTuple):
    """A line with its number from 1 on, and whether a newline ends it."""

    number: int
    text: str
    ended: bool


def lines(stream: BinaryIO) -> Iterator[TextLine]:
    """Yield the lines with their newlines; bytes that are no UTF-8 are kept as they are.

    Raises `Cut` for a line longer than `LONGEST`.
    """
    number = 0
    while line := stream.readline(LONGEST):
        number += 1
        if len(line) == LONGEST:
            raise Cut(f"line {number} is longer than {LONGEST} bytes: no text that can be read")
        yield TextLine(number, line.decode("utf-8", "surrogateescape"), line.endswith(b"\n"))
