"""``wfctl tasks`` and ``wfctl metrics``: the tasks of a stage with a map, and their numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.options import AsOf, Stage, Text, Texts, argument, option
from cli.frame.workspace import Reading, open_for_reading, open_job_runner
from cli.settings import Format
from cli.terminal.output import Output, format_compact_json, print_message, remove_terminal_codes
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt, Workflow
from lifecycle.state.workflow import Stage as Known
from lifecycle.state.workflow import Stage as StageState
from lifecycle.sweeps.definition import is_sweep
from lifecycle.sweeps.definition import parse_ranges as numbers_of_tasks
from lifecycle.words.mandates import format_count
from lifecycle.words.metrics import metrics_of
from projections.words.format_results import told_all
from projections.words.text import clip_text, compute_age, told_used, utc_seconds, waiting_told
from service.errors import InvalidOption, NotFound
from service.reading.point_in_history import Moment

if TYPE_CHECKING:
    from reconciler.control.job_output import OutputPiece
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
#: Tasks that are listed if nobody says how many.
_LISTED = 20


def tasks(
    context: typer.Context,
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
    from reconciler.sweep.tasks import count_by_state

    with open_for_reading(context) as workflow:
        conditions = [*(where or []), *(["state=failed"] if failed else [])]
        found, chosen = chosen_of(workflow, stage, conditions)
        csv = workflow.output.settings.format is Format.CSV
        shown = chosen if lines == 0 or csv else chosen[:lines]
        if csv:
            _print_csv(shown)
            return
        counts = count_by_state(found)
        data = {"stage": stage, "total": len(found), "counts": counts, "chosen": len(chosen)}
        workflow.output.result(
            {**data, "tasks": shown},
            lambda: _format_tasks(workflow, stage, counts, shown, len(chosen) - len(shown)),
            state=workflow.state(),
        )


#: What is listed of a number, in this order.
_OF_NUMBER = ("name", "value", "error", "unit", "task", "path", "pointer")


def metrics(
    context: typer.Context,
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
        rows = numbers_of(workflow, stage, where or [])
        if workflow.output.settings.format is Format.CSV:
            _print_csv(rows)
            return
        workflow.output.result(
            {"stage": stage, "metrics": rows},
            lambda: _format_rows(workflow, rows) if rows else _no_metrics(state),
            state=state,
        )


def _no_metrics(state: Workflow) -> str:
    """Return why no metric is recorded: no stage declares a metric, or none has completed."""
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


def numbers_of(
    workflow: Reading, id_: str | None, conditions: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return a row of each number of a stage, of a sweep one of each task; of None of every stage.

    Raises `NotFound` for a stage without numbers, `InvalidOption` for wrong conditions.
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
        _, chosen = chosen_of(workflow, known.id, [*conditions, "state=done"])
        return [{"key": r["key"], **r["values"], **r["metrics"], **_get_errors(r)} for r in chosen]
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


def _get_errors(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the errors of a task's numbers by the names of their columns in the table of tasks."""
    return {f"{name}_error": error for name, error in row.get("errors", {}).items()}


def _print_plot(
    workflow: Reading,
    stage: Known | None,
    name: str | None,
    over: str | None,
    conditions: Sequence[str],
) -> None:
    """Print a plot of a metric of one stage."""
    from projections.drawing.plots import in_braille, plot_of_attempts, plot_of_tasks

    if stage is None or name is None:
        raise InvalidOption(
            "a plot needs the id of a stage and the option --plot NAME. For example, run `wfctl "
            "metrics stage-2 --plot tc`."
        )
    numbers = metrics_of(stage.parameters)
    if name not in numbers:
        known = ", ".join(numbers) or "none"
        raise NotFound(f"{stage.id} has no metric {name!r}; its metrics: {known}", stage=stage.id)
    if name in stage.work.task_metrics:
        _, rows = chosen_of(workflow, stage.id, [*conditions, "state=done"])
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
    workflow.output.result(drawn.to_dict(), lambda: "\n".join(in_braille(drawn)))


