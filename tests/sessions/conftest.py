"""Fixtures: a workflow of two stages in its own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, write_plan


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Create the workflow in an empty folder."""
    made = Place(tmp_path / "root")
    made.path.mkdir()
    made.done("init", str(write_plan(tmp_path)), "--consent", "trust")
    return made
