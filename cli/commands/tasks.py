"""``wfctl tasks`` and ``wfctl metrics``: the tasks of a stage with a map, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.options import Stage
from cli.frame.workspace import reading
from cli.settings import Format
from lifecycle.sweeps.definition import is_sweep, sweep_of
from service.errors import InvalidOption, NotFound

if TYPE_CHECKING:
    from cli.frame.workspace import Reading
    from lifecycle.state.workflow import Stage as Known
    from lifecycle.state.workflow import Workflow
    from reconciler.sweep.tasks import Task

Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="'T>2'", help="Only tasks of which it holds; several: all."),
]
#: Tasks that are listed where nobody says how many.
_LISTED = 20


def tasks(
    context: typer.Context,
    stage: Stage,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed.")] = False,
    where: Where = None,
    lines: Annotated[
        int, typer.Option("-n", "--lines", min=0, help="At most N of them; 0 lists all.")
    ] = _LISTED,
) -> None:
    """The tasks of a stage with a map: how many stand where, and what became of each."""
    with reading(context) as workflow:
        conditions = [*(where or []), *(["state=failed"] if failed else [])]
        found, chosen = _chosen(workflow, stage, conditions)
        csv = workflow.output.settings.format is Format.CSV
        shown = chosen if lines == 0 or csv else chosen[:lines]
        if csv:
            _print_csv(shown)
            return
        counts = _counts(found)
        data = {
            "stage": stage,
            "total": len(found),
            "counts": counts,
            "chosen": len(chosen),
            "tasks": shown,
        }
        more = len(chosen) - len(shown)
        workflow.output.result(
            data, lambda: _text(workflow, stage, counts, shown, more), state=workflow.state()
        )


def metrics(context: typer.Context, stage: Stage, where: Where = None) -> None:
    """The numbers that the tasks of a stage are asked for by parameters.metrics, as a table."""
    with reading(context) as workflow:
        known = workflow.state().stage(stage)
        names = list(sweep_of(known.parameters).metrics)
        if is_sweep(known.parameters) and not names:
            raise NotFound(f"{stage} names no numbers; expected parameters.metrics", stage=stage)
        _, chosen = _chosen(workflow, stage, [*(where or []), "state=done"])
        rows = [{"key": r["key"], **r["values"], **r["metrics"]} for r in chosen]
        if workflow.output.settings.format is Format.CSV:
            _print_csv(rows)
            return
        workflow.output.result(
            {"stage": stage, "metrics": rows},
            lambda: _table(workflow, rows),
            state=workflow.state(),
        )


def _chosen(
    workflow: Reading, id_: str, conditions: Sequence[str]
) -> tuple[list[Task], list[dict[str, Any]]]:
    """Return all tasks of the stage, and the rows of those that fulfil the conditions."""
    from reconciler.sweep import selection
    from reconciler.sweep.table import row_of
    from reconciler.sweep.tasks import tasks_of

    state = workflow.state()
    stage = state.stage(id_)
    if not is_sweep(stage.parameters):
        raise NotFound(f"{id_} has no tasks; expected parameters.map in its definition", stage=id_)
    found = tasks_of(workflow.root.path, state, stage)
    names = [*found[0].point.values, *sweep_of(stage.parameters).metrics]
    try:
        selection.check(names, conditions)
    except selection.UnknownColumn as error:
        raise InvalidOption(f"--where: {error}") from error
    rows = [row_of(task) for task in found]
    return found, [row for row in rows if selection.fits(row, conditions)]


def counted(
    workflow: Reading, state: Workflow, stage: Known, *, live: bool
) -> dict[str, int] | None:
    """Return how many tasks of a stage stand where: as the log says, or as the disk shows now.

    None where nothing is known of any. What hinders a look at the disk hinders no answer.
    """
    from lifecycle.errors import Refused
    from projections.words.sweeps import counts_of
    from reconciler.errors import ReconcilerError
    from reconciler.sweep.tasks import tasks_of

    if live and stage.open_attempt is not None:
        with suppress(Refused, ReconcilerError, OSError):
            return _counts(tasks_of(workflow.root.path, state, stage))
    seen = next((one.tasks for one in reversed(stage.attempts) if one.tasks), None)
    again = stage.keep_as is not None and not stage.keeps_tasks
    return None if seen is None or again else counts_of(seen)


def printed(
    workflow: Reading, id_: str, key: str, *, err: bool, last: int | None
) -> tuple[str, str]:
    """Return where the newest run of a task printed, and its last lines; raises `NotFound`."""
    found, _ = _chosen(workflow, id_, [])
    task = next((one for one in found if one.point.key == key), None)
    if task is None:
        why = f"{id_} has no task {key!r}; `wfctl tasks {id_}` lists them"
        raise NotFound(why, stage=id_, task=key)
    if not task.folder:
        raise NotFound(f"{id_}: {key} was not begun yet", stage=id_, task=key)
    path = workflow.root.path / task.folder / ("err" if err else "log")
    text = path.read_bytes().decode(errors="replace") if path.is_file() else ""
    lines = text.splitlines(keepends=True)
    return str(path), "".join(lines if last is None else lines[max(0, len(lines) - last) :])


def _counts(found: Sequence[Task]) -> dict[str, int]:
    from reconciler.sweep.tasks import counts_of

    return counts_of(found)


def _text(
    workflow: Reading, stage: str, counts: dict[str, int], shown: list[dict[str, Any]], more: int
) -> str:
    from projections.words.sweeps import line_of

    lines = [f"{stage}: {line_of(counts)}", _table(workflow, [_short(row) for row in shown])]
    return "\n".join([*lines, *([f"and {more:,} more (-n 0 lists all)"] if more else [])])


def _short(row: dict[str, Any]) -> dict[str, Any]:
    about = {name: row[name] for name in ("key", "state", "attempts", "exit_code", "seconds")}
    return {**about, **row["metrics"], "why": row["why"], "folder": row["folder"]}


def _table(workflow: Reading, rows: list[dict[str, Any]]) -> str:
    from cli.terminal.table import TableColumn, table

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [TableColumn(name, partial(_shown_of, name), 60) for name in names]
    return table(workflow.output, rows, columns)


def _shown_of(name: str, row: dict[str, Any]) -> str:
    from projections.words.cells import shown

    return shown(row.get(name))


def _print_csv(rows: list[dict[str, Any]]) -> None:
    from cli.terminal.table import print_csv

    aside = ("values", "metrics", "outputs")
    flat = [{**row, **row.get("values", {}), **row.get("metrics", {})} for row in rows]
    plain = [{k: v for k, v in row.items() if k not in aside} for row in flat]
    names = list(dict.fromkeys(name for row in plain for name in row))
    print_csv(plain, names or ["key"])
