"""The commands in the tutorial about machines work as the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tutorial.test_tutorial import ROOT, follow

PAGE = ROOT / "docs" / "use" / "machines-tutorial.md"


@pytest.mark.slow
@pytest.mark.long
def test_machines_tutorial_commands_work_as_shown(tmp_path: Path) -> None:
    """In an empty folder, each command has the exit code and output that the page shows."""
    place = tmp_path / "feature"
    place.mkdir()
    follow(PAGE, place, tmp_path / "home")
