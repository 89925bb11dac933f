"""The command tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from cli import append, db, dispatch, events, init, reconcile, replay, stage, status
from cli.demo import command as demo
from cli.settings import Color, Format, Settings

PLUMBING = "Plumbing"
PORCELAIN = "Porcelain"


def _everywhere(
    context: typer.Context,
    root: Annotated[
        Path | None, typer.Option("--root", metavar="DIR", help="The workflow's folder.")
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option("--database-url", metavar="URL", envvar="WFCTL_DATABASE_URL", help="The log."),
    ] = None,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="How results are printed.")
    ] = Format.TEXT,
    color: Annotated[Color, typer.Option("--color", help="When colours are used.")] = Color.AUTO,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="KIND:NAME", help="Who acts.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    """wfctl keeps the state of a computational workflow in an event log.

    These options may stand anywhere on the line.
    """
    if version:
        _print_version()
    context.obj = Settings(root, database_url, output, color, actor)


def _print_version() -> None:
    from importlib.metadata import version

    print(f"wfctl {version('wfctl-eventstore')}")
    raise typer.Exit


def build() -> typer.Typer:
    """Return the whole command tree."""
    app = typer.Typer(
        name="wfctl",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_everywhere)
    plumbing: dict[str, Callable[..., None]] = {
        "append": append.append,
        "replay": replay.replay,
        "events": events.events,
        "fsck": events.fsck,
        "schema": events.schema,
    }
    porcelain: dict[str, Callable[..., None]] = {
        "init": init.init,
        "status": status.status,
        "show": status.show,
        "log": status.log,
        "note": append.note,
        "dispatch": dispatch.dispatch,
        "wait": dispatch.wait,
        "run": dispatch.run,
        "rehydrate": reconcile.rehydrate,
        "reconcile": reconcile.reconcile,
        "demo": demo.demo,
    }
    for panel, commands in ((PORCELAIN, porcelain), (PLUMBING, plumbing)):
        for name, function in commands.items():
            app.command(name, rich_help_panel=panel)(function)
    app.add_typer(stage.build(), name="stage", rich_help_panel=PORCELAIN)
    app.add_typer(db.build(), name="db", rich_help_panel=PLUMBING)
    return app
