"""Moving a stage folder aside can be interrupted at any time and repeated."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.files.kept_folder import KeptFolderTaken, move_stage_to_kept_folder
from service.root import atomic_files

OUTPUTS = ("stage-1/out.txt", "stage-1/deep/out.bin")


class Interrupted(Exception):
    """The simulated death of the process."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create the folder of a stage that has run."""
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
    """Return whether the results are kept and the inputs of the next run are in place."""
    return (
        (root / "stage-1.v1/out.txt").read_text() == "result"
        and (root / "stage-1.v1/.attempts/att-0001/submission.json").exists()
        and files(root / "stage-1") == {"in.melt", "submission.json", "deep/table", "link"}
    )


def test_results_are_moved_and_inputs_are_copied(root: Path) -> None:
    """Outputs, marker files and attempt records are not copied back to the stage folder."""
    move_stage_to_kept_folder(root, "stage-1", "stage-1.v1", OUTPUTS)
    assert is_kept(root)
    assert {path.name for path in root.iterdir()} == {"stage-1", "stage-1.v1"}


def test_repeated_move_changes_nothing(root: Path) -> None:
    """A second call of the move to the same folder, as after a crash, changes nothing."""
    move_stage_to_kept_folder(root, "stage-1", "stage-1.v1", OUTPUTS)
    (root / "stage-1/new").write_text("made since")
    move_stage_to_kept_folder(root, "stage-1", "stage-1.v1", OUTPUTS)
    assert (root / "stage-1/new").exists()


def test_second_move_uses_a_new_folder(root: Path) -> None:
    """The folder of the first move is unchanged."""
    move_stage_to_kept_folder(root, "stage-1", "stage-1.v1", OUTPUTS)
    (root / "stage-1/out.txt").write_text("second")
    move_stage_to_kept_folder(root, "stage-1", "stage-1.v2", OUTPUTS)
    assert (root / "stage-1.v1/out.txt").read_text() == "result"
    assert (root / "stage-1.v2/out.txt").read_text() == "second"
    assert not (root / "stage-1/out.txt").exists()


def test_stage_without_a_folder_needs_no_move(tmp_path: Path) -> None:
    """If the stage folder does not exist, the move creates no folder."""
    move_stage_to_kept_folder(tmp_path, "stage-1", "stage-1.v1", OUTPUTS)
    assert list(tmp_path.iterdir()) == []


def test_existing_folder_is_not_overwritten(root: Path) -> None:
    """The move is refused if a user created the target folder after the approval."""
    (root / "stage-1.v1").mkdir()
    with pytest.raises(KeptFolderTaken):
        move_stage_to_kept_folder(root, "stage-1", "stage-1.v1", OUTPUTS)
    assert (root / "stage-1/out.txt").read_text() == "result"


@pytest.mark.parametrize("name", ["../elsewhere", "stage-1", "/stage-1.v1", "stage-1.v1/x"])
def test_invalid_name_of_a_kept_folder_is_refused(root: Path, name: str) -> None:
    """The name comes from the log and could lead out of the root."""
    with pytest.raises(ValueError, match="must be the ID of a stage"):
        move_stage_to_kept_folder(root, "stage-1", name, OUTPUTS)


def _dying(real: Callable[..., Any], countdown: list[int]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        countdown[0] -= 1
        if countdown[0] == 0:
            raise Interrupted
        return real(*arguments, **named)

    return call


@pytest.mark.parametrize("step", range(1, 12))
def test_interrupted_move_is_finished_by_the_next_call(
    step: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interruption before any disk write, a second call completes the move."""
    countdown = [step]
    with monkeypatch.context() as during:
        during.setattr(Path, "rename", _dying(Path.rename, countdown))
        for name in ("write_whole", "sync_folder"):
            real = getattr(atomic_files, name)
            during.setattr(f"reconciler.files.kept_folder.{name}", _dying(real, countdown))
        during.setattr(os, "fsync", _dying(os.fsync, countdown))
        with contextlib.suppress(Interrupted):
            move_stage_to_kept_folder(root, "stage-1", "stage-1.v1", OUTPUTS)
    move_stage_to_kept_folder(root, "stage-1", "stage-1.v1", OUTPUTS)
    assert is_kept(root)
    assert {path.name for path in root.iterdir()} == {"stage-1", "stage-1.v1"}
