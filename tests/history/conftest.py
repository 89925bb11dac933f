"""Fixtures with workflow histories, isolated from the caller's environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, attempt_data, call, write_plan


@pytest.fixture(autouse=True)
def _plain_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the caller's settings from the environment."""
    for name in ("WFCTL_ACTOR", "WFCTL_DATABASE_URL", "WFCTL_DEBUG", "NO_COLOR", "PAGER", "LESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Make a workflow of two stages; the first failed once, in session 1."""
    root = tmp_path / "root"
    root.mkdir()
    assert (
        call("--root", str(root), "init", str(write_plan(tmp_path)), "--consent", "trust").code == 0
    )
    place = Place(root)
    place.done("append", "session.started")
    place.done("append", "attempt.started", "--data", attempt_data())
    place.done("stage", "fail", "stage-1", "--error", "exit 137: no memory")
    place.done("append", "session.ended", "--data", '{"reason": "blocked"}')
    place.done("stage", "retry", "stage-1", "--fix", "a smaller box", "--actor", "user:ada")
    place.done("note", "Now the long one.")
    return place
