"""``wfctl report``: what was found and how it came about, from the log and a look at the files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.frame.workspace import reading
from reconciler.files.freshness import look
from service.writing.report import report as made
from service.writing.report import write_to


def report(
    context: typer.Context,
    path: Annotated[
        str, typer.Argument(metavar="[PATH|-]", help="Where to; - is stdout. A file is replaced.")
    ] = "-",
) -> None:
    """Objective, results with digests, failures and fixes, amendments, sessions and cost."""
    with reading(context) as workflow:
        state = workflow.state()
        seen = look(workflow.root, workflow.log, state)
        content = made(workflow.log, seen)
        if path != "-":
            write_to(Path(path).absolute(), content)
        text = content.decode()
        data = {"path": None if path == "-" else path, "text": text}
        workflow.output.result(
            data,
            lambda: text.rstrip("\n") if path == "-" else f"written to {path}",
            state=state,
            seen=seen,
        )
