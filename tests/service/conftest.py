"""Fixture: a workflow whose generated files a test may damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, call, write_plan


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Make a workflow of two stages."""
    monkeypatch.delenv("WFCTL_ACTOR", raising=False)
    monkeypatch.delenv("WFCTL_DATABASE_URL", raising=False)
    root = tmp_path / "root"
    root.mkdir()
    assert (
        call("--root", str(root), "init", str(write_plan(tmp_path)), "--consent", "trust").code == 0
    )
    return Place(root)
