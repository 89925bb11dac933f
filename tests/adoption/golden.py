"""What the golden files hold of findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from service.adoption.survey import survey
from service.adoption.versions import read_sources
from tests.adoption.support import GOLDEN, NOW


def found_in(folder: Path, *, git: bool = False) -> list[dict[str, Any]]:
    """Return the findings on a folder as a golden file holds them.

    A commit is its number, 1 for the oldest; of a changed definition only its name is kept.
    """
    sources = read_sources(folder, now=NOW, git=git, zone=None)
    numbers = {version.commit: n for n, version in enumerate(sources.versions, 1)}
    found = [finding.to_dict() for finding in survey(sources)]
    for finding in found:
        finding["commit"] = numbers[finding["commit"]]
        if finding["kind"] == "unamended_change":
            finding["evidence"] = finding["evidence"].partition(": ")[0]
    return found


def golden(name: str) -> list[dict[str, Any]]:
    """Return the findings of a golden file."""
    text = (GOLDEN / f"{name}.json").read_text("utf-8")
    found: list[dict[str, Any]] = json.loads(text)
    return found
