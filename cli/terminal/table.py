"""Records as a table: for people aligned and cut to width, for programs as CSV."""

from __future__ import annotations

import csv
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cli.settings import Format
from cli.terminal.output import Output, compact, harmless
from service.reading.moment import Moment

_NUMBER = re.compile(r"[+-]?[\d.]+(?:e[+-]?\d+)?", re.ASCII)
#: How a formula begins, also where the letter is a full-width or a small one.
_FORMULA = "=+-@\N{MINUS SIGN}"
Record = dict[str, Any]


class Column(NamedTuple):
    """A column: its head, what it shows of a record, and the most characters of it."""

    head: str
    text: Callable[[Record], str]
    width: int = 0


def present(
    output: Output,
    records: Sequence[Record],
    columns: Sequence[Column],
    names: Sequence[str],
    view: Moment | None,
) -> None:
    """Print records of a moment as a table, JSON, JSON lines or CSV headed by ``names``."""
    if output.is_text:
        output.print(table(output, records, columns))
    elif output.settings.format is Format.CSV:
        _csv(records, list(records[0]) if records else names, output.is_terminal)
    else:
        output.records(records, lambda _: "", view=view)


def print_csv(records: Sequence[Record], names: Sequence[str]) -> None:
    """Print records to stdout as CSV headed by ``names``, harmless where it is a terminal."""
    _csv(records, names, sys.stdout.isatty())


def _csv(records: Sequence[Record], names: Sequence[str], is_terminal: bool) -> None:
    """Print RFC 4180: values that are no text as JSON, an empty cell for null.

    Words of others must not be carried out by the spreadsheet that opens them, nor by a terminal.
    """
    fit: Callable[[str], str] = harmless if is_terminal else str
    writer = csv.writer(sys.stdout)
    writer.writerow(fit(_inert(name)) for name in names)
    writer.writerows([fit(_inert(shown(record[name]))) for name in names] for record in records)


def _inert(text: str) -> str:
    """Return the text led by an apostrophe where a spreadsheet might take it for a formula.

    One that begins with a line end or a tab is split or trimmed first, whatever comes behind it.
    """
    if not text or _NUMBER.fullmatch(text):
        return text
    start = next((letter for letter in text if not _is_passed_over(letter)), "")
    is_formula = unicodedata.normalize("NFKC", start)[:1] in _FORMULA if start else False
    return f"'{text}" if is_formula or text[0] in "\t\r\n" else text


def _is_passed_over(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "ZC"


def table(output: Output, records: Sequence[Record], columns: Sequence[Column]) -> str:
    """Return the records as aligned text under a head; ``(none)`` where there is no record."""
    if not records:
        return "(none)"
    rows = [[_cell(column.text(record), column.width) for column in columns] for record in records]
    heads = [column.head for column in columns]
    widths = [max(map(len, cells)) for cells in zip(heads, *rows, strict=True)]
    head = output.style(_line(heads, widths), "1")
    return "\n".join([head, *(_line(row, widths) for row in rows)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cell(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if not width or len(line) <= width else f"{line[: width - 1]}…"


def shown(value: Any) -> str:
    """Return a value for a cell: nothing for null, text as it is, the rest as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else compact(value)
