"""Shell completion: a script for each shell, which asks wfctl for the possible words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any

from cli.frame.context import Context
from cli.frame.options import (
    EVERYWHERE,
    Texts,
    argument,
    find_option_value,
    move_global_options_first,
)
from cli.frame.workspace import open_workflow_for_reading, settings_of
from cli.settings import Color, Format, JournalChoice, LogLevel, Settings


class Shell(StrEnum):
    """A shell for which a completion script exists."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_SCRIPTS = {
    Shell.BASH: """\
_wfctl() {
    local IFS=$'\\n'
    COMPREPLY=($(wfctl __complete -- "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null))
}
complete -o default -o nosort -F _wfctl wfctl""",
    Shell.ZSH: """\
#compdef wfctl
_wfctl() {
    local -a found
    found=("${(@f)$(wfctl __complete -- "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -V wfctl -a found; else _files; fi
}
if [[ "$funcstack[1]" = "_wfctl" ]]; then _wfctl "$@"; else compdef _wfctl wfctl; fi""",
    Shell.FISH: """\
function __wfctl
    set -l found (wfctl __complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)
    if test -n "$found"
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c wfctl -f -k -a '(__wfctl)'""",
}
#: Global option → its possible values, if the set of values is fixed.
_OF_ALL: dict[str, type[Enum]] = {
    "-o": Format,
    "--output": Format,
    "--color": Color,
    "--journal": JournalChoice,
    "--log-level": LogLevel,
}


def completion(shell: Annotated[Shell, argument("SHELL", "The shell: bash, zsh or fish.")]) -> None:
    """Print a shell completion script.

    The script completes commands, stages, formats and amendments when you press Tab.
    """
    print(_SCRIPTS[shell])


def complete(context: Context, words: Texts = argument("[WORD...]", "Words of the line.")) -> None:
    """Print the possible completions of the last word of a command line."""
    from cli.program.tree import build_program

    for found in list_candidates(build_program(), settings_of(context), words or [""]):
        print(found)


def list_candidates(program: Any, settings: Settings, words: list[str]) -> list[str]:
    """Return the words that can complete the last word of a command line.

    The order is that of the help.
    """
    *before, partial = words
    if before and before[-1] in EVERYWHERE:
        return _select_by_prefix(partial, (one.value for one in _OF_ALL.get(before[-1], ())))
    line = move_global_options_first(before)
    root = find_option_value(line, "--root")
    settings = replace(settings, root=Path(root)) if root is not None else settings
    pairs = zip(before, [*before[1:], ""], strict=False)
    taken = {word for pair in pairs if pair[0] in EVERYWHERE for word in pair}
    command, rest = _find_command(program, [word for word in before if word not in taken])
    if hasattr(command, "commands"):
        names = (name for name in command.commands if not name.startswith("_"))
        return _select_by_prefix(partial, names)
    return _select_by_prefix(partial, _list_command_candidates(command, rest, partial, settings))


def _select_by_prefix(partial: str, names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name.startswith(partial)]


def _find_command(program: Any, words: list[str]) -> tuple[Any, list[str]]:
    found = program
    for number, word in enumerate(words):
        commands = getattr(found, "commands", None)
        if commands is None or word not in commands:
            return found, words[number:]
        found = commands[word]
    return found, []


def _list_command_candidates(
    command: Any, rest: list[str], partial: str, settings: Settings
) -> Iterator[str]:
    params = command.params
    if rest and rest[-1].startswith("-"):
        option = next((one for one in params if rest[-1] in one.opts), None)
        if option is not None and not getattr(option, "is_flag", False):
            yield from _list_values(option, settings)
            return
    if partial.startswith("-"):
        for param in params:
            yield from (name for name in param.opts if name.startswith("--"))
        return
    for param in params:
        if param.param_type_name == "argument":
            yield from _list_values(param, settings)


def _list_values(param: Any, settings: Settings) -> Iterator[str]:
    """Yield the possible values of an argument or option.

    The placeholder in its help, such as STAGE, determines the kind of values.
    """
    metavar = str(param.metavar or "").strip("[].")
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    if isinstance(kind, type) and issubclass(kind, Enum):
        yield from (str(one.value) for one in kind)
    elif metavar == "SHELL":
        yield from (shell.value for shell in Shell)
    elif metavar == "TOPIC":
        yield from _list_topics()
    elif metavar in ("STAGE", "AMENDMENT", "FIELD") or param.name in ("stage", "stages"):
        yield from _list_workflow_ids("AMENDMENT" if metavar == "AMENDMENT" else "STAGE", settings)


def _list_topics() -> Iterable[str]:
    from cli.program.command_help import TOPICS
    from cli.program.commands import find_top_words
    from lifecycle.sweeps.parameters import WORDS_OF_PARAMETER

    commands = (name for name in find_top_words() if not name.startswith("_"))
    return dict.fromkeys((*TOPICS, *WORDS_OF_PARAMETER, *commands))


def _list_workflow_ids(kind: str, settings: Settings) -> list[str]:
    """Return the ids of the stages or amendments of the current workflow.

    Amendments that wait for a decision come first. Return an empty list if no workflow can be
    opened.
    """
    try:
        with open_workflow_for_reading(settings) as workflow:
            state = workflow.state()
    except Exception:  # noqa: BLE001 - the command itself reports any error
        return []
    if kind == "STAGE":
        return list(state.stages)
    pending = [amendment.id for amendment in state.pending_amendments]
    return [*pending, *(id_ for id_ in state.amendments if id_ not in pending)]
