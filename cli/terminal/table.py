"""Records as a table: for people aligned and cut to width, for programs as CSV."""

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
from cli.terminal.output import Output, harmless
from projections.words.text import clipped, inert, shown
from service.errors import InvalidOption
from service.reading.moment import Moment

Record = dict[str, Any]


class TableColumn(NamedTuple):
    """A column: its head, what it shows of a record, and the most characters of it."""

    head: str
    text: Callable[[Record], str]
    width: int = 0


def present(
    output: Output,
    records: Sequence[Record],
    columns: Sequence[TableColumn],
    names: Sequence[str],
    view: Moment | None,
) -> None:
    """Print records of a moment as a table, JSON, JSON lines or CSV headed by ``names``."""
    if output.is_text:
        output.print(table(output, records, columns))
    elif output.settings.format is Format.CSV:
        print_csv(records, list(records[0]) if records else names, output.is_terminal)
    else:
        output.records(records, lambda _: "", view=view)


def print_csv(records: Sequence[Record], names: Sequence[str], is_terminal: bool) -> None:
    """Print RFC 4180 headed by ``names``: values that are no text as JSON, nothing for null.

    Words of others must not be carried out by the spreadsheet that opens them, nor by a terminal.
    """
    writer = csv.writer(sys.stdout)

    def fit(cell: str) -> str:
        return harmless(inert(cell), is_terminal)

    writer.writerow(map(fit, names))
    writer.writerows([fit(shown(record[name])) for name in names] for record in records)


def table(output: Output, records: Sequence[Record], columns: Sequence[TableColumn]) -> str:
    """Return the records as aligned text under a head; ``(none)`` where there is no record."""
    if not records:
        return "(none)"
    rows = [
        [clipped(column.text(record), column.width) for column in columns] for record in records
    ]
    heads = [column.head for column in columns]
    widths = [max(map(len, cells)) for cells in zip(heads, *rows, strict=True)]
    head = output.style(_line(heads, widths), "1")
    return "\n".join([head, *(_line(row, widths) for row in rows)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


#: Leave at once where all fits on the screen, keep colours, keep what was shown.
_LESS = {"LESS": "FRX"}


@contextmanager
def paged(output: Output) -> Iterator[None]:
    """Let what is printed inside go through ``$PAGER`` (else less) where people read a terminal."""
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
        pass  # a person who leaves the pager has seen enough
    finally:
        pager.communicate()
