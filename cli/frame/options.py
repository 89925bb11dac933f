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
