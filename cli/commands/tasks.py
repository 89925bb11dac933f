"""``wfctl tasks``, ``metrics``, ``logs``, ``show``: show a stage, its tasks and numbers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cli.frame.context import Context
from cli.frame.options import Stage, Text, Texts, argument, option
from cli.frame.workspace import OpenedWorkflow, open_for_reading
from cli.settings import Format
from lifecycle.state.workflow import Stage as Known
from lifecycle.state.workflow import Workflow
from lifecycle.sweeps.definition import is_sweep
from lifecycle.sweeps.definition import parse_ranges as numbers_of_tasks
from lifecycle.words.mandates import format_count
from lifecycle.words.metrics import parse_valid_metrics
from service.errors import InvalidOption, NotFound
from service.reading.point_in_history import Moment

if TYPE_CHECKING:
    from lifecycle.words.metrics import Metric
    from reconciler.sweep.tasks import Task


Where = Annotated[
    Texts,
    option(
        "--where",
        "'T>2'",
        "List only tasks that meet this condition on a parameter or metric. Repeat "
        "the option to combine conditions.",
    ),
]
#: Maximum number of tasks in a list by default.
_LISTED = 20


def tasks(
    context: Context,
    stage: Stage,
    failed: bool = option("List only failed tasks."),
    where: Where = None,
    lines: int = option(
        "-n", "--lines", "List at most N tasks. Use 0 to list all tasks.", min=0, default=_LISTED
    ),
) -> None:
    """List the tasks of a sweep.

    A sweep is a stage that runs its command once for each set of parameter values. Each of these
    runs is a task. The list shows the status, values, times and numbers of each task.
    """
    from reconciler.sweep.stage_tasks import get_stage_tasks
    from reconciler.sweep.tasks import count_by_state

    with open_for_reading(context) as workflow:
        conditions = [*(where or []), *(["state=failed"] if failed else [])]
        found, chosen = list_tasks_and_matching_rows(workflow, stage, conditions)
        csv = workflow.output.settings.format is Format.CSV
        shown = chosen if lines == 0 or csv else chosen[:lines]
        if csv:
            _print_csv(shown)
            return
        counts = count_by_state(found)
        data = {"stage": stage, "total": len(found), "counts": counts, "chosen": len(chosen)}
        state = workflow.state()
        tasks_of_stage = get_stage_tasks(workflow.root.path, state, state.stage(stage))
        start = tasks_of_stage.describe_start(counts)
        data |= {"start": start} if start else {}
        workflow.output.result(
            {**data, "tasks": shown},
            lambda: _format_tasks(workflow, stage, counts, start, shown, len(chosen) - len(shown)),
            state=state,
        )


#: Fields of a metric in the output, in this order.
_OF_NUMBER = ("name", "value", "error", "unit", "task", "path", "pointer")


def metrics(
    context: Context,
    stage: Text = argument(
        "[STAGE]", "The id of the stage, for example stage-2. Default: all completed stages."
    ),
    where: Where = None,
    plot: Text = option(
        "NAME",
        "Plot this metric for all tasks of a sweep, or for all attempts (runs) of the stage.",
    ),
    over: Text = option("VALUE", "Use this sweep parameter for the x axis. Requires --plot."),
) -> None:
    """Show metrics as a table or plot.

    Metrics are the numbers in output files that `parameters.metrics` of a stage names.
    """
    with open_for_reading(context) as workflow:
        state = workflow.state()
        if plot is not None or over is not None:
            known = state.stage(stage) if stage is not None else None
            _print_plot(workflow, known, plot, over, where or [])
            return
        rows = list_metric_rows(workflow, stage, where or [])
        if workflow.output.settings.format is Format.CSV:
            _print_csv(rows)
            return
        workflow.output.result(
            {"stage": stage, "metrics": rows},
            lambda: (
                _format_rows(workflow, _build_metric_cells(state, stage, rows))
                if rows
                else _explain_missing_metrics(state)
            ),
            state=state,
        )


def _build_metric_cells(
    state: Workflow, id_: str | None, rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows of a table for people. Numbers have their errors and sensible digits."""
    from projections.words.format_numbers import (
        format_quantity,
        format_with_error,
        name_with_unit,
    )

    if "key" not in rows[0]:
        shown = ("stage", "name", "value", "task", "path", "pointer")
        return [
            {name: one[name] for name in shown}
            | {"value": format_quantity(one["value"], one["error"], one["unit"])}
            for one in rows
        ]
    metrics = state.stage(str(id_)).work.task_metrics
    numbers = {*metrics, *(f"{name}_error" for name in metrics)}
    return [
        {name: value for name, value in one.items() if name not in numbers}
        | {
            name_with_unit(name, metric.unit): format_with_error(
                one[name], one.get(f"{name}_error")
            )
            for name, metric in metrics.items()
            if name in one
        }
        for one in rows
    ]


