"""Exit markers name their attempt, inputs are checked, and old files are moved away."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from reconciler.attempt import file_digests, markers
from reconciler.attempt.markers import MarkerState
from reconciler.errors import EmptyInput, MissingInput

TAG = "wf/stage-1/att-0002"


@pytest.mark.parametrize(
    ("text", "seen", "code"),
    [
        (f"0\n{TAG} 2026-05-04T12:00:00.000000Z\n", MarkerState.OWN, 0),
        (f"137\n{TAG} 2026-05-04T12:00:00.000000Z\n", MarkerState.OWN, 137),
        ("0\nwf/stage-1/att-0001 2026-05-04T12:00:00.000000Z\n", MarkerState.OTHER, 0),
        ("0\nother/stage-1/att-0002 2026-05-04T12:00:00.000000Z\n", MarkerState.OTHER, 0),
        ("", MarkerState.UNREADABLE, None),
        ("0\n", MarkerState.UNREADABLE, 0),
        (f"0\n{TAG} 2026-05", MarkerState.UNREADABLE, 0),
        (f"x\n{TAG} now\n", MarkerState.UNREADABLE, None),
    ],
)
def test_marker_names_its_attempt(
    tmp_path: Path, text: str, seen: MarkerState, code: int | None
) -> None:
    """wfctl distinguishes markers of this attempt, of another one, and unreadable ones."""
    path = tmp_path / "DPDISP_EXIT_CODE"
    path.write_text(text)
    found = markers.read_marker(path, TAG)
    assert (found.seen, found.code) == (seen, code)


def test_missing_marker_is_not_unreadable(tmp_path: Path) -> None:
    """A marker file that does not exist is reported as NONE."""
    assert markers.read_marker(tmp_path / "DPDISP_DONE", TAG).seen is MarkerState.NONE


def test_inputs_are_recorded_with_digest_and_size(tmp_path: Path) -> None:
    """The record of an input has the SHA-256 digest and the size of the file."""
    (tmp_path / "x.json").write_bytes(b"{}")
    [found] = file_digests.digest_stage_inputs(tmp_path, ["x.json"])
    assert (found.sha256, found.size) == (hashlib.sha256(b"{}").hexdigest(), 2)


def test_digest_of_a_folder_depends_on_names_and_contents(tmp_path: Path) -> None:
    """Renaming a file inside an input folder changes the digest."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"1")
    [before] = file_digests.digest_stage_inputs(tmp_path, ["in"])
    (tmp_path / "in" / "a").rename(tmp_path / "in" / "b")
    [after] = file_digests.digest_stage_inputs(tmp_path, ["in"])
    assert before.size == after.size == 1
    assert before.sha256 != after.sha256


def test_missing_input_is_named_in_the_error(tmp_path: Path) -> None:
    """The error for a missing input contains its path."""
    with pytest.raises(MissingInput, match=r"stage-1/x\.json"):
        file_digests.digest_stage_inputs(tmp_path, ["stage-1/x.json"])


@pytest.mark.parametrize("folder", [True, False])
def test_empty_input_is_refused(tmp_path: Path, folder: bool) -> None:
    """wfctl refuses an empty input file and an empty input folder."""
    (tmp_path / "in").mkdir() if folder else (tmp_path / "in").touch()
    with pytest.raises(EmptyInput):
        file_digests.digest_stage_inputs(tmp_path, ["in"])


def test_old_outputs_and_markers_move_to_their_attempt(tmp_path: Path) -> None:
    """wfctl moves the files to the earlier attempt's folder and empties the stage folder."""
    (tmp_path / "stage-1").mkdir()
    for name in ("out.txt", "DPDISP_EXIT_CODE", "DPDISP_DONE", "log"):
        (tmp_path / "stage-1" / name).write_text(name)
    moved = markers.move_stale_files_aside(tmp_path, "stage-1", ["stage-1/out.txt"], "att-0001")
    kept = tmp_path / "stage-1/.attempts/att-0001/kept/stage-1"
    assert sorted(moved) == sorted(f"stage-1/{path.name}" for path in kept.iterdir())
    assert (kept / "out.txt").read_text() == "out.txt"
    assert [path.name for path in (tmp_path / "stage-1").iterdir()] == [".attempts"]


def test_kept_files_are_never_overwritten(tmp_path: Path) -> None:
    """A second old file with the same name is kept next to the first one."""
    for text in ("first", "second", "third"):
        (tmp_path / "stage-1").mkdir(exist_ok=True)
        (tmp_path / "stage-1/out.txt").write_text(text)
        markers.move_stale_files_aside(tmp_path, "stage-1", ["stage-1/out.txt"], None)
    kept = tmp_path / "stage-1/.attempts/none/kept/stage-1"
    assert {path.read_text() for path in kept.iterdir()} == {"first", "second", "third"}


def test_stage_without_old_files_needs_no_cleanup(tmp_path: Path) -> None:
    """The cleanup moves no file and creates no folder."""
    assert (
        markers.move_stale_files_aside(tmp_path, "stage-1", ["stage-1/out.txt"], "att-0001") == ()
    )
    assert list(tmp_path.iterdir()) == []