def chosen_of(
    workflow: Reading, id_: str, conditions: Sequence[str], view: Moment | None = None
) -> tuple[list[Task], list[dict[str, Any]]]:
    """Return the tasks of a sweep, and a row of each for which the conditions hold.

    Raises `NotFound` for a stage without tasks, `InvalidOption` for a name that it does not have.
    """
    from reconciler.sweep import table
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
    names = [*found[0].point.values, *stage.work.task_rules.metrics]
    names += ["round"] if rounds else []
    try:
        table.check_conditions(names, conditions)
    except table.UnknownColumn as error:
        raise InvalidOption(f"--where: {error}") from error
    rows = table.rows_of(found, rounds)
    return found, [row for row in rows if table.row_matches(row, conditions)]


def _find_task_output(
    workflow: Reading, id_: str, key: str, *, err: bool, last: int | None
) -> tuple[str, str]:
    found, _ = chosen_of(workflow, id_, [])
    task = next((one for one in found if one.point.key == key), None)
    if task is None or not task.folder:
        why = (
            f"the stage {id_} has no task {key!r}. To list the tasks of the stage, run `wfctl "
            f"tasks {id_}`."
        )
        raise NotFound(
            why if task is None else f"{id_}: {key} has not started yet", stage=id_, task=key
        )
    path = workflow.root.path / task.folder / ("err" if err else "log")
    text = path.read_bytes().decode(errors="replace") if path.is_file() else ""
    lines = text.splitlines(keepends=True)
    return str(path), "".join(lines if last is None else lines[max(0, len(lines) - last) :])


def _format_tasks(
    workflow: Reading, stage: str, counts: dict[str, int], shown: list[dict[str, Any]], more: int
) -> str:
    from projections.words.result_origin import line_of

    names = ("key", "state", "attempts", "exit_code", "seconds", "cpu_seconds", "memory")
    rows = [
        {**{name: row[name] for name in names}, **row["metrics"]}
        | {"why": row["why"], "folder": row["folder"]}
        for row in shown
    ]
    lines = [f"{stage}: {line_of(counts)}", _format_rows(workflow, rows)]
    return "\n".join([*lines, *([f"and {more:,} more (-n 0 lists all)"] if more else [])])


def _format_rows(workflow: Reading, rows: list[dict[str, Any]]) -> str:
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
    print_csv(plain, names or ["key"], sys.stdout.isatty())


