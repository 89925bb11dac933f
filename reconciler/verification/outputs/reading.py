"""What reading an output by its type came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class FileReading:
    """One file, read from its first byte to its last.

    ``kind`` is the type in a word, ``content`` what was found in a phrase. ``problem`` says why it
    cannot be read as that type, ``not_finite`` where its first NaN or infinity is; None where
    there is none. ``has_numbers``: numbers were looked at. ``remarks`` are no reason to refuse it.
    """

    kind: str
    content: str = ""
    problem: str | None = None
    not_finite: str | None = None
    has_numbers: bool = False
    remarks: list[str] = field(default_factory=list)


class ByteSource(Protocol):
    """Bytes that are read once, from their beginning, and never all at once."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; fewer at the end alone."""
        ...


class Cut(Exception):
    """The bytes end, or turn into something else, before the format says so."""


def exactly(source: ByteSource, size: int, what: str) -> bytes:
    """Return ``size`` bytes; raises `Cut` where there are fewer."""
    found = source.read(size)
    if len(found) != size:
        raise Cut(f"it ends within {what}: {size} bytes expected, {len(found)} found")
    return found
