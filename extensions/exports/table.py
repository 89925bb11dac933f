"""The export format ``table``: a CSV file with a row for each attempt of a stage.

The first columns are listed in `HEAD`. Then follow a column for each parameter
(``parameters.NAME``), each number (``metrics.NAME``, ``metrics.NAME.error``) and each used resource
(``resources.NAME``). Times are UTC. ``seconds`` is the duration of the attempt. ``verified`` is
true if the attempt completed its stage.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from extensions.exports.formats import ExportSource
from projections.words.text import (
    compute_seconds,
    escape_formula,
    format_cell,
    mark_control_characters,
)

_OF_ATTEMPT = ("outcome", "exit_code", "host", "started_at", "ended_at")
HEAD = (
    "stage", "name", "attempt", "outcome", "exit_code", "verified", "host", "started_at",
    "ended_at", "seconds", "outputs",
)  # fmt: skip
Row = dict[str, Any]


def export_table(source: ExportSource) -> Iterator[str]:
    """Yield the table of attempts as CSV with line feeds. Unknown values are empty cells."""
    rows = _collect_rows(source)
    names = [*HEAD, *sorted({name for row in rows for name in row} - set(HEAD))]
    yield _format_line(names)
    for row in rows:
        yield _format_line([format_cell(row.get(name)) for name in names])


def _format_line(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(
        [mark_control_characters(escape_formula(cell)) for cell in cells]
    )
    return line.getvalue()


def _collect_rows(source: ExportSource) -> list[Row]:
    """Return a row for each attempt, in the order in which the attempts started."""
    found: dict[tuple[str, str], Row] = {}
    for event, state in source.steps():
        stage = state.stages.get(str(event.data.get("stage")))
        if stage is None:
            continue
        if event.type == "attempt.started":
            key = stage.id, str(event.data["attempt"])
            found[key] = {f"parameters.{name}": value for name, value in stage.parameters.items()}
        for attempt in stage.attempts:
            row = found.setdefault((stage.id, attempt.id), {})
            row |= {name: getattr(attempt, name) for name in _OF_ATTEMPT}
            row |= {"stage": stage.id, "name": stage.name, "attempt": attempt.id}
            row["seconds"] = compute_seconds(attempt.started_at, attempt.ended_at)
            row |= {f"resources.{name}": value for name, value in attempt.resources.items()}
            for one in attempt.metrics:
                name, error = f"metrics.{one['name']}", one.get("error")
                row |= {name: one["value"]} | (
                    {f"{name}.error": error} if error is not None else {}
                )
            row.setdefault("verified", False)
        if event.type == "stage.completed" and stage.attempt is not None:
            outputs = {one["path"]: one["sha256"] for one in event.data.get("outputs") or []}
            found[stage.id, stage.attempt.id] |= {"verified": True, "outputs": outputs}
    return [{name: row.get(name) for name in HEAD} | row for row in found.values()]