def flatten_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of tasks or numbers with its values and numbers as columns of their own."""
    found = {**row, **row.get("values", {}), **row.get("metrics", {})}
    return {k: v for k, v in found.items() if k not in ("values", "metrics", "outputs")}


def logs(
    context: typer.Context,
    stage: Stage,
    attempt: Text = option(
        "ID",
        "Show the output of this attempt (one run of the stage), for example att-0002. "
        "Default: the newest attempt.",
    ),
    follow: bool = option("-f", "--follow", "Keep printing new output until the job ends."),
    err: bool = option("Print the error output (stderr) of the job instead of stdout."),
    task: Text = option(
        "KEY", "Show the output of this task of a sweep, for example N=100,seed=1."
    ),
    last: int | None = option(
        "-n", "--lines", "Print only the last N lines. Default: all lines.", min=0
    ),
) -> None:
    """Show the output of a job.

    This also works if the job runs on a cluster or on another computer over SSH.
    """
    from reconciler.control.job_output import follow_output, open_job_output

    stream = "err" if err else "log"
    if task is not None:
        if follow or attempt is not None:
            raise InvalidOption(
                "the option --task cannot be combined with --follow or --attempt, because --task "
                "always shows the newest run of the task. Remove one of these options."
            )
        with open_for_reading(context) as workflow:
            path, text = _find_task_output(workflow, stage, task, err=err, last=last)
            data = {"stage": stage, "task": task, "stream": stream, "path": path, "text": text}
            state = workflow.state()
            workflow.output.result(data, lambda: text.removesuffix("\n"), state=state)
        return
    with open_job_runner(context, dry_run=True) as (jobs, output):
        state = jobs.service.state()
        known = state.stage(stage)
        id_ = _choose_attempt(known, attempt)
        about = {"stage": stage, "attempt": id_, "stream": stream}
        with closing(open_job_output(jobs, state, known, id_, err=err, last=last)) as heard:
            said = follow_output(jobs, stage, heard) if follow else heard.new()
            if output.settings.format is Format.JSON:
                contents: dict[str, bytes] = {}
                for path, content in said:
                    contents[path] = contents.get(path, b"") + content
                files = [
                    {"path": p, "text": c.decode(errors="replace")} for p, c in contents.items()
                ]
                output.result({**about, "files": files}, str, state=jobs.service.state())
                found = bool(files)
            else:
                found = _print_output(output, about, said, several=len(heard.mouths) > 1)
    if not found:
        other = "leave out --err for stdout" if err else "--err shows stderr"
        kept = heard.attempt.log
        printed = f"; what DPDispatcher printed: {kept}" if kept.exists() else ""
        text = f"{heard.attempt.id} has printed no output on this machine: {other}{printed}"
        print_message(f"wfctl: {text}")


def _choose_attempt(stage: Known, named: str | None) -> str:
    known = [attempt.id for attempt in stage.attempts]
    if named is None and known:
        return known[-1]
    if named in known:
        return str(named)
    what = f"no attempt {named}" if named is not None else "no attempt yet"
    has = f"it has {', '.join(known)}" if known else f"`wfctl dispatch {stage.id}` starts one"
    raise NotFound(f"{stage.id} has {what}; {has}", stage=stage.id, attempts=known)


def _print_output(
    output: Output, about: dict[str, str], said: Iterable[OutputPiece], *, several: bool
) -> bool:
    found, before = False, None
    for path, content in said if output.is_text and not output.is_terminal else _in_lines(said):
        if several and output.is_text and path != before:
            # As `tail` tells files apart.
            sys.stdout.write(f"{'' if before is None else chr(10)}==> {path} <==\n")
        found, before = True, path
        text = content.decode(errors="replace")
        if not output.is_text:
            sys.stdout.write(format_compact_json({**about, "path": path, "text": text}) + "\n")
        elif output.is_terminal:
            sys.stdout.write(remove_terminal_codes(text))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
        sys.stdout.flush()
    return found


def _in_lines(said: Iterable[OutputPiece]) -> Iterator[tuple[str, bytes]]:
    """Yield whole lines, then the rest without a newline, so that no character is cut in two."""
    rest: dict[str, bytes] = {}
    for path, content in said:
        whole, newline, rest[path] = (rest.get(path, b"") + content).rpartition(b"\n")
        if newline:
            yield path, whole + newline
    yield from ((path, content) for path, content in rest.items() if content)


#: Maximum number of attempts on a page, and of characters of a value.
_NEWEST, _WIDE = 3, 200


def show(context: typer.Context, stage: Stage, view: AsOf = None) -> None:
    """Show one stage and its attempts."""
    with open_for_reading(context) as workflow:
        state = workflow.state(view)
        found = state.stage(stage)
        otherwise = _find_changed_launch_fields(workflow.root.path, state, found)
        shown = {**asdict(found), "last_error": found.error}
        data = {"purpose": state.purpose, **shown, **otherwise}
        output = workflow.output
        output.result(
            data, lambda: "\n".join(_format_page(output, state, found, otherwise)), state=state
        )


def _find_changed_launch_fields(
    root: Path, state: Workflow, stage: StageState
) -> dict[str, dict[str, list[str]]]:
    """Return the fields in which the launch of the used attempt differs from the plan."""
    if stage.source is None or not stage.source.taken_over:
        return {}
    from reconciler.files.described_submission import (
        explain_launch_differences,
    )  # only of what somebody else launched

    fields = explain_launch_differences(root, state, stage)
    return {"launched_otherwise": {stage.source.id: fields}} if fields else {}


def _format_page(
    output: Output, state: Workflow, stage: StageState, otherwise: dict[str, dict[str, list[str]]]
) -> Iterator[str]:
    from projections.screens.next_actions import leading_on

    yield (
        output.style(f"{stage.id}: {clip_text(stage.name, _WIDE)}", "1") + f"  {stage.status.value}"
    )
    yield f"of {state.id}" + (f": {clip_text(state.purpose, _WIDE)}" if state.purpose else "")
    for name, values in _list_fields(state, stage):
        # The first of several lines has the field's name.
        for place, value in enumerate([clip_text(str(value), _WIDE) for value in values if value]):
            yield f"  {'' if place else name:<9} {value}"
    yield from _format_attempts(output, stage)
    for id_, fields in otherwise.get("launched_otherwise", {}).items():
        yield f"  {id_} was launched with values that differ from the plan: {', '.join(fields)}"
    yield from (f"next: {one}" for one in leading_on(state, stage.id, output.around(state)))


def _list_fields(state: Workflow, stage: StageState) -> Iterator[tuple[str, list[Any]]]:
    from projections.words.result_origin import describe_kept_tasks

    yield "needs", [f"{i} ({state.stages[i].status.value})" for i in stage.depends_on]
    yield "inputs", stage.inputs
    yield "outputs", stage.outputs
    yield "runs on", [stage.backend or state.default_backend]
    yield "criteria", [stage.success_criteria]
    values = {
        k: v if isinstance(v, str) else format_compact_json(v) for k, v in stage.parameters.items()
    }
    yield "with", [f"{k} = {v}" for k, v in values.items()]
    yield "began", [utc_seconds(stage.started_at)]
    yield "done", [utc_seconds(stage.completed_at)]
    sizes = [f", {o['size']} bytes" if o.get("size") is not None else "" for o in stage.results]
    digests = [str(one.get("sha256"))[:12] for one in stage.results]
    each = zip(stage.results, sizes, digests, strict=True)
    yield "results", [f"{one['path']}{size}, SHA-256 {digest}" for one, size, digest in each]
    yield "numbers", told_all(stage, stage.metrics)
    yield "reused", [f"the outputs of {stage.reused}" if stage.reused else ""]
    if stage.status is Status.FAILED:
        because = f" ({stage.because})" if stage.because else ""
        yield "failed", [stage.error, stage.category and f"category: {stage.category}{because}"]
    if stage.retry_count:
        yield "retries", [f"{stage.retry_count}: {stage.fix or ''}".rstrip(": ")]
    yield "kept", list(describe_kept_tasks(stage))
    yield "left", stage.left_in_place


def _format_numbers(stage: StageState, attempt: Attempt) -> Iterator[str]:
    """Yield the numbers of an attempt, if they differ from those of the stage."""
    if attempt.metrics != stage.metrics:
        yield from (f"    {told}" for told in told_all(stage, attempt.metrics))


def _format_end(attempt: Attempt) -> str:
    if attempt.ended_at is None:
        return ""
    ended = f", ended {utc_seconds(attempt.ended_at)}"
    with suppress(ValueError):  # what is no time has no distance
        ended += f", {compute_age(attempt.started_at, attempt.ended_at)} s"
    return ended


def _format_code_and_environment(attempt: Attempt, before: Attempt) -> Iterator[str]:
    """Yield the commit of an attempt's files, and the changes of its environment."""
    from projections.words.result_origin import compare_environments, told_code

    if attempt.code is not None:
        yield f"    commit {clip_text(told_code(attempt.code), _WIDE)}"
    for change in compare_environments(attempt.environment, before.environment, before.id):
        yield f"    environment: {clip_text(change, _WIDE)}"


