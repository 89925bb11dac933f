"""A number that a stage or a task was asked for, as it stands in a file that was left."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from lifecycle.words.document import value_at
from lifecycle.words.metrics import Metric, is_number
from reconciler.host import small_files

_TABLES = {".csv": ",", ".tsv": "\t"}


def measured(file: Path, metric: Metric) -> tuple[float, float | None]:
    """Return a number and its error, None if it has no place; raises ValueError."""
    content = _content(file)
    value = _number(content, file, metric.pointer)
    error = _number(content, file, metric.error) if metric.error else None
    if error is not None and error < 0:
        raise ValueError(
            f"metrics: {file.name}#{metric.error} is {error!r}; expected a standard error of 0 or "
            "more"
        )
    return value, error


def _content(file: Path) -> Any:
    """Return what a JSON file holds, or the columns of a table by their name."""
    try:
        text = (small_files.content(file) or b"").decode(errors="replace").removeprefix("\ufeff")
    except OSError as error:
        raise ValueError(f"metrics: {file.name} cannot be read: {error.strerror}") from error
    if not text:
        raise ValueError(f"metrics: {file.name} is empty or not there")
    delimiter = _TABLES.get(file.suffix.lower())
    try:
        return json.loads(text) if delimiter is None else _columns(text, delimiter)
    except (ValueError, RecursionError, csv.Error) as error:
        form = "JSON" if delimiter is None else "a table"
        raise ValueError(f"metrics: {file.name} is not {form}: {error}") from error


def _columns(text: str, delimiter: str) -> dict[str, list[str]]:
    """Return the cells of each column; a row that ends before it has an empty one."""
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    header = rows[0] if rows else []
    # Of two columns with one name neither is the one that was meant.
    alone = [n for n, name in enumerate(header) if header.count(name) == 1]
    return {header[n]: [row[n] if n < len(row) else "" for row in rows[1:]] for n in alone}


def _number(content: Any, file: Path, pointer: str) -> float:
    try:
        found: Any = value_at(content, pointer)
        if file.suffix.lower() in _TABLES:
            # A column alone is its last row.
            found = _of_cell(found[-1] if isinstance(found, list) else found)
    except (ValueError, LookupError, TypeError) as error:
        what = "single number at " if file.suffix.lower() in _TABLES else ""
        raise ValueError(f"metrics: {file.name} has no {what}{pointer}") from error
    if not is_number(found):
        raise ValueError(f"metrics: {file.name}#{pointer} is no finite number")
    number: float = found
    return number


def _of_cell(cell: str) -> Any:
    """Return the number of a cell, as JSON or as other programs write it: ``.5``, ``+2.``."""
    try:
        return json.loads(cell)
    except ValueError:
        if "_" in cell or not cell.isascii():
            raise
        return float(cell)
