"""The page about the published protocol has the rows that the rules have."""

from __future__ import annotations

import re
from pathlib import Path

from lifecycle.state.status import TRANSITIONS

HERE = Path(__file__).parents[2]
PAGES = sorted((HERE / "docs/protocols").glob("*.md"))


def test_the_page_has_every_transition_and_no_other() -> None:
    """Row by row, in the order of the table."""
    page = (HERE / "docs/protocols/staged-workflow.md").read_text("utf-8")
    section = page.partition("## Transitions")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (.*?) \| (.*?) \|$", section, re.MULTILINE)
    assert rows[0] == ("from", "to", "when", "events")
    assert rows[1:] == [
        (row.source, row.target, row.when, ", ".join(f"`{event}`" for event in row.events))
        for row in TRANSITIONS
    ]


def test_the_files_that_the_pages_name_are_there() -> None:
    """Anyone who checks a row against the code finds it."""
    named = {
        path
        for page in PAGES
        for path in re.findall(r"`([a-z_]+/[\w./-]*(?:\.py|/))`", page.read_text("utf-8"))
        if path.split("/")[0] in ("lifecycle", "projections", "service", "reconciler")
    }
    assert named
    assert {path for path in named if not (HERE / path).exists()} == set()
