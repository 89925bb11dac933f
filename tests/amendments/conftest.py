"""Workflows to amend, with a configuration of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.amendments.support import Keys, Place, make, make_keys


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing of the caller's environment into a test, and nothing of a test out of it."""
    for name in ("WFCTL_ACTOR", "WFCTL_DATABASE_URL", "WFCTL_DEBUG", "WFCTL_DPDISP", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))


@pytest.fixture
def trusted(tmp_path: Path) -> Place:
    """Make a workflow in which anyone who calls is believed."""
    return make(tmp_path / "root", "--consent", "trust")


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """Make the key of an allowed signer and one of a stranger."""
    folder = tmp_path / "keys"
    folder.mkdir()
    return make_keys(folder)


@pytest.fixture
def signed(tmp_path: Path, keys: Keys) -> Place:
    """Make a workflow in which a signature counts, and nothing else."""
    return make(tmp_path / "root", "--consent", "signature", "--signers", str(keys.signers))
