"""Which commands an unknown word may mean; loaded if somebody gave such a word."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from typer.exceptions import TyperException

from cli.program.helping import path_of, plain_name

#: Words that people try → the commands that do it, the likeliest first; a colon, and what one does.
_MEANT = {
    "resume continue": ("run: goes on", "rehydrate: looks first"),
    "recover": ("rehydrate",),
    "start": ("run: drives the workflow", "dispatch: launches one stage"),
    "submit launch": ("dispatch",),
    "retry": ("stage retry",),
    "restart": ("stage retry: after a failure", "rerun: computes anew what is completed"),
    "cancel stop kill abort": (
        "stage cancel: ends the attempt under way",
        "runner pause: lets the runner begin nothing more",
        "runner stop: ends the runner, not its jobs",
    ),
    "pause": ("runner pause",),
    "approve accept": ("amend approve",),
    "reject": ("amend reject",),
    "apply": ("plan apply: takes an edited plan", "amend approve: agrees to an amendment"),
    "change edit set": ("amend propose --stage STAGE --set parameters.KEY=VALUE --reason TEXT",),
    "skip": ("amend propose --type stage_skip --stage STAGE --reason TEXT",),
    "validate": ("plan check: a plan", "fsck: the log", "verify: the results"),
    "lint": ("plan check",),
    "new create": ("init",),
    "graph dag plot": ("export mermaid",),
    "history": ("log",),
    "ps": ("status",),
    "queue": ("status: this workflow", "list: all of this login"),
    "ls": ("list",),
    "top monitor": ("watch",),
    "tail": ("logs --follow",),
    "output": ("logs",),
    "dashboard": ("serve",),
    "answer": ("results",),
    "summary": ("report",),
}
MEANT = {word: meant for words, meant in _MEANT.items() for word in words.split()}
#: Commands that a message tells of at most.
_SHOWN = 4
#: How alike a word and a name are (1: equal), so that the one may be a slip of the other.
_ALIKE = 0.75
_EVERYWHERE = ("--help", "-h")


def no_such_command(context: Any, group: Any, words: list[str]) -> TyperException:
    """Return the error for words that begin with no command of a group.

    A word that means a command goes before a command elsewhere of that very name, and that before
    names that are alike.
    """
    root = context.find_root().command
    above = path_of(context) if context.parent is not None else ""
    word, rest = words[0], words[1:]
    known = list(_paths(root))
    found = _by_meaning(word.lower(), known, above)
    is_alike = not found
    if is_alike:
        names = sorted({path.split()[-1] for path in known} | {*MEANT})
        near = get_close_matches(word.lower(), names, cutoff=_ALIKE)
        every = dict.fromkeys(path for name in near for path in _by_meaning(name, known, above))
        found = _own(every, above)
    found = [meant for meant in found if rest and _takes(root, meant, rest)] or found
    shown = " or ".join(_line(root, meant, rest) for meant in found[:_SHOWN])
    said = f"No such command {word!r}"
    if found:
        said += f". Did you mean {shown}?" if is_alike else f"; use {shown}"
    error = TyperException(said)
    error.ctx = context  # type: ignore[attr-defined]
    return error


def _by_meaning(word: str, known: list[str], above: str) -> list[str]:
    """Return what a word means; in a group that has one of these, that alone."""
    return _own(MEANT.get(word, [path for path in known if path.split()[-1] == word]), above)


def _own(found: Iterable[str], above: str) -> list[str]:
    """Return the commands of a group alone, if there are such."""
    here = [path for path in found if above and path.startswith(f"{above} ")]
    return here or list(found)


def _paths(group: Any, above: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if name.startswith("_") or command.hidden:
            continue
        path = f"{above} {name}".strip()
        yield path
        if not above:
            yield from _paths(command, path) if hasattr(command, "commands") else ()


def _takes(root: Any, meant: str, given: list[str]) -> bool:
    """Whether a command can be called with what was given."""
    given = [word for word in given if word not in _EVERYWHERE]
    return _lacking(*_found(root, [*meant.partition(": ")[0].split(), *given])) is not None


def _line(root: Any, meant: str, given: list[str]) -> str:
    """Return a command ready to run: with what was given, if it takes that, and what it lacks."""
    path, _, does = meant.partition(": ")
    given = [word for word in given if word not in _EVERYWHERE]
    if len(given) == 1 and " STAGE" in path:
        path, given = path.replace("STAGE", shlex.quote(given[0])), []
    lacking = _lacking(*_found(root, [*path.split(), *given]))
    if lacking is None:
        given, lacking = [], _lacking(*_found(root, path.split())) or []
    line = " ".join(["wfctl", path, *map(shlex.quote, given), *lacking])
    return f"`{line}` ({does})" if does else f"`{line}`"


def _found(root: Any, words: list[str]) -> tuple[Any, Any, list[str]]:
    command, context = root, root.context_class(root, info_name="wfctl")
    while words and (commands := getattr(command, "commands", {})):
        length = 2 if " ".join(words[:2]) in commands else 1
        name = " ".join(words[:length])
        if name not in commands:
            break
        command, words = commands[name], words[length:]
        context = command.context_class(command, info_name=name, parent=context)
    return command, context, words


def _lacking(command: Any, context: Any, words: list[str]) -> list[str] | None:
    try:
        values, left, _ = command.make_parser(context).parse_args([*words])
    except TyperException:
        return None
    if left:
        return None
    return [
        plain_name(param, param.get_help_record(context)).split(", ")[-1]
        for param in command.get_params(context)
        if param.required and not isinstance(values.get(param.name), str | tuple | list)
    ]
