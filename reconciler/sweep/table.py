"""Write the table of a sweep's tasks, and select tasks by conditions on its columns."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import points_table_path, task_table_paths
from lifecycle.sweeps.points import list_value_names
from lifecycle.sweeps.replicates import (
    REPLICATES,
    SEED,
    average_replicates,
    derive_seed,
    strip_replicate,
)
from reconciler.attempt.file_digests import has_recorded_content
from reconciler.attempt.markers import move_file_aside
from reconciler.sweep.map_points import count_tasks_before_rounds
from reconciler.sweep.tasks import Task, tasks_of
from service.root.atomic_files import utc_text, write_whole


def _build_row(stage: str, task: Task) -> dict[str, Any]:
    """Return the row of a task of a stage in the table, as plain JSON values.

    Times are in ISO 8601, UTC.
    """
    seconds = None
    if task.started is not None and task.ended is not None:
        # If the clock was set back while the task ran, its duration is unknown.
        seconds = (task.ended - task.started) / 1e6 if task.ended >= task.started else None
    return {
        "key": task.point.key,
        "values": dict(task.point.values),
        **_build_seed_field(stage, task),
        "state": task.state,
        "attempts": task.begun,
        "attempt": task.attempt,
        "exit_code": task.exit_code,
        "started_at": _format_time(task.started),
        "ended_at": _format_time(task.ended),
        "seconds": seconds,
        "cpu_seconds": task.used.get("cpu_seconds"),
        "memory": task.used.get("peak_memory_bytes"),
        "folder": task.folder,
        "why": task.why,
        "outputs": [dict(one) for one in task.outputs],
        "metrics": dict(task.metrics),
        **({"errors": dict(task.errors)} if task.errors else {}),
    }


def _build_seed_field(stage: str, task: Task) -> dict[str, int]:
    """Return the seed of a task, by the name of its column. Without replicates, return {}."""
    if not task.point.is_replicate:
        return {}
    return {SEED: derive_seed(stage, task.point.key)}


def _format_time(micros: int | None) -> str | None:
    return None if micros is None else utc_text(datetime.fromtimestamp(micros / 1e6, UTC))


def _render_csv(stage: Stage, rows: Sequence[Mapping[str, Any]], *, is_looped: bool) -> str:
    """Return the table of tasks as CSV text.

    The columns are the key, the round if the sweep is in a loop, the parameter values, the state
    and the metrics of each task. A cell is empty if the task's point has no such value.
    """
    metrics = stage.work.task_rules.metrics
    numbers = list(metrics)
    errors = [name for name, metric in metrics.items() if metric.error]
    values = list_value_names(row["values"] for row in rows)
    seeds = [SEED] if rows and SEED in rows[0] else []
    about = [*seeds, "state", "attempts", "exit_code", "seconds", "cpu_seconds", "memory", "folder"]
    first = ["key", *(["round"] if is_looped else [])]
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow([*first, *values, *about, *numbers, *(f"{name}_error" for name in errors)])
    for row in rows:
        own = [row["values"].get(name) for name in values] + [row[name] for name in about]
        cells = [*own, *(row["metrics"].get(name) for name in numbers)]
        cells += [row.get("errors", {}).get(name) for name in errors]
        texts = (one if one is None or isinstance(one, str) else json.dumps(one) for one in cells)
        lines.writerow([*(row[name] for name in first), *texts])
    return out.getvalue()


def rows_of(stage: str, tasks: Sequence[Task], rounds: Sequence[int] = ()) -> list[dict[str, Any]]:
    """Return the rows of the table for all tasks.

    ``rounds`` contains the number of tasks before each round. It is empty for a sweep in no loop.
    """
    if not rounds:
        return [_build_row(stage, task) for task in tasks]
    return [
        {**_build_row(stage, task), "round": sum(before <= number for before in rounds)}
        for number, task in enumerate(tasks)
    ]


def write_table(
    root: Path, stage: Stage, tasks: Sequence[Task], rounds: Sequence[int] = ()
) -> None:
    """Write the table of tasks as CSV and as JSON.

    ``rounds`` contains the number of tasks before each round, as in `rows_of`.
    """
    for path, content in _render_table(stage, tasks, rounds).items():
        write_whole(root / path, content)


def _render_table(stage: Stage, tasks: Sequence[Task], rounds: Sequence[int]) -> dict[str, bytes]:
    """Return the content of the table as CSV and as JSON, by the path of the file."""
    as_csv, as_json = task_table_paths(stage.id)
    rows = rows_of(stage.id, tasks, rounds)
    document = json.dumps({"stage": stage.id, "tasks": rows}, ensure_ascii=False)
    text = _render_csv(stage, rows, is_looped=bool(rounds))
    found = {as_csv: text.encode(), as_json: document.encode() + b"\n"}
    if rows and SEED in rows[0]:
        found[points_table_path(stage.id)] = _render_points_csv(stage, rows).encode()
    return found


def _render_points_csv(stage: Stage, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the means of each point's replicates as CSV text, with their standard errors.

    Only finished tasks are used. A point without finished tasks has empty cells.
    """
    metrics = stage.work.task_rules.metrics
    means = {row["key"]: row for row in average_replicates(_select_done_rows(rows))}
    values = list_value_names(strip_replicate(row["values"]) for row in rows)
    errors = [f"{name}_error" for name in metrics]
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(["key", *values, REPLICATES, *metrics, *errors])
    for point in average_replicates(rows):
        mean = means.get(point["key"], {"metrics": {}, "errors": {}, REPLICATES: 0})
        cells = [*(point["values"].get(name) for name in values), mean[REPLICATES]]
        cells += [mean["metrics"].get(name) for name in metrics]
        cells += [mean["errors"].get(name) for name in metrics]
        texts = (one if one is None or isinstance(one, str) else json.dumps(one) for one in cells)
        lines.writerow([point["key"], *texts])
    return out.getvalue()


def _select_done_rows(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["state"] == "done"]


def restore_tables(
    root: Path, state: Workflow, stage: Stage, *, dry_run: bool = False
) -> list[str]:
    """Write damaged tables of a sweep again from its tasks, and return their paths.

    A table is written only if its new content has the digest in the log. The damaged file is moved
    to the folder of the newest attempt. With ``dry_run``, nothing is written. Raises any error of
    `tasks_of`.
    """
    contents = _render_table(
        stage, tasks_of(root, state, stage), count_tasks_before_rounds(state, stage)
    )
    restored = []
    for one in stage.results:
        path, content = one["path"], contents.get(one["path"], b"")
        is_recorded = sha256(content).hexdigest() == one["sha256"]
        if path not in contents or not is_recorded or has_recorded_content(root / path, one):
            continue
        restored.append(path)
        if not dry_run:
            move_file_aside(root, stage.id, path, stage.attempt.name if stage.attempt else None)
            write_whole(root / path, content)
    return restored
