"""Numbers as ranges: ``0-99,103`` for many of them in few letters. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def text_of(numbers: Iterable[int]) -> str:
    """Return numbers, in any order, as ranges."""
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in _runs(sorted(numbers)))


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if first is None or last is None or number > last + 1:
            if first is not None and last is not None:
                yield first, last
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last


def numbers_of(text: str) -> set[int]:
    """Return the numbers of ranges."""
    return {number for a, b in _pairs(text) for number in range(a, b + 1)}


def count_of(text: str) -> int:
    """Return how many numbers ranges hold, without spelling them out."""
    return sum(b - a + 1 for a, b in _pairs(text))


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        yield int(first), int(last or first)
