"""The commands of the README print what the README shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tutorial.test_tutorial import ROOT, follow


@pytest.mark.slow
@pytest.mark.long
def test_first_session_of_the_readme_prints_what_the_readme_shows(tmp_path: Path) -> None:
    """The test types the commands at a terminal in an empty folder, like a new user."""
    place = tmp_path / "first"
    place.mkdir()
    follow(ROOT / "README.md", place, tmp_path / "home", agrees=True)
