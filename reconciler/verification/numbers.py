"""Read the metrics of a stage from its outputs, and check that they exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.metrics import Metric, metric_file_path, resolve_result
from reconciler.records.numbers import read_metric
from service.root.folder_entries import exists


def measure_numbers(
    root: Path, state: Workflow, stage: Stage
) -> tuple[list[p.Check], list[p.MeasuredNumber]]:
    """Return the checks and the values of a stage's metrics.

    There is one check for each metric, which fails if its value cannot be read. For a sweep, the
    values are those of the best task for each metric that defines which task is best.
    """
    checks = [*_check_result_files(root, state, stage)]
    found = _find_best_task_numbers(root, state, stage)
    for name, metric in stage.work.output_metrics.items():
        path = metric_file_path(stage.id, stage.outputs, metric)
        about = f"metrics.{name}"
        try:
            value, error = read_metric(root / path, metric)
        except ValueError as problem:
            said = str(problem).removeprefix("metrics: ")
            checks.append(p.Check(name=about, passed=False, detail=said))
            continue
        told = f"{value!r}" if error is None else f"{value!r} ± {error!r}"
        checks.append(p.Check(name=about, passed=True, detail=f"{told} {metric.unit}".rstrip()))
        found.append(_build_number(metric, value, error, path))
    return checks, found


def _check_result_files(root: Path, state: Workflow, stage: Stage) -> Iterator[p.Check]:
    """Yield a check for each file in the stage's outputs that the plan names as a result."""
    for text in state.results:
        named = resolve_result(text, [stage])
        if named is not None and named.path and named.path not in stage.outputs:
            is_there = exists(root / named.path)
            told = (
                named.path
                if is_there
                else f"{named.path}, which the plan names as a result, does not exist"
            )
            yield p.Check(name=f"results: {named.path}", passed=is_there, detail=told)


def _build_number(
    metric: Metric, value: float, error: float | None, path: str, task: str | None = None
) -> p.MeasuredNumber:
    return p.MeasuredNumber(
        name=metric.name,
        value=value,
        error=error,
        unit=metric.unit or None,
        path=path,
        pointer=metric.pointer,
        task=task,
    )


def _find_best_task_numbers(root: Path, state: Workflow, stage: Stage) -> list[p.MeasuredNumber]:
    wanted = [metric for metric in stage.work.task_metrics.values() if metric.better]
    if not wanted:
        return []
    from lifecycle.sweeps.replicates import REPLICATES, average_replicates
    from reconciler.sweep.stage_tasks import get_stage_tasks  # only for a sweep

    rows = get_stage_tasks(root, state, stage).rows()
    means = average_replicates(row for row in rows if row["state"] == "done")
    # The best of many means without an error would be the luckiest replicate, so points with all
    # replicates come first.
    complete = [one for one in means if one.get(REPLICATES, 1) == stage.work.replicates]
    points = complete or means

    def best(metric: Metric) -> dict[str, Any] | None:
        choose = min if metric.better == "lower" else max
        having = [point for point in points if metric.name in point["metrics"]]
        return choose(having, key=lambda point: point["metrics"][metric.name], default=None)

    found = [(metric, best(metric)) for metric in wanted]
    tables = stage.work.tables
    table = next((path for path in tables if path in stage.outputs), tables[0])
    return [
        _build_number(
            metric,
            point["metrics"][metric.name],
            point.get("errors", {}).get(metric.name),
            table,
            point["key"],
        )
        for metric, point in found
        if point is not None
    ]
