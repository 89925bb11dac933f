"""A home folder for each test, so that the plugin does not reach the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, agree, call, write_plan


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home folder of a test user."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def root(tmp_path: Path, home: Path) -> Place:
    """Return a workflow of two stages and a machine."""
    folder = tmp_path / "root"
    folder.mkdir()
    place = Place(folder)
    assert place.call("init", str(write_plan(folder))).code == 0
    agree(folder)
    assert call("--root", str(folder), "machine", "init", "login", "--type", "feature").code == 0
    return place
