"""Read the options and arguments that a command function declares in its signature."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from typing import Any, NamedTuple, get_args

from cli.frame.options import Declaration, OptionGroup

#: The default of a parameter that must be given.
REQUIRED = Parameter.empty


class CommandParameter(NamedTuple):
    """An option or argument of a command function.

    ``type`` is the type of its value, and ``default`` is the value if it is not given, or REQUIRED.
    """

    name: str
    type: Any
    default: Any
    declared: Declaration

    @property
    def option_names(self) -> list[str]:
        """The names of the option on the command line, or an empty list for an argument."""
        if self.declared.is_argument:
            return []
        return self.declared.names or [f"--{self.name.strip('_').replace('_', '-')}"]


class CommandParameters(NamedTuple):
    """The parameters of a command function.

    ``groups`` maps a parameter of the function to the group of options that give its value.
    """

    function: Callable[..., Any]
    has_context: bool
    single: list[CommandParameter]
    groups: dict[str, OptionGroup]

    def call(self, context: Any, values: dict[str, Any]) -> Any:
        """Call the function with the values of its single parameters, and return its result."""
        given = dict(values)
        for name, group in self.groups.items():
            given[name] = group.value(*[given.pop(each) for each in group.options])
        return self.function(**({"context": context} if self.has_context else {}), **given)


def read_parameters(function: Callable[..., Any]) -> CommandParameters:
    """Return the parameters of a command function, with each option group as single options."""
    given = signature(function).parameters
    groups: dict[str, OptionGroup] = {}
    single: list[CommandParameter] = []
    last: list[CommandParameter] = []
    for name, parameter in given.items():
        if name == "context":
            continue
        declared = _read_declared(function, parameter)
        if isinstance(declared, OptionGroup):
            groups[name] = declared
            (last if parameter.default is REQUIRED else single).extend(
                _list_group_parameters(declared)
            )
        else:
            single.append(declared)
    return CommandParameters(function, "context" in given, [*single, *last], groups)


def _read_declared(
    function: Callable[..., Any], parameter: Parameter
) -> CommandParameter | OptionGroup:
    kind = parameter.annotation
    if isinstance(kind, str):  # of a module with postponed annotations
        kind = eval(kind, vars(sys.modules[function.__module__]))
    if isinstance(default := parameter.default, Declaration):
        is_missing_flag = kind is bool and default.default is None
        value = False if is_missing_flag else default.default
        return CommandParameter(parameter.name, kind, value, default)
    declared = kind.__metadata__[0]
    if isinstance(declared, OptionGroup):
        return declared
    return CommandParameter(parameter.name, get_args(kind)[0], default, declared)


def _list_group_parameters(group: OptionGroup) -> Iterator[CommandParameter]:
    for name, (kind, default) in group.options.items():
        yield CommandParameter(name, get_args(kind)[0], default, kind.__metadata__[0])
