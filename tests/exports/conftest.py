"""Fixtures: roots to export from, created once because an export writes nothing in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, call, write_plan
from tests.exports.world import STORIES, make_root, named

#: The completed workflow, whose stages have names that a user chose.
NAMED = "named"


@pytest.fixture(scope="session", params=[*STORIES, NAMED])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Create a new, a half-finished or a completed workflow."""
    path = tmp_path_factory.mktemp("told") / "root"
    if request.param == NAMED:
        return Place(make_root(path, STORIES["completed"], named))
    return Place(make_root(path, STORIES[request.param]))


@pytest.fixture(scope="session")
def half_way(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Create a half-finished workflow."""
    return Place(make_root(tmp_path_factory.mktemp("half") / "root", STORIES["half-way"]))


@pytest.fixture(scope="session")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Create a completed workflow."""
    return Place(make_root(tmp_path_factory.mktemp("done") / "root", STORIES["completed"]))


@pytest.fixture
def lived(tmp_path: Path) -> Place:
    """Create a root whose history has notes, a refusal, a hand edit and a command id."""
    root = tmp_path / "root"
    root.mkdir()
    assert (
        call("--root", str(root), "init", str(write_plan(tmp_path)), "--consent", "trust").code == 0
    )
    place = Place(root)
    place.done("note", "äöü", "--command-id", "once")
    place.done("stage", "prepare", "stage-1")
    assert place.call("stage", "complete", "stage-1").code == 5
    state = root / "workflow-state.json"
    state.write_text(state.read_text("utf-8").replace('"Build"', '"Built"'), "utf-8")
    place.done("note", "after the edit")
    return place