def _explain_missing_metrics(state: Workflow) -> str:
    """Return a message that explains why the log contains no metrics of completed stages."""
    declared = [stage for stage in state.stages.values() if stage.parameters.get("metrics")]
    if not declared:
        return "no stage declares metrics (parameters.metrics)"
    lines = ["no metrics of a whole stage are recorded:"]
    for stage in declared:
        tasks = stage.attempts[-1].tasks if stage.attempts else None
        done = len(numbers_of_tasks((tasks or {}).get("done", "")))
        finished = format_count(done, "finished task")
        source = (
            f"`wfctl tasks {stage.id}` lists the metrics of its {finished}"
            if done
            else "it records its metrics when it is completed"
        )
        lines.append(f"{stage.id} is {stage.status.value}; {source}")
    return "\n".join(lines)


def list_metric_rows(
    workflow: OpenedWorkflow, id_: str | None, conditions: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return one row for each metric of a stage, or of all stages if ``id_`` is None.

    A sweep (stage with one task per point) has one row for each finished task that meets the
    conditions. Raises `NotFound` if the stage has no metrics, and `InvalidOption` for wrong
    conditions.
    """
    state = workflow.state()
    known = state.stage(id_) if id_ is not None else None
    if known is not None and known.parameters.get("metrics") is None:
        raise NotFound(
            f"the stage {id_} has no metrics. Add the field parameters.metrics to the definition "
            "of the stage.",
            stage=id_,
        )
    if known is not None and (conditions or known.work.tables):
        from lifecycle.sweeps.points import list_value_names
        from lifecycle.sweeps.replicates import REPLICATES

        points = _list_finished_points(workflow, known, conditions)
        blank = dict.fromkeys(list_value_names(row["values"] for row in points))
        return [
            {"key": r["key"], **blank, **r["values"]}
            | ({REPLICATES: r[REPLICATES]} if REPLICATES in r else {})
            | {**r["metrics"], **_get_metric_errors(r)}
            for r in points
        ]
    if conditions:
        raise InvalidOption(
            "the option --where selects tasks of a stage, but no stage was given. Add the id of "
            "the stage."
        )
    every = state.stages.values() if known is None else [known]
    return [
        {"stage": one.id, **{name: number[name] for name in _OF_NUMBER}}
        for one in every
        for number in one.metrics
    ]


def _list_finished_points(
    workflow: OpenedWorkflow, stage: Known, conditions: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows of the finished tasks that meet the conditions.

    For a sweep with replicates, return the means over the finished replicates of each point. The
    conditions then apply to the means, because a choice among the replicates would change the mean.
    Raises `InvalidOption` for wrong conditions.
    """
    from lifecycle.sweeps.points import list_value_names
    from lifecycle.sweeps.replicates import REPLICATES, SEED, average_replicates
    from reconciler.sweep import task_conditions

    done = ["state=done"]
    _, rows = list_tasks_and_matching_rows(workflow, stage.id, [*done])
    if not rows or SEED not in rows[0]:
        return list_tasks_and_matching_rows(workflow, stage.id, [*conditions, *done])[1]
    points = average_replicates(rows)
    metrics = stage.work.task_metrics
    names = [*list_value_names(point["values"] for point in points), *metrics]
    names += [*(f"{name}_error" for name in metrics), REPLICATES]
    try:
        task_conditions.check_point_conditions(names, conditions)
    except task_conditions.UnknownColumn as error:
        raise InvalidOption(f"--where: {error}") from error
    return [point for point in points if task_conditions.row_matches(point, conditions)]


def _get_metric_errors(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the standard errors of a task's metrics.

    The keys are the column names in the table of tasks, such as ``energy_error``.
    """
    return {f"{name}_error": error for name, error in row.get("errors", {}).items()}


def _print_plot(
    workflow: OpenedWorkflow,
    stage: Known | None,
    name: str | None,
    over: str | None,
    conditions: Sequence[str],
) -> None:
    """Print a plot of a metric of one stage."""
    from projections.drawing.plots import draw_braille_plot, plot_of_attempts, plot_of_tasks

    if stage is None or name is None:
        raise InvalidOption(
            "a plot needs the id of a stage and the option --plot NAME. For example, run `wfctl "
            "metrics stage-2 --plot tc`."
        )
    numbers = parse_valid_metrics(stage.parameters)
    if name not in numbers:
        known = ", ".join(numbers) or "none"
        raise NotFound(f"{stage.id} has no metric {name!r}; its metrics: {known}", stage=stage.id)
    if name in stage.work.task_metrics:
        rows = _list_finished_points(workflow, stage, conditions)
        found = plot_of_tasks(rows, name, over, numbers[name].unit)
    else:
        found = plot_of_attempts(stage.attempts, name)
    if found is None:
        among = f" at different values of {over}" if over else ""
        raise NotFound(
            (
                f"the stage {stage.id} has fewer than two values of the metric {name}{among}, so "
                "wfctl cannot draw a plot."
            ),
            stage=stage.id,
        )
    drawn = found
    workflow.output.result(drawn.to_dict(), lambda: "\n".join(draw_braille_plot(drawn)))


def list_tasks_and_matching_rows(
    workflow: OpenedWorkflow, id_: str, conditions: Sequence[str], view: Moment | None = None
) -> tuple[list[Task], list[dict[str, Any]]]:
    """Return all tasks of a sweep, and one row for each task that meets the conditions.

    A sweep is a stage with one task per point. Raises `NotFound` if the stage is not a sweep, and
    `InvalidOption` if a condition names an unknown column.
    """
    from lifecycle.sweeps.points import list_value_names
    from reconciler.sweep import table, task_conditions
    from reconciler.sweep.map_points import count_tasks_before_rounds
    from reconciler.sweep.tasks import tasks_of

    state = workflow.state(view)
    stage = state.stage(id_)
    if not is_sweep(stage.parameters):
        raise NotFound(
            f"the stage {id_} has no tasks, because it is not a sweep. The definition of a sweep "
            "has the field parameters.map.",
            stage=id_,
        )
    found = tasks_of(workflow.root.path, state, stage)
    rounds = count_tasks_before_rounds(state, stage)
    names = list_value_names(task.point.values for task in found)
    names += stage.work.task_rules.metrics
    names += ["round"] if rounds else []
    try:
        task_conditions.check_conditions(names, conditions)
    except task_conditions.UnknownColumn as error:
        raise InvalidOption(f"--where: {error}") from error
    rows = table.rows_of(stage.id, found, rounds)
    return found, [row for row in rows if task_conditions.row_matches(row, conditions)]


def _format_tasks(
    workflow: OpenedWorkflow,
    stage: str,
    counts: dict[str, int],
    start: str | None,
    shown: list[dict[str, Any]],
    more: int,
) -> str:
    from projections.words.stage_progress import format_task_progress
    from reconciler.sweep.identical_replicates import describe_identical_replicates

    metrics = workflow.state().stage(stage).work.task_metrics
    rows = [_build_task_cells(row, metrics) for row in shown]
    lines = [f"{stage}: {format_task_progress(counts)}", *([start] if start else [])]
    lines.append(_format_rows(workflow, rows))
    warning = describe_identical_replicates(stage, shown)
    lines += [] if warning is None else [warning]
    return "\n".join([*lines, *([f"and {more:,} more (-n 0 lists all)"] if more else [])])


def _build_task_cells(row: Mapping[str, Any], metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """Return the cells of a task in the table for people."""
    from projections.words.format_numbers import format_task_number, name_with_unit
    from projections.words.text import format_byte_count

    memory = row["memory"]
    return {
        **{name: row[name] for name in ("key", "state", "attempts", "exit_code")},
        **{name: _format_seconds(row[name]) for name in ("seconds", "cpu_seconds")},
        "memory": None if memory is None else format_byte_count(memory),
        **{name_with_unit(n, one.unit): format_task_number(row, n) for n, one in metrics.items()},
        "why": row["why"],
        "folder": row["folder"],
    }


def _format_seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"


def _format_rows(workflow: OpenedWorkflow, rows: list[dict[str, Any]]) -> str:
    from cli.terminal.table import TableColumn, format_table
    from projections.words.text import format_cell

    def text(name: str, row: dict[str, Any]) -> str:
        return format_cell(row.get(name))

    names = list(dict.fromkeys(name for row in rows for name in row))
    return format_table(
        workflow.output, rows, [TableColumn(n, partial(text, n), 60) for n in names]
    )


def _print_csv(rows: list[dict[str, Any]]) -> None:
    from cli.terminal.table import print_csv

    plain = [*map(flatten_row, rows)]
    names = list(dict.fromkeys(name for row in plain for name in row))
    plain = [{**dict.fromkeys(names), **row} for row in plain]
    print_csv(plain, names or ["key"], sys.stdout.isatty())


def flatten_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in which each parameter value and each metric is a separate column."""
    found = {**row, **row.get("values", {}), **row.get("metrics", {}), **_get_metric_errors(row)}
    nested = ("values", "metrics", "errors", "outputs")
    return {name: value for name, value in found.items() if name not in nested}


#: Maximum number of attempts shown, and maximum number of characters of a value.
_NEWEST, _WIDE = 3, 200
