"""The command tree."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.hoist import EVERYWHERE
from cli.settings import Color, Format, Journal, LogLevel, Settings
from service.errors import InvalidOption
from service.root import RootIs

PORCELAIN = "Porcelain"
PLUMBING = "Plumbing"

#: Command → where its function lives. A module is only loaded where its command is called.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": (PORCELAIN, "cli.init:init"),
    "import": (PORCELAIN, "cli.importing:import_"),
    "status": (PORCELAIN, "cli.status:status"),
    "show": (PORCELAIN, "cli.status:show"),
    "log": (PORCELAIN, "cli.log:log"),
    "stage": (PORCELAIN, "cli.stage:build"),
    "dispatch": (PORCELAIN, "cli.dispatch:dispatch"),
    "wait": (PORCELAIN, "cli.dispatch:wait"),
    "run": (PORCELAIN, "cli.run:run"),
    "runner": (PORCELAIN, "cli.runner:build"),
    "session": (PORCELAIN, "cli.session:build"),
    "report": (PORCELAIN, "cli.report:report"),
    "rehydrate": (PORCELAIN, "cli.reconcile:rehydrate"),
    "reconcile": (PORCELAIN, "cli.reconcile:reconcile"),
    "amend": (PORCELAIN, "cli.amend:build"),
    "blame": (PORCELAIN, "cli.blame:blame"),
    "why": (PORCELAIN, "cli.why:why"),
    "diff": (PORCELAIN, "cli.diff:diff"),
    "audit": (PORCELAIN, "cli.audit:build"),
    "drift": (PORCELAIN, "cli.drift:build"),
    "note": (PORCELAIN, "cli.append:note"),
    "watch": (PORCELAIN, "cli.watch:watch"),
    "export": (PORCELAIN, "cli.export:export"),
    "machine": (PORCELAIN, "cli.machine.group:build"),
    "demo": (PORCELAIN, "cli.demo.command:demo"),
    "append": (PLUMBING, "cli.append:append"),
    "replay": (PLUMBING, "cli.replay:replay"),
    "events": (PLUMBING, "cli.events:events"),
    "fsck": (PLUMBING, "cli.events:fsck"),
    "schema": (PLUMBING, "cli.events:schema"),
    "db": (PLUMBING, "cli.db:build"),
}
_GROUPS = frozenset({"amend", "audit", "db", "drift", "machine", "runner", "session", "stage"})


def _everywhere(
    context: typer.Context,
    root: Annotated[
        Path | None, typer.Option("--root", metavar="DIR", help="The workflow's folder.")
    ] = None,
    root_is: Annotated[
        RootIs | None,
        typer.Option("--root-is", help="What happened to a root that is not where it was."),
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option("--database-url", metavar="URL", envvar="WFCTL_DATABASE_URL", help="The log."),
    ] = None,
    journal: Annotated[
        Journal | None,
        typer.Option("--journal", help="The log's journal; else by its file system."),
    ] = None,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="How results are printed.")
    ] = Format.TEXT,
    color: Annotated[Color, typer.Option("--color", help="When colours are used.")] = Color.AUTO,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="KIND:NAME", help="Who acts.")
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="What is said on stderr.")
    ] = LogLevel.INFO,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    """wfctl keeps the state of a computational workflow in an event log.

    These options may stand anywhere on the line.
    """
    if version:
        _print_version()
    if context.invoked_subcommand is None:
        raise InvalidOption("expected a command; `wfctl --help` lists them")
    if output is Format.CSV and context.invoked_subcommand != "audit":
        raise InvalidOption("expected text, json or jsonl after -o: csv is for `wfctl audit` only")
    context.obj = Settings(
        root, database_url, output, color, actor, root_is, journal, log_level=log_level
    )


def _print_version() -> None:
    from importlib.metadata import version

    print(f"wfctl {version('wfctl-eventstore')}")
    raise typer.Exit


def build(arguments: list[str]) -> typer.Typer:
    """Return the command tree for a line: the one command it calls, else all of them."""
    app = typer.Typer(
        name="wfctl",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_everywhere)
    called = called_command(arguments)
    for name in [called] if called is not None else COMMANDS:
        _add(app, name)
    return app


def called_command(arguments: list[str]) -> str | None:
    """Return the command that a hoisted line calls; None where it calls none that there is."""
    words = iter(arguments)
    for word in words:
        if word in EVERYWHERE:
            next(words, None)
        elif not word.startswith("-"):
            return word if word in COMMANDS else None
    return None


def _add(app: typer.Typer, name: str) -> None:
    panel, place = COMMANDS[name]
    module, _, attribute = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), attribute)
    if name in _GROUPS:
        app.add_typer(found(), name=name, rich_help_panel=panel)
    else:
        app.command(name, rich_help_panel=panel)(found)
