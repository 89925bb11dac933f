"""Roots that moved, and roots that share a log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.support import call
from tests.machines.place import MachinePlace


def test_a_moved_root_is_not_written_to_until_somebody_says(
    place: MachinePlace, tmp_path: Path
) -> None:
    """Reads go on; said once, it is known."""
    place.init("login")
    moved = MachinePlace(tmp_path / "elsewhere")
    shutil.move(place.path, moved.path)
    assert moved.phase("login") == "ideate"
    moved.refused("root_elsewhere", 6, "update", "login", "artifacts.design=d.md")
    moved.done("update", "login", "artifacts.design=d.md", "--root-is", "moved")
    moved.done("transition", "login", "plan")


@pytest.mark.parametrize("log", ["file", "server"])
def test_roots_that_share_a_log_see_their_own_machines(
    request: pytest.FixtureRequest, tmp_path: Path, log: str
) -> None:
    """And an id is one for the whole log."""
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
