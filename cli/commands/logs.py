"""``wfctl logs``: the output of the job of a stage or task."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from cli.frame.context import Context
from cli.frame.options import Stage, Text, option
from cli.frame.workspace import OpenedWorkflow, open_for_reading, open_job_runner
from cli.settings import Format
from cli.terminal.output import Output, format_compact_json, print_message, remove_terminal_codes
from lifecycle.state.workflow import Stage as Known
from service.errors import InvalidOption, NotFound

if TYPE_CHECKING:
    from reconciler.control.job_output import OutputPiece
from cli.commands.tasks import list_tasks_and_matching_rows


def _find_task_output(
    workflow: OpenedWorkflow, id_: str, key: str, *, err: bool, last: int | None
) -> tuple[str, str]:
    found, _ = list_tasks_and_matching_rows(workflow, id_, [])
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


def logs(
    context: Context,
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
    for path, content in (
        said if output.is_text and not output.is_terminal else _iterate_complete_lines(said)
    ):
        if several and output.is_text and path != before:
            # Print a header for each file in the format of `tail`.
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


def _iterate_complete_lines(said: Iterable[OutputPiece]) -> Iterator[tuple[str, bytes]]:
    """Yield the output of each file in complete lines.

    An incomplete last line comes at the end. A piece of output can end within a multi-byte
    character. Complete lines avoid this.
    """
    rest: dict[str, bytes] = {}
    for path, content in said:
        whole, newline, rest[path] = (rest.get(path, b"") + content).rpartition(b"\n")
        if newline:
            yield path, whole + newline
    yield from ((path, content) for path, content in rest.items() if content)
