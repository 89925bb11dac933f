"""Fixtures: a workflow with a separate home folder, tmux server and processes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.support import Workflow, environment
from tests.crash.victims import Victim, find, kill, until_none_is_left


@pytest.fixture
def workflow(tmp_path: Path) -> Iterator[Workflow]:
    """Create an empty root, and check afterwards that no process of the workflow is left."""
    root, home = tmp_path / "a root's päth", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    # The path of a Unix socket is limited to about a hundred bytes, which a path below the test
    # folder would exceed.
    sockets = tempfile.mkdtemp(prefix="wfctl-")
    made = Workflow(root, environment(home, sockets))
    try:
        yield made
        until_none_is_left(made)
    finally:
        kill(find(made, Victim.EVERYTHING))
        shutil.rmtree(sockets)
