"""The tree of commands, of which each is loaded when it is called."""

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
from typer.main import get_group

from cli.frame.options import option, spread
from cli.program.commands import BARE, COMMANDS, GROUPS, HELP, HIDDEN, SECTIONS
from cli.settings import VERSION, Color, Format, JournalChoice, LogLevel, Settings
from service.errors import InvalidOption
from service.root.root import RootIs

try:
    from typer._coercion import RuntimeParam, build_runtime_param
except ImportError:
    RuntimeParam = None  # type: ignore[misc, assignment]

#: The module of pydantic that searches.
LOADER = "pydantic.plugin._loader"
_WHOLE = re.compile(r"(0|[1-9][0-9]{0,17})\Z")
#: Stands for a value on which typer must decide.
_UNDECIDED = object()


class _AsTyped(RuntimeParam or object):  # type: ignore[misc]
    """What was typed, where it is plainly of the type; else what typer makes of it."""

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        found = self._plain(value)
        if found is not _UNDECIDED:
            return found
        return build_runtime_param(param.type_descriptor).coerce(value, param, ctx)

    def _plain(self, value: Any) -> Any:
        kind: Any = get_origin(self.annotation)
        if kind is list and isinstance(value, (list, tuple)):
            (kind,) = get_args(self.annotation)
            found = [_one(kind, part) for part in value]
            return _UNDECIDED if _UNDECIDED in found else found
        found = _one(self.annotation, value)
        least, most = self.parameter_info.min, self.parameter_info.max
        is_below = isinstance(found, int) and least is not None and found < least
        is_above = isinstance(found, int) and most is not None and found > most
        return _UNDECIDED if is_below or is_above else found


def _one(kind: Any, value: Any) -> Any:
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


def taken_as_typed(params: list[Any]) -> list[Any]:
    """Return the parameters of a command of typer, whose plain values need no validator now."""
    for param in params if RuntimeParam is not None else ():
        with suppress(AttributeError, TypeError):  # of a typer that calls them otherwise
            kind = param.type_descriptor
            if kind.file_annotation is None and kind.parameter_info.parser is None:
                plain = _AsTyped(kind.parameter_info, kind.annotation)
                param._runtime_param = plain  # noqa: SLF001
    return params


def search_no_plugins() -> None:
    """Let pydantic find no plugin in this process; where it has looked already, nothing changes."""
    if LOADER not in sys.modules:
        loader = ModuleType(LOADER, "Stands for the module that searches.")
        vars(loader).update(get_plugins=lambda: (), __getattr__=_of_the_real_one)
        sys.modules[LOADER] = loader


def _of_the_real_one(name: str) -> Any:
    """Return what a pydantic of another version wants of the module, which is then loaded."""
    if name.startswith("__"):
        raise AttributeError(name)
    del sys.modules[LOADER]
    return getattr(import_module(LOADER), name)


#: Characters of a help's first sentence that are shown.
_SENTENCE = 500


class _Loaded(UserDict[str, Any]):
    """Name → command of typer; one is loaded when it is looked up, and only its names before."""

    def __init__(self, names: Iterable[str], load: Callable[[str], Any]) -> None:
        super().__init__(dict.fromkeys(names))
        self._load = load

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = self._load(name)
        return self.data[name]


