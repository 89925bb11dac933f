"""The tree of all commands. The module of a command is imported at its call."""

from __future__ import annotations

import re
import sys
from collections import UserDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from cli.frame.options import expand_option_groups, option
from cli.program.commands import (
    HIDDEN,
    find_commands,
    find_default_command,
    find_help_line,
    find_top_words,
    load_sections,
)
from cli.settings import Color, Format, JournalChoice, LogLevel, Settings
from cli.version import VERSION
from service.errors import InvalidOption
from service.root.root import RootIs
from wfctl_eventstore.extension import require_extension_of_command

try:
    from typer._coercion import RuntimeParam, build_runtime_param
except ImportError:
    RuntimeParam = None  # type: ignore[misc, assignment]

#: Name of the pydantic module that searches for plugins.
LOADER = "pydantic.plugin._loader"
_WHOLE = re.compile(r"(0|[1-9][0-9]{0,17})\Z")
#: Placeholder that means: this class cannot convert the value, typer must do it.
_UNDECIDED = object()


class _DirectConverter(RuntimeParam or object):  # type: ignore[misc]
    """Converts simple command-line values directly, and all other values with typer.

    The direct conversion avoids the slow import of pydantic.
    """

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        found = self._convert_plain_value(value)
        if found is not _UNDECIDED:
            return found
        return build_runtime_param(param.type_descriptor).coerce(value, param, ctx)

    def _convert_plain_value(self, value: Any) -> Any:
        kind: Any = get_origin(self.annotation)
        if kind is list and isinstance(value, (list, tuple)):
            (kind,) = get_args(self.annotation)
            found = [_convert_value(kind, part) for part in value]
            return _UNDECIDED if _UNDECIDED in found else found
        found = _convert_value(self.annotation, value)
        least, most = self.parameter_info.min, self.parameter_info.max
        is_below = isinstance(found, int) and least is not None and found < least
        is_above = isinstance(found, int) and most is not None and found > most
        return _UNDECIDED if is_below or is_above else found


def _convert_value(kind: Any, value: Any) -> Any:
    if kind is str and type(value) is str:
        return value
    if kind is int:
        if type(value) is int:
            return value
        is_plain = type(value) is str and _WHOLE.match(value)
        return int(value) if is_plain else _UNDECIDED
    if isinstance(kind, type) and issubclass(kind, Enum):
        if isinstance(value, kind):
            return value
        return next((member for member in kind if member.value == value), _UNDECIDED)
    return _UNDECIDED


def use_direct_conversion(params: list[Any]) -> list[Any]:
    """Change the parameters of a typer command to convert simple values directly.

    Return the parameters. The direct conversion is faster than that of typer.
    """
    for param in params if RuntimeParam is not None else ():
        with suppress(AttributeError, TypeError):  # another version of typer uses other names
            kind = param.type_descriptor
            if kind.file_annotation is None and kind.parameter_info.parser is None:
                plain = _DirectConverter(kind.parameter_info, kind.annotation)
                param._runtime_param = plain  # noqa: SLF001
    return params


def disable_pydantic_plugin_search() -> None:
    """Prevent pydantic from searching for plugins, unless it has already done so.

    The search would slow down the start of each command.
    """
    if LOADER not in sys.modules:
        loader = ModuleType(LOADER, "Stands for the module that searches.")
        vars(loader).update(get_plugins=lambda: (), __getattr__=_get_real_plugin_attribute)
        sys.modules[LOADER] = loader


