"""Covering arrays: few rows in which every two values of any two factors occur together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

Factors = Mapping[str, Sequence[str]]
Row = dict[str, str]
Pair = tuple[tuple[str, str], tuple[str, str]]


def every_pair(factors: Factors) -> list[Pair]:
    """Return every two values of any two factors, with the factors in their order."""
    return [
        ((one, a), (other, b))
        for one, other in combinations(factors, 2)
        for a, b in product(factors[one], factors[other])
    ]


def pairs_of(row: Row) -> list[Pair]:
    """Return the pairs of values that occur together in a row."""
    return list(combinations(row.items(), 2))


def covering(factors: Factors, dear: Sequence[str] = ()) -> Iterator[Row]:
    """Yield rows until each pair of values of any two factors has occurred in a row.

    The rows are the same in each call. Pairs of the ``dear`` (most important) factors come first.
    `so_far` returns the number of rows that contain all of them. A row starts with an unused pair.
    Every further factor takes the value that forms the most unused pairs. If several values form
    equally many, the least used one is taken.
    """
    left = dict.fromkeys(sorted(every_pair(factors), key=lambda pair: not _are(dear, pair)))
    taken = {(name, value): 0 for name, values in factors.items() for value in values}
    while left:
        row = dict(next(iter(left)))
        for name in sorted(factors, key=lambda one: -len(factors[one])):
            if name not in row:
                ranks = [(_news(row, (name, v), left), -taken[name, v]) for v in factors[name]]
                row[name] = factors[name][ranks.index(max(ranks))]
        row = {name: row[name] for name in factors}
        for pair in pairs_of(row):
            left.pop(pair, None)
        for item in row.items():
            taken[item] += 1
        yield row


def so_far(rows: Sequence[Row], dear: Sequence[str]) -> int:
    """Return the number of rows that contain all pairs of the ``dear`` factors."""
    numbers = {
        pair: number
        for number, row in reversed(list(enumerate(rows, 1)))
        for pair in pairs_of(row)
        if _are(dear, pair)
    }
    return max(numbers.values())


def _are(dear: Sequence[str], pair: Pair) -> bool:
    return all(name in dear for name, _ in pair)


def _news(row: Row, item: tuple[str, str], left: Mapping[Pair, None]) -> int:
    """Return the number of unused pairs that a value would add to this row."""
    return sum((other, item) in left or (item, other) in left for other in row.items())
