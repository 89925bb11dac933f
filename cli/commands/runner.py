"""``wfctl runner …``: the autonomous runner, to be watched, paused and stopped."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from cli.frame.workspace import engine, reading
from cli.terminal.output import say
from reconciler.errors import NoRunner


def build() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(help="The autonomous runner.", no_args_is_help=True)
    for function in (show, pause, resume, attach, stop):
        group.command(function.__name__)(function)
    group.command("serve", hidden=True)(serve)
    return group


def show(context: typer.Context) -> None:
    """Whether one is at work, and how to watch, pause and stop it."""
    from reconciler.loop.detached import recorded
    from service.files.surroundings import PAUSE

    with reading(context) as workflow:
        found = recorded(workflow.root)
        paused = (workflow.root.path / PAUSE).exists()
        runner = None if found is None else found.to_dict()
        known = ways(runner)
        data = {"runner": runner, "paused": paused, "ways": known}
        at_work = "no runner is at work" if runner is None else f"runner {runner['pid']} is at work"
        text = f"{at_work}{', paused' if paused else ''}"
        workflow.output.result(data, lambda: "\n".join([text, *map(" ".join, known.items())]))


def ways(runner: dict[str, Any] | None) -> dict[str, str]:
    """Return what can be done with a runner, and the command for it."""
    if runner is None:
        return {"start": "wfctl run --autonomous"}
    found = {
        "watch": "tail -f progress.log",
        "pause": "wfctl runner pause",
        "resume": "wfctl runner resume",
        "stop": "wfctl runner stop",
    }
    if runner["session"] is not None:
        found["attach"] = f"tmux attach -t ={runner['session']}"
    return found


def pause(context: typer.Context) -> None:
    """Let it begin nothing until it is resumed: makes the file PAUSE."""
    from service.files.surroundings import PAUSE

    with reading(context) as workflow:
        (workflow.root.path / PAUSE).touch()
        workflow.output.result({"paused": True}, lambda: "paused; jobs that run go on")


def resume(context: typer.Context) -> None:
    """Let it go on: removes the file PAUSE."""
    from service.files.surroundings import PAUSE

    with reading(context) as workflow:
        (workflow.root.path / PAUSE).unlink(missing_ok=True)
        workflow.output.result({"paused": False}, lambda: "resumed")


def attach(context: typer.Context) -> None:
    """Look at its terminal in tmux; Ctrl-b d leaves it alone again."""
    from reconciler.loop.detached import OUTPUT, recorded

    with reading(context) as workflow:
        found = recorded(workflow.root)
        if found is None:
            raise NoRunner(workflow.root.path)
        if found.session is None:
            say(f"wfctl: it runs without tmux; it writes to {workflow.root.folder / OUTPUT}")
            raise typer.Exit(1)
    os.execvp("tmux", ["tmux", "attach", "-t", f"={found.session}"])


def stop(context: typer.Context) -> None:
    """End it and its session in order; jobs that run go on."""
    from reconciler.loop.detached import stop as end

    with reading(context) as workflow:
        found = end(workflow.root)
        workflow.output.result({"stopped": found.pid}, lambda: f"runner {found.pid} has ended")


def serve(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="WORD...")],
    max_sessions: Annotated[int, typer.Option(min=1)] = 20,
    session_seconds: Annotated[float, typer.Option(min=0.1)] = 7200.0,
    between: Annotated[float, typer.Option(min=0)] = 15.0,
    rapid: Annotated[int, typer.Option(min=1)] = 3,
    rapid_seconds: Annotated[float, typer.Option(min=0)] = 60.0,
) -> None:
    """Be the runner: WORDs are the command line of a loop."""
    from reconciler.loop.autonomy import Limits, Runner
    from reconciler.loop.detached import record
    from reconciler.loop.interruption import interruptible
    from reconciler.loop.patience import patience

    limits = Limits(max_sessions, session_seconds, between, rapid, rapid_seconds)
    with engine(context) as (jobs, output), interruptible() as asked:
        jobs.service.log.store.be_patient(patience(jobs, asked))
        runner = Runner(jobs, words, limits, asked)
        why = runner.serve(lambda: record(jobs.service.root, jobs.now()))
        output.result({"ended": why}, lambda: f"ended: {why}")
