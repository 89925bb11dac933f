"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from service.writing.stream_writer import WriteOptions


Stage = Annotated[str, typer.Argument(help="Id of the stage, such as stage-2.", metavar="STAGE")]
AgreeingKey = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="Agree with this SSH key (or its .pub)."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be appended and written; write nothing.")
]
CommandId = Annotated[
    str | None,
    typer.Option(
        "--command-id",
        metavar="KEY",
        help="Idempotency key: given again, the first answer and nothing appended.",
    ),
]
ExpectedVersion = Annotated[
    int | None,
    typer.Option(
        "--expected-version", metavar="N", min=0, help="Refuse unless the log stands at version N."
    ),
]
Brief = Annotated[
    int | None,
    typer.Option(
        "--brief",
        metavar="N",
        min=1,
        help="Fit the answer into N tokens of four bytes: what is newest, and nothing empty.",
    ),
]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="MOMENT", help="What was so: 12, TIME, @{1 hour ago}, session:3."),
]
KnownAt = Annotated[
    str | None,
    typer.Option("--known-at", metavar="MOMENT", help="What was recorded by then."),
]


def write_options(
    dry_run: bool, command_id: str | None, expected_version: int | None
) -> WriteOptions:
    """Return what every write takes."""
    from service.writing.stream_writer import WriteOptions

    return WriteOptions(command_id, expected_version, dry_run)


#: Each takes a value.
EVERYWHERE = frozenset(
    {
        "--root",
        "--root-is",
        "--database-url",
        "--journal",
        "--output",
        "-o",
        "--color",
        "--log-level",
        "--actor",
    }
)

#: These take none.
FLAGS = frozenset({"--as-is"})


def hoist(arguments: list[str]) -> list[str]:
    """Return the line with the options of every command first; ``--`` ends the search."""
    first: list[str] = []
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest += [word, *queue]
            break
        name, value = _parted(word)
        if word in FLAGS:
            first.append(word)
        elif name not in EVERYWHERE:
            rest.append(word)
        elif value is not None:
            first += [name, value]
        elif queue:
            first += [name, queue.pop(0)]
        else:
            rest.append(word)
    return first + rest


def _parted(word: str) -> tuple[str, str | None]:
    """Return an option and the value in the same word: ``-ojson``, ``-o=json``, ``--root=x``."""
    if word.startswith("-o") and len(word) > 2:
        return "-o", word[2:].removeprefix("=")
    name, equals, value = word.partition("=")
    return name, value if equals else None


def value_of(arguments: list[str], *names: str) -> str | None:
    """Return the last value that a hoisted line gives to an option of these names."""
    value = None
    valued = [word for word in arguments if word not in FLAGS]
    for name, given in zip(valued[::2], valued[1::2], strict=False):
        if name not in EVERYWHERE:
            break
        value = given if name in names else value
    return value


DONE, FAILED, USAGE, NOT_FOUND, CONFLICT, REFUSED, NEEDS_PERSON, FINDINGS = range(8)
