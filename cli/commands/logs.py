"""``wfctl logs``: what a stage's job says, while it runs too."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame.options import Stage
from cli.frame.workspace import engine, reading
from cli.settings import Format
from cli.terminal.output import Output, compact, harmless, say
from service.errors import InvalidOption, NotFound

if TYPE_CHECKING:
    from lifecycle.state.workflow import Stage as Known
    from reconciler.control.sayings import Said, Saying


def logs(
    context: typer.Context,
    stage: Stage,
    attempt: Annotated[
        str | None, typer.Option("--attempt", metavar="ID", help="The attempt; else the newest.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on as the job prints, until it has ended.")
    ] = False,
    err: Annotated[bool, typer.Option("--err", help="What it prints on stderr.")] = False,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="KEY", help="Of one task of a stage with a map."),
    ] = None,
    last: Annotated[
        int | None, typer.Option("-n", "--lines", min=0, help="The last N lines.")
    ] = None,
) -> None:
    """What the job of a stage says, here, in a queue or over SSH, while it runs too."""
    from reconciler.control.sayings import followed, saying

    if task is not None:
        _of_task(context, stage, task, err=err, last=last, odd=follow or attempt is not None)
        return
    with engine(context, dry_run=True) as (jobs, output):
        state = jobs.service.state()
        known = state.stage(stage)
        id_ = _attempt(known, attempt)
        about = {"stage": stage, "attempt": id_, "stream": "err" if err else "log"}
        with closing(saying(jobs, state, known, id_, err=err, last=last)) as heard:
            said = followed(jobs, stage, heard) if follow else heard.new()
            if output.settings.format is Format.JSON:
                files = _together(said)
                output.result({**about, "files": files}, str, state=jobs.service.state())
                found = bool(files)
            else:
                found = _print(output, about, said, several=len(heard.mouths) > 1)
    _hint(heard, err=err, found=found)


def _of_task(
    context: typer.Context, stage: str, key: str, *, err: bool, last: int | None, odd: bool
) -> None:
    """Print what the newest run of one task printed."""
    if odd:
        raise InvalidOption("--task takes neither --follow nor --attempt: its newest run is shown")
    from cli.commands.tasks import printed

    with reading(context) as workflow:
        path, text = printed(workflow, stage, key, err=err, last=last)
        output = workflow.output
        about = {"stage": stage, "task": key, "stream": "err" if err else "log", "path": path}
        shown = harmless(text) if output.is_terminal else text
        data = {**about, "text": text}
        output.result(data, lambda: shown.removesuffix("\n"), state=workflow.state())


def _attempt(stage: Known, named: str | None) -> str:
    """Return the id of the attempt that is meant; raises `NotFound`."""
    known = [attempt.id for attempt in stage.attempts]
    if named is None and known:
        return known[-1]
    if named in known:
        return str(named)
    what = f"no attempt {named}" if named is not None else "no attempt yet"
    has = f"it has {', '.join(known)}" if known else f"`wfctl dispatch {stage.id}` starts one"
    raise NotFound(f"{stage.id} has {what}; {has}", stage=stage.id, attempts=known)


def _together(said: Iterable[Said]) -> list[dict[str, Any]]:
    contents: dict[str, bytes] = {}
    for path, content in said:
        contents[path] = contents.get(path, b"") + content
    return [
        {"path": path, "text": content.decode(errors="replace")}
        for path, content in contents.items()
    ]


def _print(output: Output, about: dict[str, str], said: Iterable[Said], *, several: bool) -> bool:
    """Print what is said as it comes; return whether anything was."""
    found, before = False, None
    for path, content in said if output.is_text and not output.is_terminal else _in_lines(said):
        if several and output.is_text and path != before:
            # As `tail` tells files apart.
            sys.stdout.write(f"{'' if before is None else chr(10)}==> {path} <==\n")
        found, before = True, path
        _write(output, about, path, content)
    return found


def _write(output: Output, about: dict[str, str], path: str, content: bytes) -> None:
    text = content.decode(errors="replace")
    if not output.is_text:
        sys.stdout.write(compact({**about, "path": path, "text": text}) + "\n")
    elif output.is_terminal:
        sys.stdout.write(harmless(text))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
    sys.stdout.flush()


def _in_lines(said: Iterable[Said]) -> Iterator[tuple[str, bytes]]:
    """Yield whole lines, and in the end what has no newline: a character is never cut in two."""
    rest: dict[str, bytes] = {}
    for path, content in said:
        whole, newline, rest[path] = (rest.get(path, b"") + content).rpartition(b"\n")
        if newline:
            yield path, whole + newline
    yield from ((path, content) for path, content in rest.items() if content)


def _hint(heard: Saying, *, err: bool, found: bool) -> None:
    """Say where else to look, where nothing was said here."""
    if found:
        return
    attempt = heard.attempt
    other = "leave out --err for stdout" if err else "--err shows stderr"
    log = f"; what DPDispatcher printed: {attempt.log}" if attempt.log.exists() else ""
    say(f"wfctl: {attempt.id} has printed nothing here: {other}{log}")