def _get_real_plugin_attribute(name: str) -> Any:
    """Import the real plugin module of pydantic, and return the named attribute.

    A placeholder module calls this function if a pydantic version needs an attribute it does not
    have.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    del sys.modules[LOADER]
    return getattr(import_module(LOADER), name)


class _LazyCommands(UserDict[str, Any]):
    """A dict from names to typer commands, which imports each command at its first lookup."""

    def __init__(self, names: Iterable[str], load: Callable[[str], Any]) -> None:
        super().__init__(dict.fromkeys(names))
        self._load = load

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = self._load(name)
        return self.data[name]


class _PlainHelp:
    """The help of commands and groups, with plain names and an example at the end."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options of the command, including the help option."""
        return use_direct_conversion(super().get_params(ctx))  # type: ignore[misc]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options. For a group, also write its commands."""
        from cli.program.command_help import write_options

        write_options(self, ctx, formatter)
        if isinstance(self, TyperGroup):
            self.format_commands(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line in the help."""
        from cli.program.command_help import usage_pieces

        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return usage_pieces(pieces)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the global options and an example at the end of the help."""
        from cli.program.command_help import path_of, write_options_and_example

        if ctx.parent is not None:
            write_options_and_example(
                path_of(ctx), formatter, is_group=isinstance(self, TyperGroup)
            )


class PlainCommand(_PlainHelp, TyperCommand):
    """A typer command that imports pydantic only if a value needs it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. Add a working example to the message of an error."""
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            from cli.program.similar_commands import build_example_hint

            error.example = build_example_hint(ctx, error)  # type: ignore[attr-defined]
            raise


class Group(_PlainHelp, TyperGroup):
    """A group of commands with plain help text.

    typer's default help imports rich, which takes longer than running a command.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. If it names no command, run the default command.

        If the group has no default command, print the list of its commands.
        """
        if not args and not ctx.resilient_parsing and ctx.parent is not None:
            usual = find_default_command(str(self.name))
            if usual is None:
                self.print_list(ctx)
                raise typer.Exit
            args = [usual]
        return super().parse_args(ctx, args)

    def print_list(self, ctx: Any) -> None:
        """Print the list of commands in the group."""
        from cli.program.command_help import format_list, list_command_help_lines
        from cli.terminal.output import Output

        Output(ctx.obj).result(
            {"commands": list_command_help_lines(self)}, lambda: format_list(self, ctx)
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the words name.

        A name can have two words (`machine task claim`).
        """
        pair = " ".join(args[:2])
        whole = [pair, *args[2:]] if len(args) > 1 and pair in self.commands else args
        if whole[0] not in self.commands and not whole[0].startswith("-"):
            from cli.program.similar_commands import no_such_command

            above = f"{self.name} " if ctx.parent is not None else ""
            require_extension_of_command(above + whole[0])
            raise no_such_command(ctx, self, whole)
        return super().resolve_command(ctx, whole)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - required by the base class
        """Return the names of the commands in order, without importing any command."""
        return [one for one in self.commands if f"{self.name} {one}" not in HIDDEN]

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - see above
        """Write each command of the group with the first sentence of its help."""
        from cli.program.command_help import list_command_help_lines

        with formatter.section("Commands"):
            formatter.write_dl([*list_command_help_lines(self).items()])


class Commands(Group):
    """The top-level group, which contains all commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _LazyCommands(find_top_words(), _load_command)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - see above
        """Write all commands by section of the help, without importing any command."""
        for title, lines in load_sections().items():
            with formatter.section(title):
                formatter.write_dl([*lines.items()])


def _load_command(name: str) -> Any:
    modules = find_commands(name)
    if name in modules:
        return _build_command(name, name, modules[name])
    around = _create_app()
    group = typer.Typer(help=f"{find_help_line(name)}.")
    around.add_typer(group, name=name, cls=Group)
    loaded: Any = get_group(around).commands[name]
    inner = {one.removeprefix(f"{name} "): module for one, module in modules.items()}
    loaded.commands = _LazyCommands(
        inner, lambda one: _build_command(one, f"{name} {one}", inner[one])
    )
    return loaded


def _build_command(name: str, whole: str, place: str) -> Any:
    is_whole = place.startswith(("cli.", "extensions."))
    module = import_module(place if is_whole else f"cli.commands.{place}")
    word = name.rsplit(maxsplit=1)[-1].strip("_")
    # If the name of a command is a Python keyword, its function name ends with an underscore.
    function = getattr(module, f"{word}_", None) or getattr(module, word)
    around = _create_app()
    around.command(name, cls=PlainCommand, hidden=whole in HIDDEN)(expand_option_groups(function))
    return get_group(around).commands[name]


def _create_app() -> typer.Typer:
    return typer.Typer(add_completion=False, rich_markup_mode=None)


#: Commands that print a table, and therefore support CSV output.
_TABLES = frozenset({"audit", "compare", "tasks", "metrics"})


def _handle_global_options(
    context: typer.Context,
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
        print(f"wfctl {VERSION}")
        raise typer.Exit
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
        context.command.print_list(context)  # type: ignore[attr-defined]


@cache  # typer reads the signature of each command again, which is slow
def build_program() -> Callable[..., Any]:
    """Return the wfctl program as a function of the command-line arguments.

    The function returns an exit code or None.
    """
    app = typer.Typer(
        name="wfctl",
        cls=Commands,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(expand_option_groups(_handle_global_options))
    return get_group(app).main
