"""Call a command without typer, whose import takes longer than many commands.

Only plain command lines are called this way: each word is a command, an argument, or a known option
with a valid value. For any other line, typer prints the help or explains the mistake.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Any, Union, get_args, get_origin

from cli.frame.options import split_global_options
from cli.program.commands import (
    find_commands,
    find_default_command,
    find_top_words,
    load_command_function,
)
from cli.program.global_options import handle_global_options
from cli.program.parameters import REQUIRED, CommandParameter, read_parameters
from cli.version import print_version

_WHOLE = r"(0|[1-9][0-9]{0,17})\Z"
_DECIMAL = r"[0-9]{1,9}(\.[0-9]{1,9})?\Z"
#: Maximum number of words in the name of a command.
_LONGEST_NAME = 3


class NotPlain(Exception):
    """The command line is not plain, so typer must parse it."""


class PlainContext:
    """The context of a command that is called without typer."""

    def __init__(self, invoked_subcommand: str) -> None:
        self.obj: Any = None
        self.params: dict[str, Any] = {}
        self.invoked_subcommand = invoked_subcommand
        self.info_name: str | None = invoked_subcommand
        self.typed: frozenset[str] = frozenset()

    def find_root(self) -> PlainContext:
        """Return this context, which also has the global options."""
        return self

    def get_parameter_source(self, name: str) -> Any:
        """Return an object whose name tells whether the command line has the parameter."""
        return SimpleNamespace(name="COMMANDLINE" if name in self.typed else "DEFAULT")


def find_plain_call(arguments: list[str]) -> Callable[[], Any]:
    """Return a function that calls the command of a command line.

    Raises `NotPlain` if typer must parse the line.
    """
    global_words, words = split_global_options(arguments)
    handler = read_parameters(handle_global_options)
    settings, _ = parse_words(handler.single, global_words)
    if words[-1:] in (["--help"], ["-h"]):
        return _find_help(words[:-1])
    if words == ["--version"]:
        return print_version
    name, module, words = _split_command_name(words)
    context = PlainContext(name.split()[0])
    command = read_parameters(load_command_function(name, module))
    values, typed = parse_words(command.single, words)
    context.params, context.typed = values, typed
    context.info_name = name.rpartition(" ")[2]
    handler.call(context, settings)
    return partial(command.call, context, values)


def _find_help(words: list[str]) -> Callable[[], None]:
    """Return a function that prints the help of the command that the words name."""
    name, _, rest = _split_command_name(words)
    if rest or name != " ".join(words):
        raise NotPlain
    return partial(_print_help, name)


def _print_help(name: str) -> None:
    from cli.program.tree import format_command_help

    print(format_command_help(name))


def _split_command_name(words: list[str]) -> tuple[str, str, list[str]]:
    """Return the name of the command, its module, and the words after the name."""
    if not words or words[0] not in find_top_words():
        raise NotPlain
    modules = find_commands(words[0])
    default = find_default_command(words[0]) if len(words) == 1 else None
    if default is not None:
        words = [words[0], default]
    for length in range(min(_LONGEST_NAME, len(words)), 0, -1):
        name = " ".join(words[:length])
        if name in modules:
            return name, modules[name], words[length:]
    raise NotPlain


def parse_words(
    parameters: Sequence[CommandParameter], words: Iterable[str]
) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the value of each parameter, and the names of those that the words give.

    Raises `NotPlain` if typer must parse the words.
    """
    # Options such as ``--size/--no-size`` have two names in one text, so typer must parse them.
    options = {name: one for one in parameters for name in one.option_names if "/" not in name}
    given: dict[str, list[str]] = {}
    arguments: list[str] = []
    queue = deque(words)
    while queue:
        word = queue.popleft()
        if word == "--":
            arguments += queue
            break
        if not word.startswith("-") or word == "-":
            arguments.append(word)
        else:
            option, value = _read_option(options, word, queue)
            given.setdefault(option.name, []).append(value)
    given |= _assign_arguments([one for one in parameters if one.declared.is_argument], arguments)
    typed = frozenset(given)
    for one in parameters:
        variable = os.environ.get(one.declared.further.get("envvar", ""))
        if variable and one.name not in given:
            given[one.name] = [variable]
    return {one.name: _read_value(one, given.get(one.name)) for one in parameters}, typed


def _read_option(
    options: dict[str, CommandParameter], word: str, queue: deque[str]
) -> tuple[CommandParameter, str]:
    """Return the option that a word names, and its value."""
    name, equals, value = word.partition("=")
    option = options.get(name)
    if option is None or (equals and (option.type is bool or not name.startswith("--"))):
        raise NotPlain
    if not equals and option.type is not bool:
        value = queue.popleft() if queue else "-"
        if value.startswith("-"):
            raise NotPlain
    return option, value


def _assign_arguments(
    parameters: Sequence[CommandParameter], words: Sequence[str]
) -> dict[str, list[str]]:
    """Return the words of each positional argument. Only the last one may take several words."""
    given: dict[str, list[str]] = {}
    queue = deque(words)
    for number, one in enumerate(parameters, 1):
        if not queue:
            break
        if find_list_item(one.type) is None:
            given[one.name] = [queue.popleft()]
        elif number == len(parameters):
            given[one.name] = [*queue]
            queue.clear()
        else:
            raise NotPlain
    if queue:
        raise NotPlain
    return given


def _read_value(parameter: CommandParameter, given: list[str] | None) -> Any:
    """Return the value of a parameter, or its default if no words are given."""
    if given is None:
        if parameter.default is REQUIRED:
            raise NotPlain
        return parameter.default
    if parameter.type is bool:
        return True
    item = find_list_item(parameter.type)
    if item is not None:
        return [_convert(item, word) for word in given]
    value = _convert(drop_none(parameter.type), given[-1])
    limits = parameter.declared.further
    if value < limits.get("min", value) or value > limits.get("max", value):
        raise NotPlain
    return value


def drop_none(kind: Any) -> Any:
    """Return the type of an optional value without None."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    found = [one for one in get_args(kind) if one is not type(None)]
    return found[0] if len(found) == 1 else None


def find_list_item(kind: Any) -> Any:
    """Return the type of the items if the type is a list, and None otherwise."""
    kind = drop_none(kind)
    return get_args(kind)[0] if get_origin(kind) is list else None


def _convert(kind: Any, word: str) -> Any:
    """Return a word as a value of a type."""
    if kind in (str, Path):
        return kind(word)
    if kind is int and re.match(_WHOLE, word):
        return int(word)
    if kind is float and re.match(_DECIMAL, word):
        return float(word)
    if isinstance(kind, type) and issubclass(kind, Enum):
        for member in kind:
            if member.value == word:
                return member
    raise NotPlain
