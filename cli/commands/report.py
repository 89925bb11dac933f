"""``wfctl report``: write a report of the workflow in Markdown."""

from __future__ import annotations

import os
from pathlib import Path

from cli.frame.context import Context
from cli.frame.options import argument
from cli.frame.workspace import open_for_reading
from reconciler.files.freshness import find_log_differences
from service.writing.workflow_service import render_report as made
from service.writing.workflow_service import write_report_to


def report(
    context: Context,
    path: str = argument(
        "[PATH|-]",
        "The file to write or replace, or - for stdout.",
        default="-",
    ),
) -> None:
    """Write a report of the workflow.

    The report contains the purpose, the results with their checksums, failures and fixes,
    amendments, sessions and costs.
    """
    with open_for_reading(context) as workflow:
        state = workflow.state()
        seen = find_log_differences(workflow.root, workflow.log, state)
        root = workflow.root.path.resolve()
        place = root if path == "-" else Path(path).absolute().parent.resolve()
        content = made(workflow.log, seen, Path(os.path.relpath(place, root)))
        data = {"path": None if path == "-" else path, "text": content.decode()}
        text = content.decode().rstrip("\n")
        if path != "-":
            write_report_to(Path(path).absolute(), content)
            text = f"written to {path}"
        workflow.output.result(data, lambda: text, state=state, seen=seen)
