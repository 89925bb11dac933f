"""Columns of a table, as they are counted while it is read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Column:
    """How many cells of a column are finite numbers, other numbers, and no numbers."""

    finite: int = 0
    not_finite: int = 0
    text: int = 0
    first: str | None = None


def number(cell: str) -> float | None:
    """Return a cell's number, None where it holds none; Fortran's ``1.0D+00`` is one."""
    try:
        return float(cell)
    except ValueError:
        pass
    try:
        return float(cell.replace("D", "E").replace("d", "e")) if cell[-1:].isdigit() else None
    except ValueError:
        return None


def are_finite(cells: Iterable[str]) -> bool:
    """Whether all cells are finite numbers, as far as a quick look tells: No may be wrong."""
    try:
        return math.isfinite(sum(map(float, cells)))
    except ValueError:
        return False


class Columns:
    """The columns of a table, of which every row is counted once."""

    def __init__(self) -> None:
        self._columns: list[Column] = []
        #: Rows that hold nothing but finite numbers.
        self._plain = 0

    def count(self, row: Sequence[str], line: int) -> None:
        """Count a row's cells; empty ones are left out."""
        if are_finite(row):
            self._plain += 1
            return
        while len(self._columns) < len(row):
            self._columns.append(Column())
        for place, (column, cell) in enumerate(zip(self._columns, row, strict=False), 1):
            if cell and not cell.isspace():
                _count(column, cell, f"column {place}, line {line}")

    @property
    def have_numbers(self) -> bool:
        """Whether one of them is a column of numbers."""
        return self._plain > 0 or any(map(self._is_numeric, self._columns))

    @property
    def not_finite(self) -> str | None:
        """Where a column of numbers holds its first NaN or infinity."""
        places = (c.first for c in self._columns if self._is_numeric(c) and c.first is not None)
        return next(places, None)

    def _is_numeric(self, column: Column) -> bool:
        return self._plain + column.finite + column.not_finite > column.text


def _count(column: Column, cell: str, place: str) -> None:
    value = number(cell)
    if value is None:
        column.text += 1
    elif math.isfinite(value):
        column.finite += 1
    else:
        column.not_finite += 1
        column.first = column.first or f"{cell.strip()} in {place}"
