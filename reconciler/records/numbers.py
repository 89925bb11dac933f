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
    return value, _number(content, file, metric.error) if metric.error else None


def _content(file: Path) -> Any:
    """Return what a JSON file holds, or the columns of a table by their name."""
    text = small_files.text(file)
    if not text:
        raise ValueError(f"metrics: {file.name} is empty or not there")
    delimiter = _TABLES.get(file.suffix.lower())
    if delimiter is None:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"metrics: {file.name} is not JSON: {error}") from error
    header, *rows = csv.reader(io.StringIO(text), delimiter=delimiter)
    return {name: [row[n] for row in rows if n < len(row)] for n, name in enumerate(header)}


def _number(content: Any, file: Path, pointer: str) -> float:
    try:
        found: Any = value_at(content, pointer)
        if file.suffix.lower() in _TABLES:
            # A column alone is its last row.
            cell = found[-1] if isinstance(found, list) else found
            found = json.loads(cell)
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"metrics: {file.name} has no {pointer}") from error
    if not is_number(found):
        raise ValueError(f"metrics: {file.name}#{pointer} is no finite number")
    number: float = found
    return number
