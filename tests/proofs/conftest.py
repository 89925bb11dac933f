"""Fixtures: a workflow, and signing keys that only one test uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, call, write_plan


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test its own folders for wfctl's state and configuration of a user."""
    home = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return home


@pytest.fixture
def place(tmp_path: Path, state_home: Path) -> Place:
    """Make a workflow of two stages."""
    root = tmp_path / "root"
    root.mkdir()
    answer = call("--root", str(root), "init", str(write_plan(tmp_path)), "--consent", "trust")
    assert answer.code == 0, answer
    return Place(root)
