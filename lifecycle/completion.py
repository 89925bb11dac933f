"""Where the report of a completed workflow is kept."""

from __future__ import annotations

import re

from lifecycle.workflow import Workflow

#: Source: the staged-workflow protocol; paths are relative to the root.
FOLDER = "docs/superscientist/reports"

_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")


def report_path(state: Workflow, at: str) -> str:
    """Return the report's path for a completion at ``at`` (UTC, ISO 8601).

    As the session asked for, else ``YYYY-MM-DD-<topic>-report.md``; a workflow that is completed
    once more gets another, so that no report is ever written over.
    """
    again = f"-{state.completions + 1}" if state.completions else ""
    if state.session.is_open and state.session.report:
        stem, dot, suffix = state.session.report.rpartition(".")
        return f"{stem}{again}.{suffix}" if dot else f"{state.session.report}{again}"
    return f"{FOLDER}/{at[:10]}-{_DATE.sub('', state.id)}-report{again}.md"
