"""A full scratch disk: the stage waits, or its failure names the file system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, tree, write_plan
from tests.cli.test_disk import Disk, small_disk

pytestmark = [pytest.mark.slow, pytest.mark.root]

#: Size in bytes of a file system that is just large enough for the files of one small job.
SIZE = 600_000


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Disk]:
    """Create a small file system as the work folder of jobs."""
    with small_disk(tmp_path / "scratch", SIZE) as disk:
        yield disk


def made(folder: Path, scratch: Disk, command: str, **more: Any) -> Place:
    """Create a workflow of one stage whose job runs in the scratch folder."""
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
def test_stage_waits_for_space_on_a_full_scratch_disk(
    tmp_path: Path, scratch: Disk, more: dict[str, Any]
) -> None:
    """`run` names the file system, and a later `run` tries again without counting a retry."""
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


@pytest.mark.long
def test_submission_larger_than_the_free_space_waits(tmp_path: Path, scratch: Disk) -> None:
    """Each `run` tries the submission, because the free bytes do not show whether it fits."""
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
    "no words and exit 1": "head -c 1000000 /dev/zero > big 2> /dev/null; exit 1",
    "no room for words": "head -c 1000000 /dev/zero > out.txt",
}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "more"), [(name, more) for name in sorted(FILLS) for more in ({}, MAP)]
)
def test_failure_of_a_job_that_filled_its_disk_names_the_file_system(
    tmp_path: Path, scratch: Disk, name: str, more: dict[str, Any]
) -> None:
    """The failure names the disk even if the job printed no error message."""
    place = made(tmp_path, scratch, FILLS[name], **more)
    assert place.call("run").code == 6
    stage = place.done("show", "stage-1")
    assert stage["status"] == "failed"
    failed = place.done("events", "--type", "stage.failed")[-1]["data"]
    assert failed["category"] == "resource"
    assert f"the file system {scratch.path} (" in stage["last_error"] + failed["because"]


def test_full_root_is_reported_with_its_free_bytes(scratch: Disk, tmp_path: Path) -> None:
    """The command reports the free bytes, and succeeds after space is freed."""
    place = Disk(scratch.path)
    place.done("init", str(write_plan(tmp_path)), "--consent", "trust")
    place.fill()
    answer = place.call("note", "x" * 20_000)
    full = f"no room is left on the file system {scratch.path} (0 bytes free)"
    assert full in answer.err
    before = tree(place.path)
    assert full in place.call("status").out
    assert full in "".join(one["text"] for one in place.done("status")["account"])
    assert tree(place.path) == before
    place.make_room()
    assert "no room" not in place.call("status").out
    assert place.call("note", "x" * 20_000).code == 0


def test_full_temporary_folder_fails_no_stage(
    tmp_path: Path, scratch: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage stays ready if wfctl cannot prepare a submission in the temporary folder."""
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
