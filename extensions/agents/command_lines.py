"""Convert MCP tool calls to wfctl command lines, and suggested commands to tool calls."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from extensions.agents.errors import NotOffered, WrongArguments
from extensions.agents.tools import TOOLS, Route, Schema, Tool, find_withheld_command

Arguments = Mapping[str, Any]


#: JSON Schema type → the Python types of such values.
_PYTHON_TYPES = {"integer": int, "boolean": bool, "array": list, "object": dict}


def normalize_arguments(tool: Tool, given: Arguments) -> dict[str, Any]:
    """Return the arguments of a tool call without nulls, and with JSON strings decoded.

    Some clients encode numbers, lists or objects as JSON strings. Such a string is decoded only if
    the tool expects another type than a string, and the decoded value has that type.
    """
    properties = tool.schema["properties"]
    known = {name: value for name, value in given.items() if value is not None}
    return {name: _read_value(properties.get(name, {}), value) for name, value in known.items()}


def _read_value(schema: Schema, value: Any) -> Any:
    expected = _PYTHON_TYPES.get(schema.get("type", ""))
    if expected is None or not isinstance(value, str):
        return value
    try:
        found = from_json(value, allow_inf_nan=False)
    except ValueError:
        return value
    return found if type(found) is expected else value


def line_of(tool: Tool, given: Arguments, once: str | None = None) -> list[str]:
    """Return the wfctl command line of a tool call.

    Options that all commands share are not included.

    ``once`` is the client's own id of the call. It is used for a write without a ``request_id``.
    Values cannot be mistaken for options: positional values follow ``--``, and other values are
    attached to their option. Raises `WrongArguments` if the arguments fit no command, and
    `NotOffered` if only a person may run the command.
    """
    route = _route_of(tool, given)
    if command := find_withheld_command(route, given):
        why = "only a person can decide to cancel. The option --dry-run shows what would remain"
        raise NotOffered(
            f"the tool {tool.name} cannot run `{command}`, because {why}. Ask a person for this.",
            next_actions=[{"command": command, "person": True, "reason": why}],
        )
    words = [*route.words, *route.fixed]
    known = {"request_id": once, **{name: one for name, one in given.items() if one is not None}}
    for name, option in route.options.items():
        words += _format_option(option, known.get(name))
    places = [word for name in route.places for word in _list_words(given.get(name))]
    return [*words, "--", *places] if places else words


#: Arguments that all tool calls accept if the schema of the tool includes them.
_OF_EVERY_ROUTE = {"action", "root", "request_id"}


def _route_of(tool: Tool, given: Arguments) -> Route:
    # Ignore the request id here. A call that only reads does not need it, because it may be
    # repeated.
    names = {name for name, value in given.items() if value is not None} - _OF_EVERY_ROUTE
    routes = tool.routes[given.get("action")]
    for route in routes:
        if names >= set(route.needs) and names <= route.fields:
            return route
    named = " ".join(filter(None, [tool.name, given.get("action")]))
    expected, found = [], sorted(names)
    for route in routes:
        needs = list(dict.fromkeys((*route.needs, *(n for n in route.places if n == "stage"))))
        others = [f"[{name}]" for name in sorted(route.fields - set(needs))]
        expected.append(", ".join([*needs, *others]) or "nothing")
    raise WrongArguments(
        f"{named}: expected {'; or '.join(expected)}; found {', '.join(found) or 'nothing'}.",
        expected=expected,
        found=found,
    )


def _format_option(option: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if option == "--set" and isinstance(value, Mapping):
        return [f"--set={path}={json.dumps(one)}" for path, one in value.items()]
    return [
        f"{option}={word}" if option.startswith("--") else f"{option}{word}"
        for word in _list_words(value)
    ]


def _list_words(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, Sequence):
        return [str(one) for one in value]
    return [json.dumps(value)]


#: Commands that no tool offers directly, and the tool call to use instead.
_INSTEAD: dict[str, dict[str, Any]] = {
    "wfctl reconcile": {"tool": "recover", "arguments": {}},
    "wfctl run": {"tool": "stage", "arguments": {"action": "dispatch"}, "needs": ["stage"]},
    "wfctl report -": {"tool": "history", "arguments": {"action": "report"}},
}


def convert_to_tool_call(command: str, needs: Sequence[str] = ()) -> dict[str, Any] | None:
    """Return the tool call for a wfctl command line, or None if no tool offers it.

    ``needs`` contains placeholder words in the command line, and conditions to meet before the
    call. Arguments with placeholders are left out of the call. Their names are listed in its field
    ``needs``, and the conditions in its field ``before``.
    """
    if command in _INSTEAD:
        return _INSTEAD[command]
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if words[:1] != ["wfctl"]:
        return None
    for tool in TOOLS.values():
        for action, routes in tool.routes.items():
            for route in routes:
                arguments = _read_fields(tool, route, words[1:])
                if arguments is not None:
                    named = {"action": action} if action is not None else {}
                    return _drop_placeholders(tool, {**named, **arguments}, command, needs)
    return None


def _drop_placeholders(
    tool: Tool, arguments: dict[str, Any], command: str, needs: Sequence[str]
) -> dict[str, Any]:
    """Return the tool call without the arguments that contain a placeholder.

    The call lists the names of these arguments.
    """
    words = {need for need in needs if need in command}
    open_ = {name: value for name, value in arguments.items() if words & set(_iterate_texts(value))}
    given = {name: value for name, value in arguments.items() if name not in open_}
    call: dict[str, Any] = {"tool": tool.name, "arguments": given}
    named = [one for name, value in open_.items() for one in _name_placeholders(name, value, words)]
    before = [need for need in needs if need not in words]
    return {**call, **({"needs": named} if named else {}), **({"before": before} if before else {})}


def _name_placeholders(name: str, value: Any, words: set[str]) -> list[str]:
    """Return the name of an argument that contains placeholders.

    If the argument is a mapping, the paths of the missing values are returned instead.
    """
    if not isinstance(value, Mapping):
        return [name]
    paths = [path for path, one in value.items() if f"{path}={one}" not in words]
    return [f"{name}.{path}" for path in paths] or [name]


def _iterate_texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for path, one in value.items():
            yield from (str(one), f"{path}={one}")
    elif isinstance(value, list):
        yield from map(str, value)
    else:
        yield str(value)


def _read_fields(tool: Tool, route: Route, words: list[str]) -> dict[str, Any] | None:
    """Return the tool arguments that a command line contains.

    Returns None if the command line does not belong to this route, or if only a person may run it.
    """
    count = len(route.words)
    if tuple(words[:count]) != route.words:
        return None
    names = {option: name for name, option in route.options.items()}
    rest = [word for word in words[count:] if word not in route.fixed]
    found: dict[str, list[str]] = {}
    by_place: list[str] = []
    flags: dict[str, Any] = {}
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if not word.startswith("-"):
            by_place.append(word)
        elif names.get(word) in tool.flags:
            flags[names[word]] = True
        elif option not in names or not (equals or rest):
            return None
        else:
            found.setdefault(names[option], []).append(value if equals else rest.pop(0))
    # A tool call can wait for only one stage. Its answer names the other stages that are still
    # running.
    by_place = by_place[:1] if route.words == ("wait",) else by_place
    if len(by_place) != len(route.places):
        return None
    found.update((name, [word]) for name, word in zip(route.places, by_place, strict=True))
    given = {
        **{name: _convert_values(tool, name, values) for name, values in found.items()},
        **flags,
    }
    is_offered = set(route.needs) <= set(given) and find_withheld_command(route, given) is None
    return given if is_offered else None


def _convert_values(tool: Tool, name: str, values: list[str]) -> Any:
    kind = tool.schema["properties"][name]["type"]
    if kind == "array":
        return values
    if kind == "object" and name == "set":
        return {
            path: _parse_value(text) for path, _, text in (one.partition("=") for one in values)
        }
    return _parse_value(values[-1]) if kind in ("object", "integer") else values[-1]


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
