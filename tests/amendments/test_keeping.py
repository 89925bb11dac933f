"""Keeping a stage's folder: whatever moment it is interrupted at, it is taken up and ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.files.clearing import KeptFolderTaken, keep
from service.root import disk

OUTPUTS = ("stage-1/out.txt", "stage-1/deep/out.bin")


class Interrupted(Exception):
    """Stands for the death of the process."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a stage that has run."""
    stage = tmp_path / "stage-1"
    (stage / ".attempts/att-0001").mkdir(parents=True)
    (stage / "deep").mkdir()
    contents = {
        "in.melt": "input",
        "submission.json": "{}",
        "out.txt": "result",
        "deep/out.bin": "result",
        "deep/table": "input",
        "DPDISP_DONE": "0",
        "DPDISP_EXIT_CODE": "0",
        "log": "said",
        ".attempts/att-0001/submission.json": "{}",
    }
    for name, content in contents.items():
        (stage / name).write_text(content)
    (stage / "link").symlink_to("in.melt")
    return tmp_path


def files(folder: Path) -> set[str]:
    """Return the paths of all files below a folder."""
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir()}


def is_kept(root: Path) -> bool:
    """Say whether results are kept whole and what the next run needs is in place."""
    return (
        (root / "stage-1.v1/out.txt").read_text() == "result"
        and (root / "stage-1.v1/.attempts/att-0001/submission.json").exists()
        and files(root / "stage-1") == {"in.melt", "submission.json", "deep/table", "link"}
    )


def test_results_are_kept_and_what_a_run_needs_is_copied(root: Path) -> None:
    """All but outputs, markers and the records of attempts."""
    keep(root, "stage-1", "stage-1.v1", OUTPUTS)
    assert is_kept(root)
    assert {path.name for path in root.iterdir()} == {"stage-1", "stage-1.v1"}


def test_keeping_again_changes_nothing(root: Path) -> None:
    """A crash came before the next attempt was recorded."""
    keep(root, "stage-1", "stage-1.v1", OUTPUTS)
    (root / "stage-1/new").write_text("made since")
    keep(root, "stage-1", "stage-1.v1", OUTPUTS)
    assert (root / "stage-1/new").exists()


def test_the_next_keeping_gets_its_own_folder(root: Path) -> None:
    """v1 stays as it is."""
    keep(root, "stage-1", "stage-1.v1", OUTPUTS)
    (root / "stage-1/out.txt").write_text("second")
    keep(root, "stage-1", "stage-1.v2", OUTPUTS)
    assert (root / "stage-1.v1/out.txt").read_text() == "result"
    assert (root / "stage-1.v2/out.txt").read_text() == "second"
    assert not (root / "stage-1/out.txt").exists()


def test_a_stage_without_a_folder_has_nothing_to_keep(tmp_path: Path) -> None:
    """Nothing is made."""
    keep(tmp_path, "stage-1", "stage-1.v1", OUTPUTS)
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_folder_is_never_overwritten(root: Path) -> None:
    """Somebody made one of this name since the approval."""
    (root / "stage-1.v1").mkdir()
    with pytest.raises(KeptFolderTaken):
        keep(root, "stage-1", "stage-1.v1", OUTPUTS)
    assert (root / "stage-1/out.txt").read_text() == "result"


@pytest.mark.parametrize("name", ["../elsewhere", "stage-1", "/stage-1.v1", "stage-1.v1/x"])
def test_only_a_kept_folders_name_is_taken(root: Path, name: str) -> None:
    """A row in the log says where the folder goes; it cannot say anything."""
    with pytest.raises(ValueError, match="expected the id of a stage"):
        keep(root, "stage-1", name, OUTPUTS)


def _dying(real: Callable[..., Any], countdown: list[int]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        countdown[0] -= 1
        if countdown[0] == 0:
            raise Interrupted
        return real(*arguments, **named)

    return call


@pytest.mark.parametrize("step", range(1, 12))
def test_an_interrupted_keeping_is_ended_by_the_next(
    step: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before any step that changes the disk, then called again."""
    countdown = [step]
    with monkeypatch.context() as during:
        during.setattr(Path, "rename", _dying(Path.rename, countdown))
        for name in ("write_whole", "sync_folder"):
            real = getattr(disk, name)
            during.setattr(f"reconciler.files.clearing.{name}", _dying(real, countdown))
        during.setattr(os, "fsync", _dying(os.fsync, countdown))
        with contextlib.suppress(Interrupted):
            keep(root, "stage-1", "stage-1.v1", OUTPUTS)
    keep(root, "stage-1", "stage-1.v1", OUTPUTS)
    assert is_kept(root)
    assert {path.name for path in root.iterdir()} == {"stage-1", "stage-1.v1"}
