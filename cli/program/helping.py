"""How the help of a command is written; loaded where somebody asks for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from cli.program.commands import COMMANDS

#: A type behind a name, which says nothing or says it in a word of the program's own.
_TYPE = re.compile(r" ?<(bool|int|float|str|path|[\w|.\[\]-]+)( range)?>")
#: Options that every command takes, as the help of each says.
_EVERYWHERE = (
    ("--root DIR", "Folder of the workflow; else the nearest one upward with .wfctl/."),
    ("-o text|json|jsonl", "Format of the result; json prints one object."),
    ("--actor KIND:NAME", "Who acts; else WFCTL_ACTOR. `wfctl --help` lists the others."),
)
_WORDS = {"int": "N", "float": "X", "str": "TEXT", "path": "PATH"}


def write_options(command: Any, context: Any, formatter: Any) -> None:
    """Write arguments and options, each by the name of what it takes."""
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        rows = [
            (plain_name(param, found), found[1])
            for param in command.get_params(context)
            if param.param_type_name == kind and (found := param.get_help_record(context))
        ]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def plain_name(param: Any, record: Sequence[str]) -> str:
    """Return a name without the type that typer puts behind it; an option's value keeps a word.

    ``record`` is the parameter's, as its help has it.
    """

    def word(found: re.Match[str]) -> str:
        if param.param_type_name != "option" or found[1] == "bool":
            return ""
        return f" {_WORDS.get(found[1].removeprefix('list[').removesuffix(']'), found[1])}"

    return _TYPE.sub(word, record[0])


def usage_pieces(pieces: list[str]) -> list[str]:
    """Return the words of the usage line with one pair of brackets where there are several."""
    bare = [re.sub(r"\{([A-Z_.]+)\}", r"\1", piece) for piece in pieces]
    single = [re.sub(r"\[\[(.*?)\](…?)\](\.\.\.)?", r"[\1]\2", piece) for piece in bare]
    return [piece.replace("......", "...") for piece in single]


def write_end(path: str, formatter: Any, *, is_group: bool) -> None:
    """Write what every command takes, and an example of this one."""
    with formatter.section("Options of every command"):
        formatter.write_dl(_EVERYWHERE)
    names = [name for name in COMMANDS if name.startswith(f"{path} ")][:2] if is_group else [path]
    examples = [line for name in names if (line := COMMANDS.get(name, ("", ""))[1])]
    if examples:
        formatter.write("\nExample:\n" + "".join(f"  {line}\n" for line in examples))


def path_of(context: Any) -> str:
    """Return the words that name a command, without the program's."""
    return " ".join(str(context.command_path).split()[1:])


#: Topic → (what it is about, its text). The manual page has the same.
TOPICS: dict[str, tuple[str, str]] = {
    "exit-codes": (
        "what the number says with which a command ends",
        """\
0 done
1 failed
2 usage: the line is wrong; --help of the command says how it is right
3 not found: a stage, an amendment, a workflow
4 conflict: somebody was there first, or a key was used for something else
5 refused by the rules; the message says what is expected
6 needs a person's decision; the message names the command
7 findings: drift, tampering, differences, a check that failed
130 interrupted by Ctrl-C; 141 the reader of a pipe left; 143 ended by SIGTERM""",
    ),
    "output": (
        "text, json, jsonl, csv, and how an answer is kept short",
        """\
-o json prints one envelope on stdout: success, data, next_actions, _meta; on one line
where no terminal is. -o jsonl prints bare records, a line each. audit and compare print csv.
--brief N of rehydrate, log, events, why and blame fits the answer into N tokens of four
bytes and leaves out what is empty. Talk goes to stderr; --log-level debug says all.""",
    ),
    "moments": (
        "how a moment of the history is named",
        """\
--at M shows what was so at M, --known-at M what was recorded by then. M is a version
(12), a time (2026-03-31T12:00+02:00), @{2 hours ago}, or the end of a session
(session:3). blame, diff, log and events take moments too.""",
    ),
    "actors": (
        "who acts, and what only a person may do",
        """\
--actor kind:name, else WFCTL_ACTOR, else user:LOGIN at a terminal and agent:unknown
elsewhere. Within an agent's program (CLAUDECODE, GEMINI_CLI, CODEX_SANDBOX, …) it is
agent:NAME, unless --actor names a person. Kinds: user, agent, reconciler, runner,
import. Only a person approves an amendment, trusts a server or a notification, or
replaces a pin: others get exit 6.""",
    ),
    "amendments": (
        "how what a stage is may change",
        """\
Anyone proposes, a person decides. stage_rerun computes a stage once more, with --set
as the new values; parameter_change and criteria_change are what --set means without
a type; stage_insert adds one; stage_skip takes one out (--rewire: dependents go on).
plan_change is an edited plan as a whole, by `wfctl plan apply FILE`: one decision.
`wfctl amend propose --dry-run` says what it would cost before anybody is asked.""",
    ),
    "environment": (
        "variables that wfctl reads",
        """\
WFCTL_ACTOR who acts; WFCTL_DATABASE_URL where the log is; WFCTL_AGENT the program for
what has no command; WFCTL_NOTIFY whom to tell of decisions, failures and the end;
WFCTL_DPDISP the dpdisp program; WFCTL_DEBUG=1 tracebacks; NO_COLOR no colours.""",
    ),
}


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
    return "".join(f"{line}\n" for line in _lines(program))


def _lines(program: Any) -> Iterator[str]:
    yield _HEAD
    yield ".SH OPTIONS OF EVERY COMMAND"
    for name, text in _EVERYWHERE:
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
            yield from (".TP", f".B {_said(plain_name(param, record))}")
            yield _said(" ".join(record[1].split())) or r"\&"
    yield from (".PP", "Example:", ".nf", rf"\&  {_said(COMMANDS[name][1])}", ".fi")


def _said(text: str) -> str:
    """Return a text in which nothing is taken for a request of roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text
