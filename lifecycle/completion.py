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
    usual = f"{FOLDER}/{at[:10]}-{_DATE.sub('', state.id)}-report.md"
    asked = state.session.report if state.session.is_open else None
    return numbered(asked or usual, state.completions + 1)


def numbered(path: str, number: int) -> str:
    """Return the path of the ``number``-th file that is to have this name, counted from 1."""
    if number == 1:
        return path
    folder, slash, name = path.rpartition("/")
    # A dot at the beginning hides a file; it parts no suffix from its name.
    dot = name.rfind(".", 1)
    stem, suffix = (name, "") if dot < 0 else (name[:dot], name[dot:])
    return f"{folder}{slash}{stem}-{number}{suffix}"
