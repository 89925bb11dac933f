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
from cli.frame.workspace import Reading, engine, reading
from cli.settings import Format
from cli.terminal.output import Output, compact, harmless, say
from lifecycle.errors import NeedsConsent
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt, Workflow
from lifecycle.state.workflow import Stage as Known
from lifecycle.state.workflow import Stage as StageState
from lifecycle.sweeps.definition import is_sweep, sweep_of
from lifecycle.words.metrics import metrics_of
from projections.words.answers import told_all
from projections.words.text import age, clipped, told_used, utc_seconds, waiting_told
from service.errors import InvalidOption, NotFound
from service.reading.moment import Moment

if TYPE_CHECKING:
    from reconciler.control.job_output import Said
    from reconciler.sweep.tasks import Task


Where = Annotated[
    Texts, option("--where", "'T>2'", "List only tasks that meet this condition; repeatable.")
]
#: Tasks that are listed if nobody says how many.
_LISTED = 20


def tasks(
    context: typer.Context,
    stage: Stage,
    failed: bool = option("List only failed tasks."),
    where: Where = None,
    lines: int = option(
        "-n", "--lines", "List at most N tasks; 0 lists all.", min=0, default=_LISTED
    ),
) -> None:
    """List the tasks of a sweep.

    The list has the status of each task, its values, times and numbers.
    """
    from reconciler.sweep.tasks import counts_of

    with reading(context) as workflow:
        conditions = [*(where or []), *(["state=failed"] if failed else [])]
        found, chosen = chosen_of(workflow, stage, conditions)
        csv = workflow.output.settings.format is Format.CSV
        shown = chosen if lines == 0 or csv else chosen[:lines]
        if csv:
            _print_csv(shown)
            return
        counts = counts_of(found)
        data = {"stage": stage, "total": len(found), "counts": counts, "chosen": len(chosen)}
        workflow.output.result(
            {**data, "tasks": shown},
            lambda: _text(workflow, stage, counts, shown, len(chosen) - len(shown)),
            state=workflow.state(),
        )


#: What is listed of a number, in this order.
_OF_NUMBER = ("name", "value", "error", "unit", "task", "path", "pointer")


def metrics(
    context: typer.Context,
    stage: Text = argument("[STAGE]", "Id of the stage (default: every completed stage)."),
    where: Where = None,
    plot: Text = option("NAME", "Plot this metric over the points, or over the attempts."),
    over: Text = option("VALUE", "With --plot: value of the points on the x axis."),
) -> None:
    """Show metrics as a table or plot.

    Stages and tasks report the numbers that parameters.metrics names.
    """
    with reading(context) as workflow:
        state = workflow.state()
        if plot is not None or over is not None:
            known = state.stage(stage) if stage is not None else None
            _plot(workflow, known, plot, over, where or [])
            return
        rows = numbers_of(workflow, stage, where or [])
        if workflow.output.settings.format is Format.CSV:
            _print_csv(rows)
            return
        workflow.output.result(
            {"stage": stage, "metrics": rows},
            lambda: _table(workflow, rows) if rows else "no number is recorded yet",
            state=state,
        )


