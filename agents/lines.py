"""From a tool call to a command line, and from a command line that is suggested to a tool call."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from agents.errors import WrongArguments
from agents.tools import TOOLS, Route, Tool

Arguments = Mapping[str, Any]


def line_of(tool: Tool, given: Arguments) -> list[str]:
    """Return the command line of a call, without the options of every command.

    Values are never words of their own that an option could be read from: what goes by place
    stands behind ``--``, what goes by name in one word with its option. Raises `WrongArguments`.
    """
    route = _route(tool, given)
    words = [*route.words, *route.fixed]
    for name, option in route.options.items():
        words += _option(option, given.get(name))
    places = [word for name in route.places for word in _words(given.get(name))]
    return [*words, "--", *places] if places else words


def _route(tool: Tool, given: Arguments) -> Route:
    """Return the first route of the action whose needs are given and that takes all of it."""
    names = {name for name, value in given.items() if value is not None} - {"action", "root"}
    routes = tool.routes[given.get("action")]
    for route in routes:
        if names >= set(route.needs) and names <= route.fields:
            return route
    raise WrongArguments(tool.name, given.get("action"), names, [_takes(one) for one in routes])


def _takes(route: Route) -> str:
    needs = [*dict.fromkeys((*route.needs, *(n for n in route.places if n == "stage")))]
    others = sorted(route.fields - set(needs))
    return ", ".join([*needs, *(f"[{name}]" for name in others)]) or "nothing"


def _option(option: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if option == "--set" and isinstance(value, Mapping):
        return [f"--set={path}={json.dumps(one)}" for path, one in value.items()]
    return [
        f"{option}={word}" if option.startswith("--") else f"{option}{word}"
        for word in _words(value)
    ]


def _words(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, Sequence):
        return [str(one) for one in value]
    return [json.dumps(value)]


def call_of(command: str) -> dict[str, Any] | None:
    """Return the tool call that a command line stands for; None where it is not on offer."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if words[:1] != ["wfctl"]:
        return None
    for tool in TOOLS.values():
        for action, routes in tool.routes.items():
            for route in routes:
                arguments = _read(route, words[1:], tool.flags)
                if arguments is not None:
                    named = {"action": action} if action is not None else {}
                    return {"tool": tool.name, "arguments": {**named, **arguments}}
    return None


def _read(route: Route, words: list[str], flags: frozenset[str]) -> dict[str, Any] | None:
    """Return the fields that a command line of this route holds; None where it is of another."""
    count = len(route.words)
    if tuple(words[:count]) != route.words:
        return None
    names = {option: name for name, option in route.options.items()}
    rest = [word for word in words[count:] if word not in route.fixed]
    found: dict[str, Any] = {}
    by_place: list[str] = []
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if not word.startswith("-"):
            by_place.append(word)
        elif names.get(word) in flags:
            found[names[word]] = True
        elif option not in names or not (equals or rest):
            return None
        else:
            found[names[option]] = value if equals else rest.pop(0)
    if len(by_place) != len(route.places):
        return None
    found.update(zip(route.places, by_place, strict=True))
    return found if set(route.needs) <= set(found) else None