def _format_verdict(attempt: Attempt) -> str:
    """Return the verdict on an attempt's job, and whether its results failed their check."""
    verdict = f"{attempt.verdict}: {clip_text(attempt.reason or '', _WIDE)}"
    if attempt.is_refuted:
        return f"job {verdict}; then its results failed their check"
    return verdict


def _format_attempts(output: Output, stage: StageState) -> Iterator[str]:
    if stage.attempts:
        yield output.style("attempts:", "1")
    older = max(len(stage.attempts) - _NEWEST, 0)
    if older:
        yield f"  {older} before these"
    for place, one in enumerate(stage.attempts[older:], older):
        yield f"  {one.id}  {one.outcome or 'under way'}"
        yield f"    began {utc_seconds(one.started_at)} ({one.mode}){_format_end(one)}"
        yield from _format_numbers(stage, one)
        used = told_used(one.resources)
        yield from [f"    used {used}"] if used else []
        if one.job_ids:
            folder = one.submission.rpartition("/")[0]
            yield f"    jobs {', '.join(one.job_ids)}; files in {folder}"
        if one.verdict:
            yield f"    {_format_verdict(one)}"
        if waits := waiting_told(one):
            yield f"    waits: {waits}"
        yield from _format_code_and_environment(one, stage.attempts[max(place - 1, 0)])
