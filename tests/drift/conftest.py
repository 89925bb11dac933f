"""Fixtures: workflows whose files other programs edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Place, call, write_plan
from tests.drift.support import PLAN


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove wfctl's variables from the environment of each test."""
    for name in ("WFCTL_ACTOR", "WFCTL_DATABASE_URL", "WFCTL_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Create a workflow of three stages with a field that the protocol does not define."""
    root = tmp_path / "root"
    root.mkdir()
    begin = ("init", str(write_plan(tmp_path, PLAN)), "--consent", "trust")
    answer = call("--root", str(root), *begin)
    assert answer.code == 0, answer
    return Place(root)
