"""Read a number that a plan names as a metric from an output file."""

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


def read_metric(file: Path, metric: Metric) -> tuple[float, float | None]:
    """Return the value of a metric and its error, read from an output file.

    The error is None if the metric has none. Raises ValueError if a number is missing or invalid.
    """
    content = _read_json_or_table(file)
    value = _number(content, file, metric.pointer)
    error = _number(content, file, metric.error) if metric.error else None
    if error is not None and error < 0:
        raise ValueError(
            f"metrics: the standard error {file.name}#{metric.error} must be 0 or more, but it is "
            f"{error!r}"
        )
    return value, error


def _read_json_or_table(file: Path) -> Any:
    """Return the content of a JSON file, or the columns of a CSV or TSV file by name."""
    try:
        text = (
            (small_files.read_content(file) or b"").decode(errors="replace").removeprefix("\ufeff")
        )
    except OSError as error:
        raise ValueError(f"metrics: {file.name} cannot be read: {error.strerror}") from error
    if not text:
        raise ValueError(f"metrics: {file.name} is empty or does not exist")
    delimiter = _TABLES.get(file.suffix.lower())
    try:
        return json.loads(text) if delimiter is None else _parse_table_columns(text, delimiter)
    except (ValueError, RecursionError, csv.Error) as error:
        form = "JSON" if delimiter is None else "a table"
        raise ValueError(f"metrics: {file.name} is not {form}: {error}") from error


def _parse_table_columns(text: str, delimiter: str) -> dict[str, list[str]]:
    """Return the cells of each column of a table, by the name of the column.

    A row that is too short gives empty cells.
    """
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    header = rows[0] if rows else []
    # Two columns with the same name cannot be distinguished, so both are left out.
    alone = [n for n, name in enumerate(header) if header.count(name) == 1]
    return {header[n]: [row[n] if n < len(row) else "" for row in rows[1:]] for n in alone}


def _number(content: Any, file: Path, pointer: str) -> float:
    try:
        found: Any = value_at(content, pointer)
        if file.suffix.lower() in _TABLES:
            # If the metric names a whole column, the value is in the last row.
            found = _parse_cell_number(found[-1] if isinstance(found, list) else found)
    except (ValueError, LookupError, TypeError) as error:
        what = "single number at " if file.suffix.lower() in _TABLES else ""
        raise ValueError(f"metrics: {file.name} has no {what}{pointer}") from error
    if not is_number(found):
        raise ValueError(f"metrics: {file.name}#{pointer} is not a finite number")
    number: float = found
    return number


def _parse_cell_number(cell: str) -> Any:
    """Return the number in a table cell. Raises ValueError if the cell contains no number.

    JSON numbers and formats such as ``.5`` and ``+2.`` are accepted.
    """
    try:
        return json.loads(cell)
    except ValueError:
        if "_" in cell or not cell.isascii():
            raise
        return float(cell)
