"""The numbers of a stage, and whether they are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lifecycle.payload import models as p
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep, table_of
from lifecycle.words.metrics import Metric, file_of, metrics_of, resolved
from reconciler.records.numbers import measured


def numbers_of(
    root: Path, state: Workflow, stage: Stage
) -> tuple[list[p.Check], list[p.MeasuredNumber]]:
    """Return the numbers of a stage, and a check of each that it is there.

    Of a sweep they are those of its best task, by each metric that says which is the better.
    """
    checks = [*_files(root, state, stage)]
    if is_sweep(stage.parameters):
        return checks, _of_tasks(root, state, stage)
    found = []
    for name, metric in metrics_of(stage.parameters).items():
        path = file_of(stage.id, stage.outputs, metric)
        about = f"metrics.{name}"
        try:
            value, error = measured(root / path, metric)
        except ValueError as problem:
            said = str(problem).removeprefix("metrics: ")
            checks.append(p.Check(name=about, passed=False, detail=said))
            continue
        told = f"{value!r}" if error is None else f"{value!r} ± {error!r}"
        checks.append(p.Check(name=about, passed=True, detail=f"{told} {metric.unit}".rstrip()))
        found.append(_of(metric, value, error, path))
    return checks, found


def _files(root: Path, state: Workflow, stage: Stage) -> Iterator[p.Check]:
    """Yield a check of each file that answers the question and lies in a folder of the outputs."""
    for text in state.results:
        named = resolved(text, [stage])
        if named is not None and named.path and named.path not in stage.outputs:
            is_there = (root / named.path).exists()
            told = named.path if is_there else f"{named.path}, which the results name, is not there"
            yield p.Check(name=f"results: {named.path}", passed=is_there, detail=told)


def _of(
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


def _of_tasks(root: Path, state: Workflow, stage: Stage) -> list[p.MeasuredNumber]:
    wanted = [metric for metric in metrics_of(stage.parameters).values() if metric.better]
    if not wanted:
        return []
    from reconciler.sweep.tasks import Task, tasks_of  # only of a sweep that names its best

    tasks = [task for task in tasks_of(root, state, stage) if task.state == "done"]

    def best(metric: Metric) -> Task | None:
        choose = min if metric.better == "lower" else max
        having = [task for task in tasks if metric.name in task.metrics]
        return choose(having, key=lambda task: task.metrics[metric.name], default=None)

    found = [(metric, best(metric)) for metric in wanted]
    tables = table_of(stage.id)
    table = next((path for path in tables if path in stage.outputs), tables[0])
    return [
        _of(metric, task.metrics[metric.name], task.errors.get(metric.name), table, task.point.key)
        for metric, task in found
        if task is not None
    ]
