"""Workflows to call wfctl in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, call, write_plan


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing of the caller's environment into a test."""
    for name in ("WFCTL_ACTOR", "WFCTL_DATABASE_URL", "WFCTL_DEBUG", "WFCTL_DPDISP", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Make a workflow of two stages."""
    plan = write_plan(tmp_path)
    root = tmp_path / "root"
    root.mkdir()
    answer = call("--root", str(root), "init", str(plan), "--consent", "trust")
    assert answer.code == 0, answer
    return Place(root)
