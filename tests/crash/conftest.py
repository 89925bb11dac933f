"""A workflow with a home, a tmux server and processes of its own."""

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
    """Make an empty root; afterwards no process that was started for it may be left."""
    root, home = tmp_path / "a root's päth", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    # The path of a socket is limited to some hundred bytes, which a test's own folder passes.
    sockets = tempfile.mkdtemp(prefix="wfctl-")
    made = Workflow(root, environment(home, sockets))
    try:
        yield made
        until_none_is_left(made)
    finally:
        kill(find(made, Victim.EVERYTHING))
        shutil.rmtree(sockets)
