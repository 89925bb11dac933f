"""The walk through a feature does what its page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tutorial.test_tutorial import ROOT, follow

PAGE = ROOT / "docs" / "use" / "machines-tutorial.md"


@pytest.mark.slow
@pytest.mark.long
def test_every_command_of_the_walk_does_what_the_page_says(tmp_path: Path) -> None:
    """Given an empty folder, when the page is followed, then each exit code and output fits."""
    place = tmp_path / "feature"
    place.mkdir()
    follow(PAGE, place, tmp_path / "home")
