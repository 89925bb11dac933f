"""The path of the report of a completed workflow."""

from __future__ import annotations

import re

from lifecycle.state.workflow import Workflow
from lifecycle.words.values import is_id, is_valid_report_path

#: The folder of reports relative to the root, as the staged-workflow protocol defines it.
FOLDER = "docs/superscientist/reports"

_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")


def report_path(state: Workflow, at: str) -> str:
    """Return the path of the workflow's report if it is completed at ``at`` (UTC, ISO 8601).

    This is the path that the session requested, or otherwise ``YYYY-MM-DD-<topic>-report.md``. If
    the workflow was completed before, a number is added, so that no report is overwritten.
    """
    topic = _DATE.sub("", state.id) if is_id(state.id) else "workflow"
    asked = state.session.report if state.session.is_open else None
    path = asked if asked is not None and is_valid_report_path(asked) else _usual(at, topic)
    return add_number_to_path(path, state.completions + 1)


def _usual(at: str, topic: str) -> str:
    return f"{FOLDER}/{at[:10]}-{topic}-report.md"


def add_number_to_path(path: str, number: int) -> str:
    """Return the path with a number before its suffix, such as ``report-2.md``.

    The number 1 leaves the path unchanged.
    """
    if number == 1:
        return path
    folder, slash, name = path.rpartition("/")
    # Start the search after a leading dot, which marks a hidden file and not a suffix.
    dot = name.rfind(".", 1)
    stem, suffix = (name, "") if dot < 0 else (name[:dot], name[dot:])
    return f"{folder}{slash}{stem}-{number}{suffix}"
