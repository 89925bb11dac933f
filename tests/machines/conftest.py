"""Fixtures: project roots with phase machines (machines that lead work from phase to phase)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machines.place import MachinePlace


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove wfctl's variables from the environment of each test."""
    for name in ("WFCTL_ACTOR", "WFCTL_DATABASE_URL", "WFCTL_DEBUG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config-home"))


@pytest.fixture
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> MachinePlace:
    """Return an empty root whose log is a file or on a server, as the test's parameter says."""
    if getattr(request, "param", "file") == "server":
        monkeypatch.setenv("WFCTL_DATABASE_URL", request.getfixturevalue("server").log())
    root = tmp_path / "root"
    root.mkdir()
    return MachinePlace(root)
