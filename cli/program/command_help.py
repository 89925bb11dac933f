"""Format the help of commands and the manual page. Imported only for the help."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from cli.program.commands import load_help_lines

#: Pattern of the value type that typer appends to an argument's name. The help omits this type.
_TYPE = re.compile(r" ?<(bool|int|float|str|path|[\w|.\[\]-]+)( range)?>")
#: Global options and their descriptions, which the help of each command repeats.
_EVERYWHERE = (
    (
        "--root DIR",
        (
            "Use the workflow in this folder. Default: the current folder or its nearest "
            "parent that contains .wfctl/."
        ),
    ),
    (
        "-o text|json|jsonl",
        "Print the result as text, as one JSON object, or as JSON lines (one record on each line).",
    ),
    (
        "--actor KIND:NAME",
        (
            "Record this person or program as the author of each change (default: "
            "$WFCTL_ACTOR). `wfctl --help` lists more options."
        ),
    ),
)
#: Maximum number of characters of a command's description in a list of commands.
SENTENCE = 500
_WORDS = {"int": "N", "float": "X", "str": "TEXT", "path": "PATH"}


def write_options(command: Any, context: Any, formatter: Any) -> None:
    """Write the arguments and options of a command, each with a placeholder for its value."""
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        rows = [
            (format_parameter_name(param, found), found[1])
            for param in command.get_params(context)
            if param.param_type_name == kind and (found := param.get_help_record(context))
        ]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def format_parameter_name(param: Any, record: Sequence[str]) -> str:
    """Return the name of an argument or option, without the type that typer appends.

    An option keeps a placeholder for its value. ``record`` is the help entry of the parameter.
    """

    def word(found: re.Match[str]) -> str:
        if param.param_type_name != "option" or found[1] == "bool":
            return ""
        return f" {_WORDS.get(found[1].removeprefix('list[').removesuffix(']'), found[1])}"

    return _TYPE.sub(word, record[0])


def usage_pieces(pieces: list[str]) -> list[str]:
    """Return the words of the usage line, in which nested brackets become single brackets."""
    bare = [re.sub(r"\{([A-Z_.]+)\}", r"\1", piece) for piece in pieces]
    single = [re.sub(r"\[\[(.*?)\](…?)\](\.\.\.)?", r"[\1]\2", piece) for piece in bare]
    return [piece.replace("......", "...") for piece in single]


def write_options_and_example(path: str, formatter: Any, *, is_group: bool) -> None:
    """Write the end of a help text: the global options, and an example with its output.

    For a group, write the first command line of two of its examples instead.
    """
    from cli.program.examples import find_command_line, read_examples

    with formatter.section("Options of every command"):
        formatter.write_dl(_EVERYWHERE)
    examples = read_examples()
    if is_group:
        names = [name for name in examples if name.startswith(f"{path} ")][:2]
        lines = [f"$ {find_command_line(name)}" for name in names]
    else:
        lines = examples.get(path, "").splitlines()
    if lines:
        formatter.write("\nExample:\n" + "".join(f"  {line}".rstrip() + "\n" for line in lines))


def list_command_help_lines(group: Any) -> dict[str, str]:
    """Return the commands of a group, each with its line of help."""
    names = group.list_commands(None)
    if group.name == "wfctl":
        return load_help_lines()
    return {name: group.commands[name].get_short_help_str(SENTENCE) for name in names}


def format_list(group: Any, context: Any) -> str:
    """Return the list of commands that a group prints if it is called without a command."""
    formatter = context.make_formatter()
    group.format_usage(context, formatter)
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(group.help.partition("\n\n")[0])
    group.format_commands(context, formatter)
    path = " ".join(("wfctl", *path_of(context).split()))
    return f"{formatter.getvalue()}\n`{path} COMMAND --help` shows the options and an example."


def path_of(context: Any) -> str:
    """Return the words of a command after the program's name, such as ``amend propose``."""
    return " ".join(str(context.command_path).split()[1:])


