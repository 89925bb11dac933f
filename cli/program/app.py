"""The program: the options of every command, and the commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import typer
from typer.main import get_group

from cli.frame.options import option, spread
from cli.program.tree import Commands
from cli.settings import VERSION, Color, Format, JournalChoice, LogLevel, Settings
from service.errors import InvalidOption
from service.root.root import RootIs

#: Commands that print tables, and so CSV.
_TABLES = frozenset({"audit", "compare", "tasks", "metrics"})


def _everywhere(
    context: typer.Context,
    root: str | None = option("DIR", "The workflow's folder."),
    root_is: RootIs | None = option("What happened to a root that is not where it was."),
    database_url: str | None = option("URL", "The log.", envvar="WFCTL_DATABASE_URL"),
    journal: JournalChoice | None = option("The log's journal; else by its file system."),
    output: Format = option("-o", "--output", "How results are printed.", default=Format.TEXT),
    color: Color = option("When colours are used.", default=Color.AUTO),
    actor: str | None = option("KIND:NAME", "Who acts."),
    log_level: LogLevel = option("What is said on stderr.", default=LogLevel.INFO),
    as_is: bool = option("--as-is", "Show an altered log as it stands; for reading alone."),
    version: bool = option("--version", "Print the version and leave."),
) -> None:
    """wfctl keeps the state of a computational workflow in an event log.

    These options may stand anywhere on the line.
    """
    if version:
        _print_version()
    if context.invoked_subcommand is None:
        raise InvalidOption("expected a command; `wfctl --help` lists them")
    if output is Format.CSV and context.invoked_subcommand not in _TABLES:
        names = ", ".join(sorted(_TABLES))
        raise InvalidOption(f"expected text, json or jsonl after -o: csv is for {names} only")
    folder = Path(root) if root is not None else None
    context.obj = Settings(
        folder,
        database_url,
        output,
        color,
        actor,
        root_is,
        journal,
        log_level=log_level,
        as_is=as_is,
    )


def _print_version() -> None:
    print(f"wfctl {VERSION}")
    raise typer.Exit


@cache  # typer asks the signature of each command anew, a third of what a short command takes
def build() -> Callable[..., Any]:
    """Return the program: a function of the arguments, which returns an exit code or nothing."""
    app = typer.Typer(
        name="wfctl",
        cls=Commands,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(spread(_everywhere))
    return get_group(app).main
