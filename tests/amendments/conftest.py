"""Fixtures: workflows to amend, with a separate configuration folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.amendments.support import Keys, Place, make, make_keys


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolate each test from the environment and configuration of the caller."""
    for name in ("WFCTL_ACTOR", "WFCTL_DATABASE_URL", "WFCTL_DEBUG", "WFCTL_DPDISP", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))


@pytest.fixture
def trusted(tmp_path: Path) -> Place:
    """Create a workflow under the consent policy `trust`, where every caller may approve."""
    return make(tmp_path / "root", "--consent", "trust")


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """Create the SSH keys of an allowed signer and of a stranger."""
    folder = tmp_path / "keys"
    folder.mkdir()
    return make_keys(folder)


@pytest.fixture
def signed(tmp_path: Path, keys: Keys) -> Place:
    """Create a workflow under the policy signature."""
    return make(tmp_path / "root", "--consent", "signature", "--signers", str(keys.signers))
