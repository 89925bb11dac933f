"""A full scratch disk: the stage waits, or its failure names the file system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, write_plan
from tests.cli.test_disk import Disk, small_disk

pytestmark = [pytest.mark.slow, pytest.mark.root]

#: Bytes of a file system that holds the files of one small job.
SIZE = 600_000


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Disk]:
    """Make a small file system in which jobs work."""
    with small_disk(tmp_path / "scratch", SIZE) as disk:
        yield disk


def made(folder: Path, scratch: Disk, command: str, **more: Any) -> Place:
    """Make a workflow of one stage whose job works in the scratch folder."""
    config = {"batch_type": "Shell", "context_type": "LocalContext", "local_root": "./"}
    profile = {"config": {**config, "remote_root": str(scratch.path)}}
    stage = {
        "id": "stage-1",
        "name": "Build",
        "backend": "disk",
        "outputs": ["stage-1/tasks.csv" if more else "stage-1/out.txt"],
        "parameters": {"command": command, **more},
    }
    plan = {
        "workflow_id": "w",
        "purpose": "See a disk fill up.",
        "default_backend": "disk",
        "backend_profiles": {"disk": profile},
        "stages": [stage],
    }
    place = Place(folder / "root")
    place.path.mkdir()
    place.done("init", str(write_plan(folder, plan)), "--consent", "trust")
    return place


MAP = {"map": {"grid": {"x": [1, 2]}}, "task_outputs": ["out.txt"]}


@pytest.mark.parametrize("more", [{}, MAP], ids=["stage", "task"])
def test_a_stage_waits_for_room_on_a_full_scratch_disk_and_spends_no_retry(
    tmp_path: Path, scratch: Disk, more: dict[str, Any]
) -> None:
    """The first line names the file system; `run` tries again once there is room."""
    place = made(tmp_path, scratch, "echo hi > out.txt", **more)
    scratch.fill()
    for _ in range(2):
        answer = place.call("run")
        first = next(line for line in answer.out.splitlines() if line.startswith("blocked"))
        assert f"no room is left on the file system {scratch.path} (0 bytes free)" in first
        assert answer.code == 6
    stage = place.done("show", "stage-1")
    assert (stage["status"], stage["retry_count"]) == ("preparing", 0)
    scratch.make_room()
    assert place.call("run").code == 0
    assert place.done("show", "stage-1")["retry_count"] == 0


def test_a_submission_that_needs_more_than_the_free_room_waits_too(
    tmp_path: Path, scratch: Disk
) -> None:
    """Free bytes alone do not tell whether the submission fits; each `run` tries it."""
    place = made(tmp_path, scratch, "echo hi > out.txt")
    scratch.leave(4096)
    assert place.call("run").code == 6
    assert "stage.failed" not in place.types()
    scratch.make_room()
    assert place.call("run").code == 0


FILLS = {
    "words in err": "head -c 1000000 /dev/zero > big && : > out.txt || { rm big; "
    "echo x: No space left on device >&2; exit 3; }",
    "no words": "head -c 1000000 /dev/zero > big 2> /dev/null; exit 0",
    "no room for words": "head -c 1000000 /dev/zero > out.txt",
}


@pytest.mark.parametrize(
    ("name", "more"), [*((name, {}) for name in sorted(FILLS)), ("words in err", MAP)]
)
def test_the_failure_of_a_job_that_filled_its_disk_names_the_file_system(
    tmp_path: Path, scratch: Disk, name: str, more: dict[str, Any]
) -> None:
    """Whether the job could say so, said nothing, or found no room to say it."""
    place = made(tmp_path, scratch, FILLS[name], **more)
    assert place.call("run").code == 6
    stage = place.done("show", "stage-1")
    assert stage["status"] == "failed"
    failed = place.done("events", "--type", "stage.failed")[-1]["data"]
    assert failed["category"] == "resource"
    assert f"the file system {scratch.path} (" in stage["last_error"] + failed["because"]


def test_a_full_root_is_named_with_its_free_bytes(scratch: Disk, tmp_path: Path) -> None:
    """The log cannot be written; the same command goes through once there is room."""
    place = Disk(scratch.path)
    place.done("init", str(write_plan(tmp_path)), "--consent", "trust")
    place.fill()
    answer = place.call("note", "x" * 20_000)
    assert f"no room is left on the file system {scratch.path} (0 bytes free)" in answer.err
    place.make_room()
    assert place.call("note", "x" * 20_000).code == 0


def test_a_full_folder_for_temporary_files_fails_no_stage(
    tmp_path: Path, scratch: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """wfctl writes there while it prepares a submission; the stage waits as it was."""
    place = made(tmp_path, scratch, f"echo hi > out.txt # {'x' * 20_000}")
    scratch.leave(4096)
    monkeypatch.setattr("tempfile.tempdir", str(scratch.path))
    answer = place.call("run")
    monkeypatch.undo()
    assert answer.code == 6
    assert "no room is left on the file system" in answer.out.splitlines()[0], answer
    assert place.done("show", "stage-1")["status"] == "ready"
    scratch.make_room()
    assert place.call("run").code == 0
