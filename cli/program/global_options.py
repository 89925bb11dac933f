"""The options that every command accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cli.frame.options import option
from cli.settings import Color, Format, JournalChoice, LogLevel, Settings
from cli.version import print_version
from service.errors import InvalidOption
from service.root.root import RootIs

#: Commands that print a table, and therefore support CSV output.
_TABLES = frozenset({"audit", "compare", "tasks", "metrics"})


def handle_global_options(
    context: Any,
    root: str | None = option(
        "DIR",
        "Use the workflow in this folder. Default: the current folder or its nearest "
        "parent that contains .wfctl/.",
    ),
    root_is: RootIs | None = option(
        "Confirm that you moved or copied the workflow's folder. wfctl asks for this "
        "option if the path of the folder changed."
    ),
    database_url: str | None = option(
        "URL",
        "Use the event log in this database. Default: the database in config.toml, "
        "otherwise .wfctl/events.db.",
        envvar="WFCTL_DATABASE_URL",
    ),
    journal: JournalChoice | None = option(
        "Use this SQLite journal mode for the log. Default: the mode that is safe on "
        "the file system."
    ),
    output: Format = option(
        "-o", "--output", "Print the result in this format.", default=Format.TEXT
    ),
    color: Color = option(
        "Use colours always, never, or only when printing to a terminal (auto).", default=Color.AUTO
    ),
    actor: str | None = option(
        "KIND:NAME",
        "Record this person or program as the author of each change, for example user:ada "
        "or agent:claude.",
    ),
    log_level: LogLevel = option(
        "Print only messages of this level or higher to stderr.", default=LogLevel.INFO
    ),
    as_is: bool = option("--as-is", "Read the log without checking it, to inspect a damaged log."),
    version: bool = option("--version", "Print the version and exit."),
) -> None:
    """wfctl keeps the state of a computational workflow in an event log.

    You can write these options anywhere on the line.
    """
    if version:
        print_version()
        raise SystemExit
    called = context.invoked_subcommand
    if output is Format.CSV and called not in _TABLES:
        names = ", ".join(sorted(_TABLES))
        raise InvalidOption(
            f"the output format csv is available only for the commands {names}. Use -o text, -o "
            "json or -o jsonl instead."
        )
    folder = Path(root) if root is not None else None
    context.obj = Settings(
        folder, database_url, output, color, actor, root_is, journal, log_level, as_is
    )
    if called is None:
        context.command.print_list(context)