class _Helped:
    """What the help of commands and groups has in common: plain names, an example, an end."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options, that of the help among them."""
        return taken_as_typed(super().get_params(ctx))  # type: ignore[misc]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, and of a group its commands."""
        from cli.program.helping import write_options

        write_options(self, ctx, formatter)
        if isinstance(self, TyperGroup):
            self.format_commands(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line."""
        from cli.program.helping import usage_pieces

        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return usage_pieces(pieces)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write what every command takes, and an example."""
        from cli.program.helping import path_of, write_end

        if ctx.parent is not None:
            write_end(path_of(ctx), formatter, is_group=isinstance(self, TyperGroup))


class PlainCommand(_Helped, TyperCommand):
    """A command that loads pydantic only for values that are not plainly right."""


class Group(_Helped, TyperGroup):
    """A group whose help is written plainly: rich takes longer to load than a command to run."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Show the help where no command is named, which is an error nevertheless."""
        if self.no_args_is_help and not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            ctx.fail("expected a command.")
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is meant; one has a name of two words (`machine task claim`)."""
        pair = " ".join(args[:2])
        whole = [pair, *args[2:]] if len(args) > 1 and pair in self.commands else args
        if whole[0] not in self.commands and not whole[0].startswith("-"):
            from cli.program.meant import no_such_command

            raise no_such_command(ctx, self, whole)
        return super().resolve_command(ctx, whole)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as the base class has it
        """Return the names of the commands, in their order; nothing is loaded for them."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with the first sentence of its help, whole."""
        self._section("Commands", self.list_commands(ctx), formatter)

    def _section(self, title: str, names: list[str], formatter: Any) -> None:
        with formatter.section(title):
            rows = [(name, self.commands[name].get_short_help_str(_SENTENCE)) for name in names]
            formatter.write_dl(rows)


def top() -> list[str]:
    """Return the commands and groups at the top, in the order of the help."""
    firsts = ((name.split(maxsplit=1)[0], name) for name in COMMANDS)
    return list(dict.fromkeys(first if first in GROUPS else name for first, name in firsts))


class Commands(Group):
    """The group of all commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Loaded(top(), _load)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - likewise
        """Write the commands by task; no command is loaded for its line."""
        for title, lines in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([*lines.items()])


def _load(name: str) -> Any:
    if name not in GROUPS:
        return _command(name, name)
    inner = [one.removeprefix(f"{name} ") for one in COMMANDS if one.startswith(f"{name} ")]
    around = _plain()
    group = typer.Typer(help=f"{HELP[name]}.", no_args_is_help=name not in BARE)
    around.add_typer(group, name=name, cls=Group)
    loaded: Any = get_group(around).commands[name]
    loaded.commands = _Loaded(inner, lambda one: _command(one, f"{name} {one}"))
    return loaded


def _command(name: str, whole: str) -> Any:
    place = COMMANDS[whole][0]
    module = import_module(place if place.startswith("cli.") else f"cli.commands.{place}")
    word = name.rsplit(maxsplit=1)[-1].strip("_")
    # A command that is named as a word of Python has a line at the end of its function's name.
    function = getattr(module, f"{word}_", None) or getattr(module, word)
    around = _plain()
    around.command(name, cls=PlainCommand, hidden=whole in HIDDEN)(spread(function))
    return get_group(around).commands[name]


def _plain() -> typer.Typer:
    return typer.Typer(add_completion=False, rich_markup_mode=None)


#: Commands that print tables, and so CSV.
_TABLES = frozenset({"audit", "compare", "tasks", "metrics"})


def _everywhere(
    context: typer.Context,
    root: str | None = option("DIR", "Folder of the workflow; else found upward."),
    root_is: RootIs | None = option("State whether this folder was moved or copied."),
    database_url: str | None = option("URL", "Database of the log.", envvar="WFCTL_DATABASE_URL"),
    journal: JournalChoice | None = option("Journal mode of an SQLite log."),
    output: Format = option("-o", "--output", "Format of the result.", default=Format.TEXT),
    color: Color = option("When to use colours.", default=Color.AUTO),
    actor: str | None = option("KIND:NAME", "Who acts: user:ada, agent:claude."),
    log_level: LogLevel = option("Least severe messages on stderr.", default=LogLevel.INFO),
    as_is: bool = option("--as-is", "Read a log that fails its checks."),
    version: bool = option("--version", "Print the version and exit."),
) -> None:
    """wfctl keeps the state of a computational workflow in an event log.

    These options may stand anywhere on the line.
    """
    if version:
        print(f"wfctl {VERSION}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise InvalidOption("expected a command; `wfctl --help` lists them")
    if output is Format.CSV and context.invoked_subcommand not in _TABLES:
        names = ", ".join(sorted(_TABLES))
        raise InvalidOption(f"expected text, json or jsonl after -o: csv is for {names} only")
    folder = Path(root) if root is not None else None
    context.obj = Settings(
        folder, database_url, output, color, actor, root_is, journal, log_level, as_is
    )


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
