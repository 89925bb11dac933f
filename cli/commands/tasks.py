"""``wfctl tasks`` and ``wfctl metrics``: the tasks of a stage with a map, and their numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.options import AsOf, Stage, Text, Texts, option
from cli.frame.workspace import Reading, engine, reading
from cli.settings import Format
from cli.terminal.output import Output, compact, harmless, say
from lifecycle.errors import NeedsConsent, Refused
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage as Known
from lifecycle.state.workflow import Stage as StageState
from lifecycle.state.workflow import Workflow
from lifecycle.sweeps.definition import is_sweep, sweep_of
from projections.words.text import age, utc_seconds
from service.errors import InvalidOption, NotFound

if TYPE_CHECKING:
    from reconciler.control.job_output import Said
    from reconciler.sweep.tasks import Task


Where = Annotated[Texts, option("--where", "'T>2'", "Only tasks of which it holds; several: all.")]
#: Tasks that are listed if nobody says how many.
_LISTED = 20


def tasks(
    context: typer.Context,
    stage: Stage,
    failed: bool = option("Only those that failed."),
    where: Where = None,
    lines: int = option("-n", "--lines", "At most N of them; 0 lists all.", min=0, default=_LISTED),
) -> None:
    """The tasks of a stage with a map: how many stand where, and what became of each."""
    from reconciler.sweep.tasks import counts_of

    with reading(context) as workflow:
        conditions = [*(where or []), *(["state=failed"] if failed else [])]
        found, chosen = _chosen(workflow, stage, conditions)
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
    from reconciler.sweep import table
    from reconciler.sweep.table import row_of
    from reconciler.sweep.tasks import tasks_of

    state = workflow.state()
    stage = state.stage(id_)
    if not is_sweep(stage.parameters):
        raise NotFound(f"{id_} has no tasks; expected parameters.map in its definition", stage=id_)
    found = tasks_of(workflow.root.path, state, stage)
    names = [*found[0].point.values, *sweep_of(stage.parameters).metrics]
    try:
        table.check(names, conditions)
    except table.UnknownColumn as error:
        raise InvalidOption(f"--where: {error}") from error
    rows = [row_of(task) for task in found]
    return found, [row for row in rows if table.fits(row, conditions)]


def counted(
    workflow: Reading, state: Workflow, stage: Known, *, live: bool
) -> dict[str, int] | None:
    """Return how many tasks of a stage stand where: as the log says, or as the disk shows now.

    None if nothing is known of any. What hinders a look at the disk hinders no answer.
    """
    from projections.words.came_about import counts_of
    from reconciler.errors import ReconcilerError
    from reconciler.sweep.tasks import counts_of as counts_now
    from reconciler.sweep.tasks import tasks_of

    if live and stage.open_attempt is not None:
        with suppress(Refused, ReconcilerError, OSError):
            return counts_now(tasks_of(workflow.root.path, state, stage))
    seen = next((one.tasks for one in reversed(stage.attempts) if one.tasks), None)
    again = stage.keep_as is not None and not stage.keeps_tasks
    return None if seen is None or again else counts_of(seen)


def _printed(
    workflow: Reading, id_: str, key: str, *, err: bool, last: int | None
) -> tuple[str, str]:
    found, _ = _chosen(workflow, id_, [])
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

    names = ("key", "state", "attempts", "exit_code", "seconds")
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

    aside = ("values", "metrics", "outputs")
    flat = [{**row, **row.get("values", {}), **row.get("metrics", {})} for row in rows]
    plain = [{k: v for k, v in row.items() if k not in aside} for row in flat]
    names = list(dict.fromkeys(name for row in plain for name in row))
    print_csv(plain, names or ["key"], sys.stdout.isatty())


def logs(
    context: typer.Context,
    stage: Stage,
    attempt: Text = option("ID", "The attempt; else the newest."),
    follow: bool = option("-f", "--follow", "Go on as the job prints, until it has ended."),
    err: bool = option("What it prints on stderr."),
    task: Text = option("KEY", "Of one task of a stage with a map."),
    last: int | None = option("-n", "--lines", "The last N lines.", min=0),
) -> None:
    """What the job of a stage says, here, in a queue or over SSH, while it runs too."""
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
    """One stage: what it is, where it stands, and its attempts."""
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

    yield output.style(f"{stage.id}: {_clip(stage.name)}", "1") + f"  {stage.status.value}"
    yield f"of {state.id}" + (f": {_clip(state.purpose)}" if state.purpose else "")
    for name, values in _fields(state, stage):
        # The first of several lines has the field's name.
        for place, value in enumerate([_clip(str(value)) for value in values if value]):
            yield f"  {'' if place else name:<9} {value}"
    yield from _attempts(output, stage)
    for id_, fields in otherwise.get("launched_otherwise", {}).items():
        yield f"  {id_} was not launched as defined: something else in {', '.join(fields)}"
    yield from (f"next: {one}" for one in leading_on(state, stage.id, output.around(state)))


def _fields(state: Workflow, stage: StageState) -> Iterator[tuple[str, list[Any]]]:
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
    yield "reused", [f"the outputs of {stage.reused}" if stage.reused else ""]
    if stage.status is Status.FAILED:
        because = f" ({stage.because})" if stage.because else ""
        yield "failed", [stage.error, stage.category and f"category: {stage.category}{because}"]
    if stage.retry_count:
        yield "retries", [f"{stage.retry_count}: {stage.fix or ''}".rstrip(": ")]
    yield "left", stage.left_in_place


def _clip(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"


def _attempts(output: Output, stage: StageState) -> Iterator[str]:
    if stage.attempts:
        yield output.style("attempts:", "1")
    older = max(len(stage.attempts) - _NEWEST, 0)
    if older:
        yield f"  {older} before these"
    for place, one in enumerate(stage.attempts[older:], older):
        ended = f", ended {utc_seconds(one.ended_at)}" if one.ended_at else ""
        with suppress(ValueError):  # what is no time has no distance
            ended += f", {age(one.started_at, one.ended_at)} s" if one.ended_at else ""
        yield f"  {one.id}  {one.outcome or 'under way'}"
        yield f"    began {utc_seconds(one.started_at)} ({one.mode}){ended}"
        if one.job_ids:
            folder = one.submission.rpartition("/")[0]
            yield f"    jobs {', '.join(one.job_ids)}; files in {folder}"
        if one.verdict:
            yield f"    {one.verdict}: {_clip(one.reason or '')}"
        before = stage.attempts[max(place - 1, 0)]
        if one.environment != before.environment:
            from projections.words.came_about import changes

            for change in changes(one.environment, before.environment, before.id):
                yield f"    environment: {_clip(change)}"