#: Help topic → its title and text. The manual page contains the same topics.
TOPICS: dict[str, tuple[str, str]] = {
    "exit-codes": (
        "meaning of the exit codes",
        """\
0 success
1 failure
2 wrong usage; `wfctl COMMAND --help` shows the correct form
3 not found: a stage, an amendment or a workflow does not exist
4 conflict: the log has another version than expected, or a --command-id was used before
5 refused by the rules; the message states what the rules expect
6 a person must decide; the message names the command for this person
7 findings: manual edits, damage of the log, differences, or a failed check
130 stopped by Ctrl-C; 141 by a closed pipe; 143 by SIGTERM""",
    ),
    "output": (
        "output formats, and how to get shorter answers",
        """\
-o json prints one JSON object on stdout, with the keys success, data, next_actions and
_meta. The object is on one line, except at a terminal. -o jsonl prints one JSON record on
each line. -o csv works with audit, compare, tasks and metrics. --brief N limits the output
of rehydrate, log, events, why and blame to N tokens of 4 bytes each. wfctl prints messages
to stderr. --log-level debug prints all messages.""",
    ),
    "moments": (
        "how to name a moment of the history",
        """\
--at MOMENT shows the state at that moment. --known-at MOMENT ignores everything that was
recorded after that moment. A moment is a log version (12), a time
(2026-03-31T12:00+02:00), a time before now (@{2 hours ago}), or the end of a session
(session:3). You can also name moments in blame, diff, log and events.""",
    ),
    "actors": (
        "who acts, and what only a person can do",
        """\
The actor is the person or program that wfctl records as the author of a change. Set it
with --actor KIND:NAME, where KIND is user, agent, reconciler, runner or import. Without
--actor, wfctl uses the variable WFCTL_ACTOR. Without this variable, the actor is
agent:NAME if an agent's program started wfctl (wfctl knows it by variables such as
CLAUDECODE, GEMINI_CLI or CODEX_SANDBOX), user:NAME at a terminal, and otherwise
agent:unknown. Only a person can approve an amendment, trust a database server or a
receiver of notices, or replace a pin. For other actors, these commands exit with code 6.""",
    ),
    "amendments": (
        "how to change the definition of a stage",
        """\
An amendment is a proposed change of the plan. Anyone can propose an amendment, and a
person decides. The types of amendments are:
stage_rerun       computes a stage again, with the new values of --set
parameter_change  changes parameters of a stage; the default with --set
criteria_change   changes success criteria of a stage; the default with --set
stage_insert      adds a stage
stage_skip        skips a stage; with --rewire, later stages no longer need the stage
plan_change       applies a whole edited plan, from `wfctl plan apply FILE`
To see the impact before you propose, run `wfctl amend propose --dry-run`.""",
    ),
    "environment": (
        "environment variables that wfctl reads",
        """\
WFCTL_ACTOR         author of changes (KIND:NAME), like --actor
WFCTL_DATABASE_URL  database of the log, like --database-url
WFCTL_AGENT         program that runs stages without a command, like `wfctl run --agent`
WFCTL_NOTIFY        command or URL that receives a notice when a person must decide, a
                    stage fails, or the workflow ends
WFCTL_DPDISP        path of the dpdisp program
WFCTL_DEBUG=1       print a Python traceback with each error
NO_COLOR            print no colours""",
    ),
}


_HEAD = r""".TH WFCTL 1 "" "wfctl" "User Commands"
.SH NAME
wfctl \- keep the state of a computational workflow in an event log
.SH SYNOPSIS
.B wfctl
[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]
.SH DESCRIPTION
wfctl records every step of a workflow in an event log. From this log, wfctl writes the
files workflow-state.json and progress.log. People and AI agents use the same commands,
under the same rules."""


def render_manual(program: Any) -> str:
    """Return the manual page of wfctl in roff format.

    ``program`` is the context of the whole program.
    """
    return "".join(f"{line}\n" for line in _render_lines(program))


def _render_lines(program: Any) -> Iterator[str]:
    from cli.program.examples import read_examples

    yield _HEAD
    yield ".SH OPTIONS OF EVERY COMMAND"
    for name, text in _EVERYWHERE:
        yield from (".TP", f".B {_escape_roff(name)}", _escape_roff(text))
    yield ".SH COMMANDS"
    examples = read_examples()
    for name, command in _iterate_commands(program.command):
        yield from _render_command(name, command, program)
        yield from (".PP", "Example:", ".nf", ".RS 2")
        yield from (_escape_roff(line) or r"\&" for line in examples[name].splitlines())
        yield from (".RE", ".fi")
    for name, (about, text) in TOPICS.items():
        yield f".SH {name.upper()}"
        yield _escape_roff(f"{about[0].upper()}{about[1:]}.")
        yield from (".nf", *map(_escape_roff, text.splitlines()), ".fi")
    yield from (".SH SEE ALSO", "dpdisp(1), tmux(1), ssh-keygen(1), sqlite3(1)")


def _iterate_commands(group: Any) -> Iterator[tuple[str, Any]]:
    for name in group.commands:
        command = group.commands[name]
        if command.hidden or name.startswith("_"):
            continue
        if not hasattr(command, "commands"):
            yield name, command
            continue
        yield from ((f"{name} {inner}", found) for inner, found in _iterate_commands(command))


def _render_command(name: str, command: Any, program: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name, parent=program)
    pieces = " ".join(usage_pieces(command.collect_usage_pieces(context)))
    yield f".SS wfctl {_escape_roff(name)} {_escape_roff(pieces)}"
    yield _escape_roff(" ".join((command.help or "").split()))
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record is not None and param.name != "help":
            yield from (".TP", f".B {_escape_roff(format_parameter_name(param, record))}")
            yield _escape_roff(" ".join(record[1].split())) or r"\&"


def _escape_roff(text: str) -> str:
    """Return a text in which roff does not interpret any character as a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text
