"""Every command of wfctl with the module that contains it, including those of extensions.

The function of a command has the name of the command's last word. If this word is a Python keyword
or built-in, an underscore follows.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from wfctl_eventstore.extension import (
    find_command_words,
    find_extension,
    find_extensions,
    find_extensions_of_command,
)

#: Command of the core program → its module, in the order of the help. The module is imported when
#: the command is called.
COMMANDS: dict[str, str] = {
    "init": "init",
    "plan check": "plan",
    "plan apply": "plan",
    "status": "status",
    "results": "results",
    "show": "show",
    "log": "events",
    "logs": "logs",
    "tasks": "tasks",
    "metrics": "tasks",
    "stage ready": "stage",
    "stage prepare": "stage",
    "stage launch": "stage",
    "stage compute": "stage",
    "stage verify": "stage",
    "stage complete": "stage",
    "stage fail": "stage",
    "stage cancel": "stage",
    "stage diagnose": "diagnose",
    "stage retry": "stage",
    "stage checkpoint": "stage",
    "stage outputs": "stage",
    "stage reuse": "stage",
    "dispatch": "dispatch",
    "wait": "wait",
    "run": "run",
    "runner show": "run",
    "runner pause": "run",
    "runner resume": "run",
    "runner attach": "run",
    "runner stop": "run",
    "runner serve": "run",
    "session start": "session",
    "session end": "session",
    "session show": "session",
    "report": "report",
    "rehydrate": "rehydrate",
    "reconcile": "reconcile",
    "amend propose": "amend",
    "amend approve": "amend",
    "amend reject": "amend",
    "amend list": "amend",
    "amend show": "amend",
    "mandate list": "mandate",
    "mandate grant": "mandate",
    "mandate revoke": "mandate",
    "round list": "rounds",
    "round show": "rounds",
    "round ask": "rounds",
    "round propose": "rounds",
    "round stop": "rounds",
    "rerun": "rerun",
    "blame": "why",
    "why": "why",
    "diff": "diff",
    "compare": "compare",
    "verify": "drift",
    "clean": "clean",
    "drift show": "drift",
    "drift adopt": "drift",
    "drift revert": "drift",
    "consent setup": "consent",
    "note": "append",
    "list": "listing",
    "inbox": "listing",
    "help": "help",
    "completion": "cli.program.completion",
    "append": "append",
    "replay": "events",
    "events": "events",
    "fsck": "events",
    "schema": "events",
    "db upgrade": "db",
    "db current": "db",
    "db url": "db",
    "db trust": "db",
    "__complete": "cli.program.completion",
}
#: Section of `wfctl --help` → its commands and groups, each with its line of help.
SECTIONS: dict[str, dict[str, str]] = {
    "Start a workflow": {
        "init": "Create a workflow from a plan file",
        "plan": "Check a plan, or apply an edited plan",
    },
    "Run it": {
        "run": "Run every stage that can run now",
        "dispatch": "Start the job of one stage",
        "wait": "Wait until running jobs finish",
        "stage": "Change the status of one stage",
        "rerun": "Run completed stages again",
        "round": "Show and control optimization loops",
        "session": "Start, end and list working sessions",
        "runner": "Control the background runner",
    },
    "See where it stands": {
        "status": "Show the state of the workflow and the next step",
        "results": "Show the numbers and files that the plan names as results",
        "show": "Show one stage and its attempts",
        "tasks": "List the tasks of a sweep",
        "metrics": "Show metrics as a table or plot",
        "logs": "Show the output of a job",
        "list": "List your workflows",
    },
    "Decide": {
        "inbox": "List everything that waits for your decision",
        "amend": "Propose, show, approve or reject changes of the plan",
        "mandate": "Approve future changes in advance, within limits",
        "drift": "Review manual edits of files that wfctl generates",
        "consent": "Choose how people prove that an approval is theirs",
    },
    "Recover": {
        "rehydrate": "Recover after a lost session and show what to do next",
        "reconcile": "Compare the log with files, processes and the scheduler",
        "verify": "Check that results still match the log",
        "clean": "Delete leftover files of old attempts",
    },
    "Ask the history": {
        "log": "Show the history of the workflow",
        "why": "Explain the status of a stage",
        "blame": "Show who last changed each field",
        "diff": "Compare two moments of the workflow, or two workflows",
        "compare": "Compare the numbers and inputs of attempts, stages or workflows",
    },
    "Share and prove": {
        "report": "Write a report of the workflow",
    },
    "Agents": {},
    "Low-level commands": {
        "append": "Append an event to the log, if the rules allow the event",
        "replay": "Rebuild the state of the workflow from all events of the log",
        "events": "Print the events of the log",
        "note": "Add a note to the log",
        "fsck": "Check the log for damage",
        "schema": "Print the JSON Schema of an event, a plan or the state",
        "db": "Manage the database of the log",
        "help": "Show help on a command or a topic",
        "completion": "Print a shell completion script",
    },
}
#: Command with subcommands → the subcommand that runs by default. A command with None prints the
#: list of its subcommands instead.
GROUPS: dict[str, str | None] = {
    "amend": "list",
    "consent": None,
    "db": None,
    "drift": "show",
    "mandate": "list",
    "plan": None,
    "round": "list",
    "runner": "show",
    "session": "show",
    "stage": None,
}
#: Commands that the help does not list.
HIDDEN = frozenset({"runner serve", "__complete"})


def find_top_words() -> list[str]:
    """Return the names of the top-level commands and groups, without importing extensions."""
    names = [first if (first := name.split()[0]) in GROUPS else name for name in COMMANDS]
    return list(dict.fromkeys([*names, *find_command_words()]))


def find_commands(word: str) -> dict[str, str]:
    """Return the commands whose first word is ``word``, each with its module.

    Import the extensions that add such a command.
    """
    found = COMMANDS.copy()
    for name in find_extensions_of_command(word):
        extension = find_extension(name)
        found |= extension.commands if extension is not None else {}
    return {name: module for name, module in found.items() if name.split()[0] == word}


def load_command_function(name: str, module: str) -> Callable[..., Any]:
    """Import the module of a command, and return the function of the command.

    If the last word of the name is a Python keyword, an underscore follows in the function's name.
    """
    is_whole = module.startswith(("cli.", "extensions."))
    loaded = import_module(module if is_whole else f"cli.commands.{module}")
    word = name.rsplit(maxsplit=1)[-1].strip("_")
    found: Callable[..., Any] = getattr(loaded, f"{word}_", None) or getattr(loaded, word)
    return found


def load_commands() -> dict[str, str]:
    """Import all extensions, and return every command with its module."""
    every = COMMANDS.copy()
    for extension in find_extensions():
        every |= extension.commands
    return every


def load_sections() -> dict[str, dict[str, str]]:
    """Import all extensions, and return the sections of the help with all commands."""
    sections = {title: dict(lines) for title, lines in SECTIONS.items()}
    for extension in find_extensions():
        for title, lines in extension.help_sections.items():
            sections[title] |= lines
    return {title: lines for title, lines in sections.items() if lines}


def load_help_lines() -> dict[str, str]:
    """Import all extensions, and return the help line of each top-level command or group."""
    return {name: line for lines in load_sections().values() for name, line in lines.items()}


def load_groups() -> dict[str, str | None]:
    """Import all extensions, and return each group with its default subcommand or None."""
    groups = GROUPS.copy()
    for extension in find_extensions():
        groups |= extension.groups
    return groups


def find_help_line(word: str) -> str:
    """Return the help line of a command or group.

    Import only the extension that defines the command, if any.
    """
    sections = list(SECTIONS.values())
    for name in find_extensions_of_command(word):
        extension = find_extension(name)
        sections += [dict(one) for one in extension.help_sections.values()] if extension else []
    return next(lines[word] for lines in sections if word in lines)


def find_default_command(group: str) -> str | None:
    """Return the subcommand of a group that runs by default.

    Return None if the group prints the list of its commands instead.
    """
    for name in find_extensions_of_command(group):
        extension = find_extension(name)
        if extension is not None and group in extension.groups:
            return extension.groups[group]
    return GROUPS.get(group)
