"""Roots to export from, made once: an export writes nothing in them."""

from __future__ import annotations

import pytest

from tests.cli.support import Place
from tests.exports.world import STORIES, make_root


@pytest.fixture(scope="session", params=list(STORIES))
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workflow just begun, one in the middle of it all, and one that is done."""
    path = tmp_path_factory.mktemp("told") / "root"
    return Place(make_root(path, STORIES[request.param]))


@pytest.fixture(scope="session")
def half_way(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workflow in the middle of it all."""
    return Place(make_root(tmp_path_factory.mktemp("half") / "root", STORIES["half-way"]))


@pytest.fixture(scope="session")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workflow that is done."""
    return Place(make_root(tmp_path_factory.mktemp("done") / "root", STORIES["completed"]))
