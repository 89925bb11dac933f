"""Fixtures: a separate home folder for each test, which protects the user's real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, agree, call, write_plan


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home folder, and use it as the user's home."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def root(tmp_path: Path, home: Path) -> Place:
    """Return a root with a workflow of two stages and a phase machine."""
    folder = tmp_path / "root"
    folder.mkdir()
    place = Place(folder)
    assert place.call("init", str(write_plan(folder))).code == 0
    agree(folder)
    assert call("--root", str(folder), "machine", "init", "login", "--type", "feature").code == 0
    return place
