"""The manual page, from the same source as the help: commands, options, examples, topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cli.program.examples import EVERYWHERE, EXAMPLES
from cli.program.helping import plain, usage_pieces
from cli.program.topics import TOPICS

_HEAD = r""".TH WFCTL 1 "" "wfctl" "User Commands"
.SH NAME
wfctl \- keep the state of a computational workflow in an event log
.SH SYNOPSIS
.B wfctl
[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]
.SH DESCRIPTION
The log is the truth; workflow-state.json and progress.log are caches of it. An agent and a
person use the same commands, and no command goes past the rules."""


def manual(program: Any) -> str:
    """Return the page as roff; ``program`` is the context of the whole program."""
    return "\n".join(_lines(program)) + "\n"


def _lines(program: Any) -> Iterator[str]:
    yield _HEAD
    yield ".SH OPTIONS OF EVERY COMMAND"
    for name, text in EVERYWHERE:
        yield from (".TP", f".B {_said(name)}", _said(text))
    yield ".SH COMMANDS"
    for name, command in _commands(program.command):
        yield from _command(name, command, program)
    for name, (about, text) in TOPICS.items():
        yield f".SH {name.upper()}"
        yield _said(f"{about[0].upper()}{about[1:]}.")
        yield from (".nf", *map(_said, text.splitlines()), ".fi")
    yield from (".SH SEE ALSO", "dpdisp(1), tmux(1), ssh-keygen(1), sqlite3(1)")


def _commands(group: Any) -> Iterator[tuple[str, Any]]:
    """Yield each command with the words that name it, those of groups in place of the group."""
    for name in group.commands:
        command = group.commands[name]
        if command.hidden or name.startswith("_"):
            continue
        if not hasattr(command, "commands"):
            yield name, command
            continue
        yield from ((f"{name} {inner}", found) for inner, found in _commands(command))


def _command(name: str, command: Any, program: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name, parent=program)
    pieces = " ".join(usage_pieces(command.collect_usage_pieces(context)))
    yield f".SS wfctl {_said(name)} {_said(pieces)}"
    yield _said(" ".join((command.help or "").split()))
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record is not None and param.name != "help":
            is_option = param.param_type_name == "option"
            yield from (".TP", f".B {_said(plain(record[0], is_option=is_option))}")
            yield _said(" ".join(record[1].split())) or r"\&"
    if name in EXAMPLES:
        yield from (".PP", "Example:", ".nf", rf"\&  {_said(EXAMPLES[name])}", ".fi")


def _said(text: str) -> str:
    """Return a text in which nothing is taken for a request of roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text
