"""Roots with machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machines.place import MachinePlace


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let nothing of the caller's environment into a test."""
    for name in ("WFCTL_ACTOR", "WFCTL_DATABASE_URL", "WFCTL_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config-home"))


@pytest.fixture
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> MachinePlace:
    """Give an empty folder to begin machines in; their log is where the parameter says."""
    if getattr(request, "param", "file") == "server":
        monkeypatch.setenv("WFCTL_DATABASE_URL", request.getfixturevalue("server").log())
    root = tmp_path / "root"
    root.mkdir()
    return MachinePlace(root)
