"""Fixture: a stage with its own home folder and tmux server."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reconciler.support import Stage


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Create a workflow root whose path needs quoting, with its own HOME and tmux."""
    root, home = tmp_path / "a root's päth", tmp_path / "home"
    (root / "stage-1").mkdir(parents=True)
    home.mkdir()
    # The path of a socket is limited to about 100 bytes, and tmp_path is longer.
    sockets = tempfile.mkdtemp(prefix="wfctl-")
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMUX_TMPDIR", sockets)
    yield Stage(root, dict(os.environ))
    if shutil.which("tmux"):
        subprocess.run(["tmux", "kill-server"], capture_output=True, check=False)
    shutil.rmtree(sockets)
