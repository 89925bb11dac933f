"""The tree of commands, of which each is loaded when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from cli.frame.options import spread
from cli.program.commands import BARE, COMMANDS, GROUPS, HIDDEN, PLUMBING
from cli.program.shortcuts import taken_as_typed

#: Characters of a help's first sentence that are shown.
_WHOLE = 500


class _Loaded(MutableMapping[str, Any]):
    """Name → command of typer; one is loaded when it is looked up, and only its names before."""

    def __init__(self, names: Iterable[str], load: Callable[[str], Any]) -> None:
        self._found: dict[str, Any] = dict.fromkeys(names)
        self._load = load

    def __getitem__(self, name: str) -> Any:
        if self._found[name] is None:
            self._found[name] = self._load(name)
        return self._found[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class _Helped:
    """What the help of commands and groups has in common: plain names, an example, an end."""

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

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its arguments and options, that of the help among them."""
        return taken_as_typed(super().get_params(ctx))


class Group(_Helped, TyperGroup):
    """A group whose help is written plainly: rich takes longer to load than a command to run."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its options, that of the help among them."""
        return taken_as_typed(super().get_params(ctx))

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
            rows = [(name, self.commands[name].get_short_help_str(_WHOLE)) for name in names]
            formatter.write_dl(rows)


def top() -> list[str]:
    """Return the commands and groups at the top, in the order of the help."""
    return list(dict.fromkeys(_first(name) for name in COMMANDS))


def _first(name: str) -> str:
    first = name.split(maxsplit=1)[0]
    return first if first in GROUPS else name


class Commands(Group):
    """The group of all commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Loaded(top(), _load)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - likewise
        """Write the commands in two groups, as the contract has them."""
        shown = [name for name in top() if name not in HIDDEN]
        self._section("Porcelain", [name for name in shown if name not in PLUMBING], formatter)
        self._section("Plumbing", [name for name in shown if name in PLUMBING], formatter)


def _load(name: str) -> Any:
    if name not in GROUPS:
        return _command(name, name)
    inner = [one.removeprefix(f"{name} ") for one in COMMANDS if one.startswith(f"{name} ")]
    around = _plain()
    group = typer.Typer(help=GROUPS[name], no_args_is_help=name not in BARE)
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
