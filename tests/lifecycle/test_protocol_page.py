"""The documentation of the published protocol agrees with the rules."""

from __future__ import annotations

import re
from pathlib import Path

from lifecycle.state.status import TRANSITIONS

HERE = Path(__file__).parents[2]
PAGES = sorted((HERE / "docs/protocols").glob("*.md"))


def test_page_lists_every_transition() -> None:
    """The page has each transition between statuses, in the order of the code's table.

    One row covers all transitions to the status `skipped`.
    """
    page = (HERE / "docs/protocols/staged-workflow.md").read_text("utf-8")
    section = page.partition("## Transitions")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w ]+) \| (\w+) \| (.*?) \| (.*?) \|$", section, re.MULTILINE)
    assert rows[0] == ("from", "to", "when", "events")
    expected = dict.fromkeys(
        (
            "any other" if row.target == "skipped" else row.source,
            row.target,
            row.when,
            ", ".join(f"`{event}`" for event in row.events),
        )
        for row in TRANSITIONS
    )
    assert rows[1:] == list(expected)
    skipped = {row.source for row in TRANSITIONS if row.target == "skipped"}
    assert skipped == {row.source for row in TRANSITIONS}


def test_files_named_by_the_pages_exist() -> None:
    """Each source file that the pages about protocols name exists in the repository."""
    named = {
        path
        for page in PAGES
        for path in re.findall(r"`([a-z_]+/[\w./-]*(?:\.py|/))`", page.read_text("utf-8"))
        if path.split("/")[0] in ("lifecycle", "projections", "service", "reconciler")
    }
    assert named
    assert {path for path in named if not (HERE / path).exists()} == set()
