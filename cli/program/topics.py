"""``wfctl help``: a command, or a topic that belongs to many."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.frame.workspace import settings_of
from cli.terminal.output import Output
from service.errors import NotFound

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
130 interrupted by Ctrl-C; 141 the reader of a pipe left""",
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
elsewhere. Kinds: user, agent, reconciler, runner, import. Only a person approves an
amendment, trusts a server or a notification, or replaces a pin: others get exit 6.""",
    ),
    "amendments": (
        "how what a stage is may change",
        """\
Anyone proposes, a person decides. stage_rerun computes a stage once more, with --set
as the new values; parameter_change and criteria_change are what --set means without
a type; stage_insert adds one; stage_skip takes one out (--rewire: dependents go on).
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

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOPIC]", help="A command, such as stage fail; or a topic."),
]


def help_(
    context: typer.Context,
    topic: Words = None,
    man: Annotated[bool, typer.Option("--man", help="Print the manual page, as roff.")] = False,
) -> None:
    """Help on a command or a topic; without one, the topics there are."""
    if man:
        from cli.program.manual import manual

        print(manual(context.find_root()), end="")
        return
    name = " ".join(topic or ())
    output = Output(settings_of(context))
    if not name:
        known = {topic: about for topic, (about, _) in TOPICS.items()}
        output.result(known, lambda: _list(known))
        return
    text = TOPICS[name][1] if name in TOPICS else of_command(context, name.split())
    output.result({"topic": name, "text": text}, lambda: text)


def _list(known: dict[str, str]) -> str:
    lines = [f"  {name:<13} {about}" for name, about in known.items()]
    return "\n".join(
        ["Topics (`wfctl help TOPIC`):", *lines, "Commands: `wfctl --help`, `wfctl help COMMAND`."]
    )


def of_command(context: typer.Context, words: list[str]) -> str:
    """Return the help of the command that the words name; raises `NotFound`."""
    found: Any = context.find_root().command
    above: Any = context.find_root()
    for word in words:
        commands = getattr(found, "commands", {})
        if word not in commands or word.startswith("_"):
            known = [*TOPICS, *(name for name in commands if not name.startswith("_"))]
            raise NotFound(
                f"no command or topic {' '.join(words)!r}; there are {', '.join(known)}",
                topic=" ".join(words),
            )
        found = commands[word]
        above = found.context_class(found, info_name=word, parent=above)
    return str(found.get_help(above))
