"""Read the recorded task table of a sweep, and format its numbers for a report."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lifecycle.state.workflow import Stage
from lifecycle.sweeps.definition import points_table_path
from lifecycle.sweeps.points import list_value_names
from lifecycle.sweeps.replicates import REPLICATES, SEED, average_replicates
from lifecycle.words.metrics import Metric
from projections.drawing.plots import Plot, plots_of_tasks
from projections.words.format_numbers import format_task_number, name_with_unit
from projections.words.text import format_cell

#: Maximum number of tasks in the table of a report.
_ROWS = 40
#: Maximum size in bytes of a task table that a report reads.
_LARGEST = 32 << 20
#: Suffix of the column with the errors of a metric.
_ERROR = "_error"


@dataclass(frozen=True, slots=True)
class SweepNumbers:
    """The numbers of a sweep: a table with a row for each task, and a plot of each metric.

    ``note`` is a sentence about rows that the table omits, or about a file that cannot be read. It
    is empty if the table is complete.
    """

    stage: Stage
    note: str = ""
    header: Sequence[str] = ()
    rows: list[list[str]] = field(default_factory=list)
    plots: Sequence[Plot] = ()


def collect_sweep_numbers(
    stage: Stage, read: Callable[[Mapping[str, Any]], bytes | None]
) -> SweepNumbers | None:
    """Return the numbers of a sweep from its recorded task table.

    ``read`` returns the content of a recorded file, or None if the file is missing or has changed.
    Return None if the stage is not a sweep with metrics, or has no recorded table.
    """
    metrics = stage.work.task_metrics
    recorded = _find_recorded_table(stage)
    if recorded is None or not metrics:
        return None
    path = recorded["path"]
    content = read(recorded) if recorded.get("size", 0) <= _LARGEST else None
    if content is None:
        return SweepNumbers(
            stage,
            f"The file {path} contains the numbers of all tasks. The report omits them, because "
            "the file is missing, has changed, or is too large.",
        )
    tasks = _read_rows(stage, path, content)
    names = list_value_names(task["values"] for task in tasks)
    return SweepNumbers(
        stage,
        _describe_omitted_rows(path, len(tasks)),
        [*names, *(name_with_unit(name, one.unit) for name, one in metrics.items())],
        [_build_row(task, names, metrics) for task in tasks[:_ROWS]],
        plots_of_tasks([one for one in tasks if one["state"] == "done"], metrics),
    )


def _describe_omitted_rows(path: str, total: int) -> str:
    if total <= _ROWS:
        return ""
    return f"The table shows the first {_ROWS} of {total:,} tasks. The file {path} contains all."


def _find_recorded_table(stage: Stage) -> Mapping[str, Any] | None:
    """Return the recorded table of a sweep, preferably the one with the means of replicates."""
    recorded = {one["path"]: one for one in stage.results}
    paths = reversed(stage.work.tables) if stage.work.replicates > 1 else stage.work.tables
    return next((recorded[path] for path in paths if path in recorded), None)


def _read_rows(stage: Stage, path: str, content: bytes) -> list[dict[str, Any]]:
    """Return a row for each task of a sweep, or for each point if the sweep has replicates."""
    if path == points_table_path(stage.id):
        return _parse_points_table(content)
    tasks = parse_task_table(path, content)
    if stage.work.replicates == 1:
        return tasks
    rows = [{**task, SEED: task["values"].pop(SEED, None)} for task in tasks]
    means = average_replicates(row for row in rows if row["state"] == "done")
    return [{**row, "state": "done"} for row in means]


def _build_row(
    task: Mapping[str, Any], names: Sequence[str], metrics: Mapping[str, Metric]
) -> list[str]:
    """Return the cells of a task. A task without numbers has its state in their place."""
    values = [format_cell(task["values"].get(name)) for name in names]
    missing = "-" if task["state"] == "done" else task["state"]
    return [*values, *(format_task_number(task, name) or missing for name in metrics)]


def parse_task_table(path: str, content: bytes) -> list[dict[str, Any]]:
    """Return the ``values``, ``state``, ``metrics`` and ``errors`` of each task in a task table.

    The suffix of ``path`` decides whether the content is CSV or JSON.
    """
    if path.endswith(".json"):
        tasks: list[dict[str, Any]] = json.loads(content)["tasks"]
        return tasks
    lines = csv.reader(io.StringIO(content.decode(), newline=""))
    header = next(lines)
    # No value and no metric has the name of another column.
    start, end = header.index("state"), header.index("folder") + 1
    return [_build_task(dict(zip(header, line, strict=True)), header[:start], header[end:])
            for line in lines]  # fmt: skip


def _parse_points_table(content: bytes) -> list[dict[str, Any]]:
    """Return the rows of the table with the means over the replicates of each point."""
    lines = csv.reader(io.StringIO(content.decode(), newline=""))
    header = next(lines)
    end = header.index(REPLICATES)
    rows = (dict(zip(header, line, strict=True)) for line in lines)
    return [_build_task({**row, "state": "done"}, header[:end], header[end + 1 :]) for row in rows]


def _build_task(
    row: Mapping[str, str], values: Sequence[str], numbers: Sequence[str]
) -> dict[str, Any]:
    found = {name: _parse_cell(row[name]) for name in numbers if row[name]}
    return {
        "key": row["key"],
        "values": {
            name: _parse_cell(row[name])
            for name in values
            if name not in ("key", "round") and row[name]
        },
        "state": row["state"],
        "metrics": found,
        "errors": {
            name.removesuffix(_ERROR): found[name] for name in found if name.endswith(_ERROR)
        },
    }


def _parse_cell(text: str) -> Any:
    """Return a cell as a JSON value, or as a string if it is not valid JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
