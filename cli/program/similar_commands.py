"""Find the command that a user meant by an unknown word. Imported only for such an error."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from typer.exceptions import TyperException

from cli.program.command_help import format_parameter_name, path_of
from cli.program.examples import find_command_line

#: Words that users try → commands that they may mean, most likely first. A description can follow
#: the command after a colon.
_MEANT = {
    "resume continue": ("run: goes on", "rehydrate: looks first"),
    "recover": ("rehydrate",),
    "start": ("run: drives the workflow", "dispatch: launches one stage"),
    "submit launch": ("dispatch",),
    "retry": ("stage retry",),
    "restart": ("stage retry: after a failure", "rerun: runs completed stages again"),
    "cancel stop kill abort": (
        "stage cancel: ends the attempt under way",
        "runner pause: stops the runner from starting new jobs",
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
    "watch top monitor": ("status --follow",),
    "tail": ("logs --follow",),
    "output": ("logs",),
    "dashboard": ("serve",),
    "answer": ("results",),
    "summary": ("report",),
    "snapshot": ("export state: the state now", "export archive FILE: the workflow in one file"),
}
MEANT = {word: meant for words, meant in _MEANT.items() for word in words.split()}
_FORMATS = {
    "html htm": "report",
    "json": "state",
    "progress progress.log txt text": "log",
    "jsonl ndjson": "events",
    "csv": "table",
    "png dot graph dag": "svg",
    "md markdown": "mermaid",
    "gantt": "timeline",
    "rocrate crate prov otel": "ro-crate",
    "zip": "archive",
    "ipynb jupyter": "notebook",
}
#: Word that users try as the format of an export → the correct name of the format.
FORMATS = {word: format_ for words, format_ in _FORMATS.items() for word in words.split()}
#: Pattern of the library's error message for a value that is not allowed.
_REFUSED = re.compile(r"'([^']*)' is not one of ")
#: Maximum number of suggested commands in an error message.
_SHOWN = 4
#: Minimum similarity of a word and a command name for a suggestion. Equal words have the similarity
#: 1.
_ALIKE = 0.75
_EVERYWHERE = ("--help", "-h")


def build_example_hint(context: Any, error: TyperException) -> str:
    """Return a sentence with an example of the command, to add to an error message.

    Return an empty string if the command has no example.
    """
    path, found = path_of(context), _REFUSED.search(error.format_message())
    format_ = FORMATS.get(found[1].lower()) if found and path == "export" else None
    if format_ is not None:
        return f"Use `wfctl export {format_}`."
    example = find_command_line(path)
    return f"An example is `{example}`." if example else ""


def no_such_command(context: Any, group: Any, words: list[str]) -> TyperException:
    """Return the error for an unknown command, with suggestions of similar commands.

    Commands that are known to be meant by the word come first. Next are commands of this name in
    other groups, and then commands with a similar name.
    """
    root = context.find_root().command
    above = path_of(context) if context.parent is not None else ""
    word, rest = words[0], words[1:]
    known = list(_list_paths(root))
    found = _find_meant_commands(word.lower(), known, above)
    is_alike = not found
    if is_alike:
        names = sorted({path.split()[-1] for path in known} | {*MEANT})
        near = get_close_matches(word.lower(), names, cutoff=_ALIKE)
        every = dict.fromkeys(
            path for name in near for path in _find_meant_commands(name, known, above)
        )
        found = _prefer_group_commands(every, above)
    found = [meant for meant in found if rest and _can_accept_arguments(root, meant, rest)] or found
    shown = " or ".join(_format_command(root, meant, rest) for meant in found[:_SHOWN])
    said = f"No such command {word!r}"
    if found:
        said += f". Did you mean {shown}?" if is_alike else f"; use {shown}"
    error = TyperException(said)
    error.ctx = context  # type: ignore[attr-defined]
    return error


def _find_meant_commands(word: str, known: list[str], above: str) -> list[str]:
    """Return the commands that a user may mean by a word.

    If commands of the group ``above`` are among them, return only these.
    """
    return _prefer_group_commands(
        MEANT.get(word, [path for path in known if path.split()[-1] == word]), above
    )


def _prefer_group_commands(found: Iterable[str], above: str) -> list[str]:
    """Return the commands that belong to the group, or all commands if none belongs to it."""
    here = [path for path in found if above and path.startswith(f"{above} ")]
    return here or list(found)


def _list_paths(group: Any, above: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if name.startswith("_") or command.hidden:
            continue
        path = f"{above} {name}".strip()
        yield path
        if not above:
            yield from _list_paths(command, path) if hasattr(command, "commands") else ()


def _can_accept_arguments(root: Any, meant: str, given: list[str]) -> bool:
    """Return whether a command accepts the given words as its arguments."""
    given = [word for word in given if word not in _EVERYWHERE]
    return (
        _list_missing_arguments(*_find_command(root, [*meant.partition(": ")[0].split(), *given]))
        is not None
    )


def _format_command(root: Any, meant: str, given: list[str]) -> str:
    """Return a command line to suggest, in backticks.

    The line contains the words that the user gave, if the command accepts them, and placeholders
    for missing arguments.
    """
    path, _, does = meant.partition(": ")
    given = [word for word in given if word not in _EVERYWHERE]
    if len(given) == 1 and " STAGE" in path:
        path, given = path.replace("STAGE", shlex.quote(given[0])), []
    lacking = _list_missing_arguments(*_find_command(root, [*path.split(), *given]))
    if lacking is None:
        given, lacking = [], _list_missing_arguments(*_find_command(root, path.split())) or []
    line = " ".join(["wfctl", path, *map(shlex.quote, given), *lacking])
    return f"`{line}` ({does})" if does else f"`{line}`"


def _find_command(root: Any, words: list[str]) -> tuple[Any, Any, list[str]]:
    command, context = root, root.context_class(root, info_name="wfctl")
    while words and (commands := getattr(command, "commands", {})):
        length = 2 if " ".join(words[:2]) in commands else 1
        name = " ".join(words[:length])
        if name not in commands:
            break
        command, words = commands[name], words[length:]
        context = command.context_class(command, info_name=name, parent=context)
    return command, context, words


def _list_missing_arguments(command: Any, context: Any, words: list[str]) -> list[str] | None:
    try:
        values, left, _ = command.make_parser(context).parse_args([*words])
    except TyperException:
        return None
    if left:
        return None
    return [
        format_parameter_name(param, param.get_help_record(context)).split(", ")[-1]
        for param in command.get_params(context)
        if param.required and not isinstance(values.get(param.name), str | tuple | list)
    ]
