"""Print records as an aligned table for people, or as CSV for programs."""

from __future__ import annotations

import csv
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, NamedTuple

from cli.agent_marks import calling_agent
from cli.settings import Format
from cli.terminal.output import Output, remove_terminal_codes
from projections.words.text import clip_text, escape_formula, format_cell
from service.errors import InvalidOption
from service.reading.point_in_history import Moment

Record = dict[str, Any]


class TableColumn(NamedTuple):
    """A table column: its header, a function that returns its text, and its maximum width."""

    head: str
    text: Callable[[Record], str]
    width: int = 0


def print_records(
    output: Output,
    records: Sequence[Record],
    columns: Sequence[TableColumn],
    names: Sequence[str],
    view: Moment | None,
) -> None:
    """Print records as a table, JSON, JSON lines or CSV.

    ``names`` are the headers of the CSV columns. ``view`` is the moment that the records show.
    """
    if output.is_text:
        output.print(format_table(output, records, columns))
    elif output.settings.format is Format.CSV:
        print_csv(records, list(records[0]) if records else names, output.is_terminal)
    else:
        output.records(records, lambda _: "", view=view)


def print_csv(records: Sequence[Record], names: Sequence[str], is_terminal: bool) -> None:
    """Print the records as CSV (RFC 4180) with the header ``names``.

    Values other than strings are written as JSON, and null as an empty field. Text from other
    programs is escaped, so that neither a spreadsheet nor a terminal executes it.
    """
    writer = csv.writer(sys.stdout)

    def fit(cell: str) -> str:
        return remove_terminal_codes(escape_formula(cell), is_terminal)

    writer.writerow(map(fit, names))
    writer.writerows([fit(format_cell(record[name])) for name in names] for record in records)


def format_table(output: Output, records: Sequence[Record], columns: Sequence[TableColumn]) -> str:
    """Return the records as an aligned table with a header.

    Return ``(none)`` if there are no records.
    """
    if not records:
        return "(none)"
    rows = [
        [clip_text(column.text(record), column.width) for column in columns] for record in records
    ]
    heads = [column.head for column in columns]
    widths = [max(map(len, cells)) for cells in zip(heads, *rows, strict=True)]
    head = output.style(_format_row(heads, widths), "1")
    return "\n".join([head, *(_format_row(row, widths) for row in rows)])


def _format_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


#: Options of less: exit if all fits on the screen, keep colours, keep the screen contents.
_LESS = {"LESS": "FRX"}


@contextmanager
def use_pager(output: Output) -> Iterator[None]:
    """Send the output of the block through the program ``$PAGER`` (default: less).

    Do this only if the output goes to a terminal.
    """
    command: list[str] = []
    if output.is_text and sys.stdout.isatty() and calling_agent() is None:
        line = os.environ.get("PAGER", "less")
        try:
            command = shlex.split(line)
        except ValueError as error:
            said = f"expected a command in $PAGER, found {line!r} ({error})"
            raise InvalidOption(said) from None
    if not (command and shutil.which(command[0])):
        yield
        return
    output.through_pager = True
    environ = {**_LESS, **os.environ}
    pager = subprocess.Popen(
        command, stdin=subprocess.PIPE, encoding="utf-8", errors="backslashreplace", env=environ
    )
    try:
        with redirect_stdout(pager.stdin):
            yield
    except BrokenPipeError:
        pass  # closing the pager early is not an error
    finally:
        pager.communicate()