def numbers_of(
    workflow: Reading, id_: str | None, conditions: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return a row of each number of a stage, of a sweep one of each task; of None of every stage.

    Raises `NotFound` for a stage without numbers, `InvalidOption` for wrong conditions.
    """
    state = workflow.state()
    known = state.stage(id_) if id_ is not None else None
    if known is not None and known.parameters.get("metrics") is None:
        raise NotFound(f"{id_} names no numbers; expected parameters.metrics", stage=id_)
    if known is not None and (conditions or is_sweep(known.parameters)):
        _, chosen = chosen_of(workflow, known.id, [*conditions, "state=done"])
        return [{"key": r["key"], **r["values"], **r["metrics"], **_errors(r)} for r in chosen]
    if conditions:
        raise InvalidOption("--where takes the stage whose tasks it is about")
    every = state.stages.values() if known is None else [known]
    return [
        {"stage": one.id, **{name: number[name] for name in _OF_NUMBER}}
        for one in every
        for number in one.metrics
    ]


def _errors(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the errors of a task's numbers by the names of their columns in the table of tasks."""
    return {f"{name}_error": error for name, error in row.get("errors", {}).items()}


def _plot(
    workflow: Reading,
    stage: Known | None,
    name: str | None,
    over: str | None,
    conditions: Sequence[str],
) -> None:
    """Print a plot of a number of one stage."""
    from projections.drawing.plots import in_braille, plot_of_attempts, plot_of_tasks

    if stage is None or name is None:
        raise InvalidOption("expected a stage and --plot NAME: `wfctl metrics stage-2 --plot tc`")
    numbers = metrics_of(stage.parameters)
    if name not in numbers:
        known = ", ".join(numbers) or "none"
        raise NotFound(f"{stage.id} names no number {name!r}; it has {known}", stage=stage.id)
    if is_sweep(stage.parameters):
        _, rows = chosen_of(workflow, stage.id, [*conditions, "state=done"])
        found = plot_of_tasks(rows, name, over, numbers[name].unit)
    else:
        found = plot_of_attempts(stage.attempts, name)
    if found is None:
        among = f" with different numbers as {over}" if over else ""
        raise NotFound(f"{stage.id} has no two values of {name}{among} to be drawn", stage=stage.id)
    drawn = found
    workflow.output.result(drawn.to_dict(), lambda: "\n".join(in_braille(drawn)))


def chosen_of(
    workflow: Reading, id_: str, conditions: Sequence[str], view: Moment | None = None
) -> tuple[list[Task], list[dict[str, Any]]]:
    """Return the tasks of a sweep, and a row of each for which the conditions hold.

    Raises `NotFound` for a stage without tasks, `InvalidOption` for a name that it does not have.
    """
    from reconciler.sweep import table
    from reconciler.sweep.map_points import rounds_of
    from reconciler.sweep.tasks import tasks_of

    state = workflow.state(view)
    stage = state.stage(id_)
    if not is_sweep(stage.parameters):
        raise NotFound(f"{id_} has no tasks; expected parameters.map in its definition", stage=id_)
    found = tasks_of(workflow.root.path, state, stage)
    rounds = rounds_of(state, stage)
    names = [*found[0].point.values, *sweep_of(stage.parameters).metrics]
    names += ["round"] if rounds else []
    try:
        table.check(names, conditions)
    except table.UnknownColumn as error:
        raise InvalidOption(f"--where: {error}") from error
    rows = table.rows_of(found, rounds)
    return found, [row for row in rows if table.fits(row, conditions)]


def _printed(
    workflow: Reading, id_: str, key: str, *, err: bool, last: int | None
) -> tuple[str, str]:
    found, _ = chosen_of(workflow, id_, [])
    task = next((one for one in found if one.point.key == key), None)
    if task is None or not task.folder:
        why = f"{id_} has no task {key!r}; `wfctl tasks {id_}` lists them"
        raise NotFound(
            why if task is None else f"{id_}: {key} was not begun yet", stage=id_, task=key
        )
    path = workflow.root.path / task.folder / ("err" if err else "log")
    text = path.read_bytes().decode(errors="replace") if path.is_file() else ""
    lines = text.splitlines(keepends=True)
    return str(path), "".join(lines if last is None else lines[max(0, len(lines) - last) :])


def _text(
    workflow: Reading, stage: str, counts: dict[str, int], shown: list[dict[str, Any]], more: int
) -> str:
    from projections.words.came_about import line_of

    names = ("key", "state", "attempts", "exit_code", "seconds", "cpu_seconds", "memory")
    rows = [
        {**{name: row[name] for name in names}, **row["metrics"]}
        | {"why": row["why"], "folder": row["folder"]}
        for row in shown
    ]
    lines = [f"{stage}: {line_of(counts)}", _table(workflow, rows)]
    return "\n".join([*lines, *([f"and {more:,} more (-n 0 lists all)"] if more else [])])


def _table(workflow: Reading, rows: list[dict[str, Any]]) -> str:
    from cli.terminal.table import TableColumn, table
    from projections.words.text import shown

    def text(name: str, row: dict[str, Any]) -> str:
        return shown(row.get(name))

    names = list(dict.fromkeys(name for row in rows for name in row))
    return table(workflow.output, rows, [TableColumn(n, partial(text, n), 60) for n in names])


def _print_csv(rows: list[dict[str, Any]]) -> None:
    from cli.terminal.table import print_csv

    plain = [*map(flat, rows)]
    names = list(dict.fromkeys(name for row in plain for name in row))
    print_csv(plain, names or ["key"], sys.stdout.isatty())


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of tasks or numbers with its values and numbers as columns of their own."""
    found = {**row, **row.get("values", {}), **row.get("metrics", {})}
    return {k: v for k, v in found.items() if k not in ("values", "metrics", "outputs")}


def logs(
    context: typer.Context,
    stage: Stage,
    attempt: Text = option("ID", "Attempt (default: the newest)."),
    follow: bool = option("-f", "--follow", "Keep printing until the job has ended."),
    err: bool = option("Show stderr of the job."),
    task: Text = option("KEY", "Show one task of a sweep."),
    last: int | None = option("-n", "--lines", "Print the last N lines.", min=0),
) -> None:
    """Show the output of a job.

    The job may run here, wait in a queue, or run over SSH.
    """
    from reconciler.control.job_output import followed, saying

    stream = "err" if err else "log"
    if task is not None:
        if follow or attempt is not None:
            raise InvalidOption(
                "--task takes neither --follow nor --attempt: its newest run is shown"
            )
        with reading(context) as workflow:
            path, text = _printed(workflow, stage, task, err=err, last=last)
            data = {"stage": stage, "task": task, "stream": stream, "path": path, "text": text}
            state = workflow.state()
            workflow.output.result(data, lambda: text.removesuffix("\n"), state=state)
        return
    with engine(context, dry_run=True) as (jobs, output):
        state = jobs.service.state()
        known = state.stage(stage)
        id_ = _attempt(known, attempt)
        about = {"stage": stage, "attempt": id_, "stream": stream}
        with closing(saying(jobs, state, known, id_, err=err, last=last)) as heard:
            said = followed(jobs, stage, heard) if follow else heard.new()
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
                found = _print(output, about, said, several=len(heard.mouths) > 1)
    if not found:
        other = "leave out --err for stdout" if err else "--err shows stderr"
        kept = heard.attempt.log
        printed = f"; what DPDispatcher printed: {kept}" if kept.exists() else ""
        say(f"wfctl: {heard.attempt.id} has printed nothing here: {other}{printed}")


def _attempt(stage: Known, named: str | None) -> str:
    known = [attempt.id for attempt in stage.attempts]
    if named is None and known:
        return known[-1]
    if named in known:
        return str(named)
    what = f"no attempt {named}" if named is not None else "no attempt yet"
    has = f"it has {', '.join(known)}" if known else f"`wfctl dispatch {stage.id}` starts one"
    raise NotFound(f"{stage.id} has {what}; {has}", stage=stage.id, attempts=known)


def _print(output: Output, about: dict[str, str], said: Iterable[Said], *, several: bool) -> bool:
    found, before = False, None
    for path, content in said if output.is_text and not output.is_terminal else _in_lines(said):
        if several and output.is_text and path != before:
            # As `tail` tells files apart.
            sys.stdout.write(f"{'' if before is None else chr(10)}==> {path} <==\n")
        found, before = True, path
        text = content.decode(errors="replace")
        if not output.is_text:
            sys.stdout.write(compact({**about, "path": path, "text": text}) + "\n")
        elif output.is_terminal:
            sys.stdout.write(harmless(text))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
        sys.stdout.flush()
    return found


def _in_lines(said: Iterable[Said]) -> Iterator[tuple[str, bytes]]:
    """Yield whole lines, and in the end what has no newline: a character is never cut in two."""
    rest: dict[str, bytes] = {}
    for path, content in said:
        whole, newline, rest[path] = (rest.get(path, b"") + content).rpartition(b"\n")
        if newline:
            yield path, whole + newline
    yield from ((path, content) for path, content in rest.items() if content)


#: Attempts that a page tells of, and characters of a value on it.
_NEWEST, _WIDE = 3, 200


def show(context: typer.Context, stage: Stage, view: AsOf = None) -> None:
    """Show one stage and its attempts."""
    with reading(context) as workflow:
        state = workflow.state(view)
        found = state.stage(stage)
        otherwise = _otherwise(workflow.root.path, state, found)
        shown = {**asdict(found), "last_error": found.error}
        data = {"purpose": state.purpose, **shown, **otherwise}
        output = workflow.output
        output.result(data, lambda: "\n".join(_page(output, state, found, otherwise)), state=state)


def _otherwise(root: Path, state: Workflow, stage: StageState) -> dict[str, dict[str, list[str]]]:
    """Return in what the attempt that counts was not launched as defined, by its id."""
    attempt = stage.source
    if attempt is None or not attempt.taken_over:
        return {}
    from reconciler.errors import ReconcilerError  # only of what somebody else launched
    from reconciler.files.described import launched_otherwise

    try:
        fields = launched_otherwise(root, state, stage, attempt)
    except (NeedsConsent, ReconcilerError, OSError) as error:
        fields = [str(error)]
    return {"launched_otherwise": {attempt.id: fields}} if fields else {}


def _page(
    output: Output, state: Workflow, stage: StageState, otherwise: dict[str, dict[str, list[str]]]
) -> Iterator[str]:
    from projections.screens.next_actions import leading_on

    yield output.style(f"{stage.id}: {clipped(stage.name, _WIDE)}", "1") + f"  {stage.status.value}"
    yield f"of {state.id}" + (f": {clipped(state.purpose, _WIDE)}" if state.purpose else "")
    for name, values in _fields(state, stage):
        # The first of several lines has the field's name.
        for place, value in enumerate([clipped(str(value), _WIDE) for value in values if value]):
            yield f"  {'' if place else name:<9} {value}"
    yield from _attempts(output, stage)
    for id_, fields in otherwise.get("launched_otherwise", {}).items():
        yield f"  {id_} was not launched as defined: something else in {', '.join(fields)}"
    yield from (f"next: {one}" for one in leading_on(state, stage.id, output.around(state)))


def _fields(state: Workflow, stage: StageState) -> Iterator[tuple[str, list[Any]]]:
    from projections.words.came_about import describe_kept_tasks

    yield "needs", [f"{i} ({state.stages[i].status.value})" for i in stage.depends_on]
    yield "inputs", stage.inputs
    yield "outputs", stage.outputs
    yield "runs on", [stage.backend or state.default_backend]
    yield "criteria", [stage.success_criteria]
    values = {k: v if isinstance(v, str) else compact(v) for k, v in stage.parameters.items()}
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


def _numbers(stage: StageState, attempt: Attempt) -> Iterator[str]:
    """Yield the numbers of an attempt, if they are not those of the stage."""
    if attempt.metrics != stage.metrics:
        yield from (f"    {told}" for told in told_all(stage, attempt.metrics))


def _ended(attempt: Attempt) -> str:
    if attempt.ended_at is None:
        return ""
    ended = f", ended {utc_seconds(attempt.ended_at)}"
    with suppress(ValueError):  # what is no time has no distance
        ended += f", {age(attempt.started_at, attempt.ended_at)} s"
    return ended


def _given(attempt: Attempt, before: Attempt) -> Iterator[str]:
    """Yield the commit of an attempt's files, and in what its environment is another one."""
    from projections.words.came_about import changes, told_code

    if attempt.code is not None:
        yield f"    commit {clipped(told_code(attempt.code), _WIDE)}"
    for change in changes(attempt.environment, before.environment, before.id):
        yield f"    environment: {clipped(change, _WIDE)}"


def _attempts(output: Output, stage: StageState) -> Iterator[str]:
    if stage.attempts:
        yield output.style("attempts:", "1")
    older = max(len(stage.attempts) - _NEWEST, 0)
    if older:
        yield f"  {older} before these"
    for place, one in enumerate(stage.attempts[older:], older):
        yield f"  {one.id}  {one.outcome or 'under way'}"
        yield f"    began {utc_seconds(one.started_at)} ({one.mode}){_ended(one)}"
        yield from _numbers(stage, one)
        used = told_used(one.resources)
        yield from [f"    used {used}"] if used else []
        if one.job_ids:
            folder = one.submission.rpartition("/")[0]
            yield f"    jobs {', '.join(one.job_ids)}; files in {folder}"
        if one.verdict:
            yield f"    {one.verdict}: {clipped(one.reason or '', _WIDE)}"
        if waits := waiting_told(one):
            yield f"    waits: {waits}"
        yield from _given(one, stage.attempts[max(place - 1, 0)])
