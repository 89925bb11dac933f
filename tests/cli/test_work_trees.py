"""Commands in a git work tree below the root name the root that they use, or are refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.support import Place, wfctl, write_plan

TAKING = {
    "run": ["run"],
    "run --dry-run": ["run", "--dry-run"],
    "dispatch": ["dispatch", "stage-1"],
    "stage prepare": ["stage", "prepare", "stage-1"],
    "plan apply": ["plan", "apply", "plan.json", "--reason", "finer"],
}


@pytest.fixture
def tree(place: Place) -> Path:
    """Return a second work tree of the repository, in a folder below the root."""
    identity = ("-c", "user.name=ada", "-c", "user.email=ada@lab.example")
    made = place.path / ".claude/worktrees/fix"
    for line in (
        ("init", "-q"),
        (*identity, "commit", "-q", "--allow-empty", "-m", "begin"),
        ("worktree", "add", "-q", str(made)),
    ):
        subprocess.run(["git", "-C", str(place.path), *line], check=True)
    return made


@pytest.mark.parametrize("name", TAKING)
def test_command_that_reads_files_is_refused_in_another_work_tree(
    place: Place, tree: Path, name: str
) -> None:
    """The command would use the files of the root instead of those that the caller edited."""
    write_plan(tree)
    before = place.version()
    refused = wfctl("-o", "json", *TAKING[name], cwd=tree)
    assert (refused.code, refused.error["code"]) == (2, "invalid_option"), refused
    assert f"Add --root {place.path}" in refused.error["message"]
    assert place.version() == before
    named = wfctl("-o", "json", "--root", str(place.path), *TAKING[name], "--help", cwd=tree)
    assert named.code == 0


def test_read_in_another_work_tree_names_its_root(place: Place, tree: Path) -> None:
    """A command that reads prints a message that names the root in use."""
    root = f"wfctl: the root is {place.path}, in another work tree of this repository"
    assert root in wfctl("status", cwd=tree).err
    assert root in wfctl("note", "seen", cwd=tree).err
    assert root not in wfctl("--root", str(place.path), "status", cwd=tree).err
    clone = place.path / "clone"
    subprocess.run(["git", "clone", "-q", str(place.path), str(clone)], check=True)
    below = place.path / "below"
    below.mkdir()
    for folder in (place.path, below, clone):
        assert root not in wfctl("status", cwd=folder).err
        assert wfctl("run", "--dry-run", cwd=folder).code == 0
