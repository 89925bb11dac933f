"""The path of the report of a completed workflow."""

from __future__ import annotations

import re

from lifecycle.state.workflow import Workflow
from lifecycle.words.values import is_id, is_report

#: Source: the staged-workflow protocol. Paths are relative to the root.
FOLDER = "docs/superscientist/reports"

_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")


def report_path(state: Workflow, at: str) -> str:
    """Return the report's path for a completion at ``at`` (UTC, ISO 8601).

    This is the path that the session requested, or otherwise ``YYYY-MM-DD-<topic>-report.md``. A
    workflow that is completed again gets a new path, so that no report is overwritten.
    """
    topic = _DATE.sub("", state.id) if is_id(state.id) else "workflow"
    asked = state.session.report if state.session.is_open else None
    path = asked if asked is not None and is_report(asked) else _usual(at, topic)
    return numbered(path, state.completions + 1)


def _usual(at: str, topic: str) -> str:
    return f"{FOLDER}/{at[:10]}-{topic}-report.md"


def numbered(path: str, number: int) -> str:
    """Return the path of the ``number``-th file with this name, counted from 1."""
    if number == 1:
        return path
    folder, slash, name = path.rpartition("/")
    # A leading dot hides a file and does not start a suffix.
    dot = name.rfind(".", 1)
    stem, suffix = (name, "") if dot < 0 else (name[:dot], name[dot:])
    return f"{folder}{slash}{stem}-{number}{suffix}"
