"""Workflows whose files others touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, agree, call, write_plan
from tests.drift.support import PLAN


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing of the caller's environment into a test."""
    for name in ("WFCTL_ACTOR", "WFCTL_DATABASE_URL", "WFCTL_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Make a workflow of three stages with a field that nobody specified."""
    root = tmp_path / "root"
    root.mkdir()
    answer = call("--root", str(root), "init", str(write_plan(tmp_path, PLAN)))
    assert answer.code == 0, answer
    agree(root)
    return Place(root)
