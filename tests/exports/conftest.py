"""Roots to export from, made once: an export writes nothing in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, call, write_plan
from tests.exports.world import STORIES, make_root, named

#: The last story, with stages that have names of their own.
NAMED = "named"


@pytest.fixture(scope="session", params=[*STORIES, NAMED])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workflow just begun, one in the middle of it all, and one that is done."""
    path = tmp_path_factory.mktemp("told") / "root"
    if request.param == NAMED:
        return Place(make_root(path, STORIES["completed"], named))
    return Place(make_root(path, STORIES[request.param]))


@pytest.fixture(scope="session")
def half_way(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workflow in the middle of it all."""
    return Place(make_root(tmp_path_factory.mktemp("half") / "root", STORIES["half-way"]))


@pytest.fixture(scope="session")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workflow that is done."""
    return Place(make_root(tmp_path_factory.mktemp("done") / "root", STORIES["completed"]))


@pytest.fixture
def lived(tmp_path: Path) -> Place:
    """A root with a history of its own: notes, a refusal, a hand edit, a repeated command."""
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
