"""``wfctl help``: show help for a command, or for a topic that concerns several commands."""

from __future__ import annotations

from textwrap import fill
from typing import Annotated

from cli.frame.context import Context
from cli.frame.options import Texts, argument, option
from cli.frame.workspace import settings_of
from cli.program.command_help import TOPICS, render_manual
from cli.program.commands import find_top_words
from cli.terminal.output import Output
from lifecycle.plan.fields import describe_field
from lifecycle.sweeps.parameters import WORDS_OF_PARAMETER
from service.errors import NotFound

Words = Annotated[
    Texts,
    argument("[TOPIC]", "A command, for example stage fail, or a topic, for example exit-codes."),
]


def help_(
    context: Context,
    topic: Words = None,
    man: bool = option("Print the manual page in roff format, for `man -l -`."),
) -> None:
    """Show help on a command or a topic.

    Without a name, list the topics.
    """
    if man:
        from cli.program.tree import create_program_context

        print(render_manual(create_program_context()), end="")
        return
    name = " ".join(topic or ())
    output = Output(settings_of(context))
    if not name:
        known = {topic: about for topic, (about, _) in TOPICS.items()}
        lines = [f"  {name:<13} {about}" for name, about in known.items()]
        parameters = ", ".join(WORDS_OF_PARAMETER)
        end = fill(f"Parameters of a stage, and fields of a plan: {parameters}, id …", 79)
        last = "Commands: `wfctl --help`, `wfctl help COMMAND`."
        text = "\n".join(["Topics (`wfctl help TOPIC`):", *lines, end, last])
        output.result(known, lambda: text)
        return

    told = ["\n".join(describe_field(name))] if describe_field(name) else []
    if name in TOPICS:
        told.append(TOPICS[name][1])
    elif not told or name in find_top_words():
        told.append(_format_command_help(name))
    text = "\n\n".join(told)
    output.result({"topic": name, "text": text}, lambda: text)


def _format_command_help(name: str) -> str:
    """Return the help of a command. Raises `NotFound` if there is no such command."""
    from cli.program.tree import build_program, format_command_help

    try:
        if not name.startswith("_"):
            return format_command_help(name)
    except (KeyError, AttributeError):  # the last word is not a command, or not a group
        pass
    known = [*TOPICS, *(name for name in build_program().commands if not name.startswith("_"))]
    raise NotFound(
        f"wfctl has no command or help topic named {name!r}. Available commands and "
        f"topics: {', '.join(known)}.",
        topic=name,
    )
