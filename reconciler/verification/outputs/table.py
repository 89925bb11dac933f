"""CSV (RFC 4180) and TSV: as many cells in every row, and numbers in columns of numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import BinaryIO

from reconciler.verification.outputs.column import Columns, number
from reconciler.verification.outputs.lines import TextLine, lines
from reconciler.verification.outputs.reading import Cut, FileReading


class _Ragged(Exception):
    """A row that has not as many cells as those before it."""


def read(stream: BinaryIO, kind: str) -> FileReading:
    """Read a table whose cells are parted by a comma (a semicolon), a tab for ``TSV``.

    Lines that begin with ``#`` are comments.
    """
    columns = Columns()
    last: list[TextLine] = []
    rows = width = 0
    try:
        for line, row in _rows(stream, kind, last):
            if rows and len(row) != width:
                raise _Ragged(f"line {line} has {len(row)} cells, the lines before it {width}")
            rows, width = rows + 1, len(row)
            if rows > 1 or _has_numbers(row):
                columns.count(row, line)
    except (csv.Error, _Ragged, Cut) as error:
        return FileReading(kind, problem=str(error), not_finite=columns.not_finite)
    return FileReading(
        kind,
        f"{rows} rows of {width}",
        problem=_cut_off(rows, last),
        not_finite=columns.not_finite,
        has_numbers=columns.have_numbers,
    )


def _rows(stream: BinaryIO, kind: str, last: list[TextLine]) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the number of the line it ends on; keep the newest line in ``last``."""
    text = (line.text for line in _noted(lines(stream), last) if not line.text.startswith("#"))
    first = next(text, "").removeprefix("\ufeff")
    parted = "\t" if kind == "TSV" else ";" if ";" in first and "," not in first else ","

    def all_lines() -> Iterator[str]:
        yield first
        yield from text

    for row in csv.reader(all_lines(), delimiter=parted, strict=True):
        if row:
            yield last[0].number, row


def _noted(found: Iterator[TextLine], last: list[TextLine]) -> Iterator[TextLine]:
    for line in found:
        last[:] = [line]
        yield line


def _has_numbers(row: list[str]) -> bool:
    return any(number(cell) is not None for cell in row)


def _cut_off(rows: int, last: list[TextLine]) -> str | None:
    if rows > 1 and last and not last[0].ended:
        return f"the last line is cut off: {last[0].text[-60:]!r} has no newline at its end"
    return None
