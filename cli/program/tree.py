"""The tree of all commands. The module of a command is imported at its call."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterable
from functools import cache, update_wrapper
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from cli.program.commands import (
    HIDDEN,
    find_commands,
    find_default_command,
    find_help_line,
    find_top_words,
    load_command_function,
    load_sections,
)
from cli.program.global_options import handle_global_options
from cli.program.parameters import CommandParameter, read_parameters
from wfctl_eventstore.extension import require_extension_of_command


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
    function = build_typer_function(load_command_function(whole, place))
    around = _create_app()
    around.command(name, cls=PlainCommand, hidden=whole in HIDDEN)(function)
    return get_group(around).commands[name]


def _create_app() -> typer.Typer:
    return typer.Typer(add_completion=False, rich_markup_mode=None)


def build_typer_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for typer that calls a command function.

    typer needs one parameter for each option, with an option of its own in the annotation.
    """
    found = read_parameters(function)

    def command(typer_context: typer.Context, **values: Any) -> Any:
        return found.call(typer_context, values)

    update_wrapper(command, function, ("__module__", "__name__", "__doc__"), ())
    del command.__wrapped__  # type: ignore[attr-defined] # typer would read its parameters
    context = Parameter("typer_context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    command.__signature__ = Signature(  # type: ignore[attr-defined]
        [context, *map(_build_typer_parameter, found.single)]
    )
    return command


def _build_typer_parameter(parameter: CommandParameter) -> Parameter:
    declared = parameter.declared
    build: Any = typer.Argument if declared.is_argument else typer.Option
    names = parameter.option_names
    information = build(*names, metavar=declared.metavar, help=declared.help, **declared.further)
    return Parameter(
        parameter.name,
        Parameter.KEYWORD_ONLY,
        default=parameter.default,
        annotation=Annotated[parameter.type, information],
    )


@cache  # typer reads the signature of each command again, which is slow
def build_program() -> Any:
    """Return the typer group of the whole program.

    Its method ``main`` runs a command line, and returns an exit code or None.
    """
    app = typer.Typer(
        name="wfctl",
        cls=Commands,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(build_typer_function(handle_global_options))
    return get_group(app)


def create_program_context() -> Any:
    """Return a context of the whole program, without parsing a command line."""
    program = build_program()
    return program.context_class(program, info_name="wfctl", **program.context_settings)


def format_command_help(name: str) -> str:
    """Return the help of a command or group. Raises `KeyError` if the name is unknown."""
    context = create_program_context()
    # The name of a command in a group can have two words (`machine task claim`).
    for word in name.split(" ", 1):
        command = context.command.commands[word]
        context = command.context_class(command, info_name=word, parent=context)
    return str(context.command.get_help(context))
