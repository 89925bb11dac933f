"""The commands of the machines tutorial work as the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tutorial.test_tutorial import ROOT, follow

PAGE = ROOT / "docs" / "use" / "machines-tutorial.md"


@pytest.mark.slow
@pytest.mark.long
def test_machines_tutorial_commands_work_as_shown(tmp_path: Path) -> None:
    """Each exit code and output in an empty folder matches the page."""
    place = tmp_path / "feature"
    place.mkdir()
    follow(PAGE, place, tmp_path / "home")
