"""Read import findings and golden files (expected findings) in one format."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from extensions.adoption.adopt import collect_findings
from extensions.adoption.versions import read_sources
from tests.adoption.support import GOLDEN, NOW


def found_in(folder: Path, *, git: bool = False) -> list[dict[str, Any]]:
    """Return the findings on a folder in the format of a golden file.

    A commit is its number, 1 for the oldest. Of a changed definition only its name is kept.
    """
    sources = read_sources(folder, now=NOW, git=git, zone=None)
    numbers = {commit: number for number, commit in enumerate([*_commits(folder), None], 1)}
    found = [finding.to_dict() for finding in collect_findings(sources)]
    for finding in found:
        finding["commit"] = numbers[finding["commit"]]
        if finding["kind"] == "unamended_change":
            finding["evidence"] = finding["evidence"].partition(": ")[0]
    return found


def _commits(folder: Path) -> list[str]:
    """Return the commits of a folder without the newest, which equals the files on disk."""
    if not (folder / ".git").exists():
        return []
    listed = subprocess.run(
        ["git", "-C", str(folder), "log", "--reverse", "--format=%H"],
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.split()[:-1]


def golden(name: str) -> list[dict[str, Any]]:
    """Return the findings of a golden file."""
    text = (GOLDEN / f"{name}.json").read_text("utf-8")
    found: list[dict[str, Any]] = json.loads(text)
    return found
