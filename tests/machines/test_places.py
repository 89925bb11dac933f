"""Roots that were moved, and roots that share a log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.support import call
from tests.machines.place import MachinePlace


def test_moved_root_is_read_only_until_it_is_confirmed(place: MachinePlace, tmp_path: Path) -> None:
    """wfctl refuses writes until a command has `--root-is moved`. Reading works immediately."""
    place.init("login")
    moved = MachinePlace(tmp_path / "elsewhere")
    shutil.move(place.path, moved.path)
    assert moved.phase("login") == "ideate"
    moved.refused("root_elsewhere", 6, "update", "login", "artifacts.design=d.md")
    moved.done("update", "login", "artifacts.design=d.md", "--root-is", "moved")
    moved.done("transition", "login", "plan")


@pytest.mark.parametrize("log", ["file", "server"])
def test_roots_sharing_a_log_list_only_their_own_machines(
    request: pytest.FixtureRequest, tmp_path: Path, log: str
) -> None:
    """Each root lists only its own machines, but a machine id is unique in the whole log."""
    url = f"sqlite:///{tmp_path}/shared.db"
    if log == "server":
        url = request.getfixturevalue("server").log()
    for name in ("one", "two"):
        root = tmp_path / name
        root.mkdir()
        line = ["--root", str(root), "--database-url", url, "machine", "init", name, "--type"]
        assert call(*line, "feature").code == 0
    two = MachinePlace(tmp_path / "two")
    assert [row["id"] for row in two.done("list")] == ["two"]
    assert two.wfctl("fsck").data["machines"] == {"two": 1}
    two.refused("STATE_ALREADY_EXISTS", 4, "init", "one", "--type", "feature")
