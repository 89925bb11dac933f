"""``table``: a row for each attempt, for a notebook or a spreadsheet.

The columns are those of `HEAD`, then one for each parameter that an attempt ran with, as
``parameters.NAME``, each number (``metrics.NAME``, ``metrics.NAME.error``) and all that it used
(``resources.NAME``). Times are as in the log (UTC), ``seconds`` is from the start of an attempt to
its end, ``verified`` says whether its stage was completed with it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from projections.exports.formats import ExportSource
from projections.words.text import inert, seconds, shown, uncontrolled

_OF_ATTEMPT = ("outcome", "exit_code", "host", "started_at", "ended_at")
HEAD = (
    "stage", "name", "attempt", "outcome", "exit_code", "verified", "host", "started_at",
    "ended_at", "seconds", "outputs",
)  # fmt: skip
Row = dict[str, Any]


def export(source: ExportSource) -> Iterator[str]:
    """Yield the table as CSV: an empty cell for what is not known, a line feed at line ends."""
    rows = _rows(source)
    names = [*HEAD, *sorted({name for row in rows for name in row} - set(HEAD))]
    yield _line(names)
    for row in rows:
        yield _line([shown(row.get(name)) for name in names])


def _line(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([uncontrolled(inert(cell)) for cell in cells])
    return line.getvalue()


def _rows(source: ExportSource) -> list[Row]:
    """Return the rows in the order in which the attempts began."""
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
            row["seconds"] = seconds(attempt.started_at, attempt.ended_at)
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
