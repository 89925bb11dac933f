"""Markers and who they belong to; inputs at a launch; room for a new attempt."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from reconciler.attempt import markers
from reconciler.attempt.markers import SeenMarker
from reconciler.errors import EmptyInput, MissingInput

TAG = "wf/stage-1/att-0002"


@pytest.mark.parametrize(
    ("text", "seen", "code"),
    [
        (f"0\n{TAG} 2026-05-04T12:00:00.000000Z\n", SeenMarker.OWN, 0),
        (f"137\n{TAG} 2026-05-04T12:00:00.000000Z\n", SeenMarker.OWN, 137),
        ("0\nwf/stage-1/att-0001 2026-05-04T12:00:00.000000Z\n", SeenMarker.OTHER, 0),
        ("0\nother/stage-1/att-0002 2026-05-04T12:00:00.000000Z\n", SeenMarker.OTHER, 0),
        ("", SeenMarker.UNREADABLE, None),
        ("0\n", SeenMarker.UNREADABLE, 0),
        (f"0\n{TAG} 2026-05", SeenMarker.UNREADABLE, 0),
        (f"x\n{TAG} now\n", SeenMarker.UNREADABLE, None),
    ],
)
def test_a_marker_says_whose_it_is(
    tmp_path: Path, text: str, seen: SeenMarker, code: int | None
) -> None:
    """Own, another's, and anything half-written or empty are told apart."""
    path = tmp_path / "DPDISP_EXIT_CODE"
    path.write_text(text)
    found = markers.read(path, TAG)
    assert (found.seen, found.code) == (seen, code)


def test_no_marker_is_none(tmp_path: Path) -> None:
    """A marker that is not there is not an unreadable one."""
    assert markers.read(tmp_path / "DPDISP_DONE", TAG).seen is SeenMarker.NONE


def test_inputs_are_told_by_digest_and_size(tmp_path: Path) -> None:
    """Each input comes with the SHA-256 and the size of what was there."""
    (tmp_path / "x.json").write_bytes(b"{}")
    [found] = markers.check_inputs(tmp_path, ["x.json"])
    assert (found.sha256, found.size) == (hashlib.sha256(b"{}").hexdigest(), 2)


def test_a_folder_is_told_by_names_and_contents(tmp_path: Path) -> None:
    """A file renamed inside an input folder changes the folder's digest."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"1")
    [before] = markers.check_inputs(tmp_path, ["in"])
    (tmp_path / "in" / "a").rename(tmp_path / "in" / "b")
    [after] = markers.check_inputs(tmp_path, ["in"])
    assert before.size == after.size == 1
    assert before.sha256 != after.sha256


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    """An input that is not there is an error that names it."""
    with pytest.raises(MissingInput, match=r"stage-1/x\.json"):
        markers.check_inputs(tmp_path, ["stage-1/x.json"])


@pytest.mark.parametrize("folder", [True, False])
def test_an_empty_input_is_refused(tmp_path: Path, folder: bool) -> None:
    """Neither an empty file nor an empty folder is something to compute from."""
    (tmp_path / "in").mkdir() if folder else (tmp_path / "in").touch()
    with pytest.raises(EmptyInput):
        markers.check_inputs(tmp_path, ["in"])


def test_old_outputs_and_markers_go_to_the_attempt_they_belong_to(tmp_path: Path) -> None:
    """What an earlier attempt left is kept in its folder and no longer in the way."""
    (tmp_path / "stage-1").mkdir()
    for name in ("out.txt", "DPDISP_EXIT_CODE", "DPDISP_DONE", "log"):
        (tmp_path / "stage-1" / name).write_text(name)
    moved = markers.clear_stale(tmp_path, "stage-1", ["stage-1/out.txt"], "att-0001")
    kept = tmp_path / "stage-1/.attempts/att-0001/kept/stage-1"
    assert sorted(moved) == sorted(f"stage-1/{path.name}" for path in kept.iterdir())
    assert (kept / "out.txt").read_text() == "out.txt"
    assert [path.name for path in (tmp_path / "stage-1").iterdir()] == [".attempts"]


def test_what_was_kept_before_is_never_overwritten(tmp_path: Path) -> None:
    """A second file of the same name is kept beside the first."""
    for text in ("first", "second", "third"):
        (tmp_path / "stage-1").mkdir(exist_ok=True)
        (tmp_path / "stage-1/out.txt").write_text(text)
        markers.clear_stale(tmp_path, "stage-1", ["stage-1/out.txt"], None)
    kept = tmp_path / "stage-1/.attempts/none/kept/stage-1"
    assert {path.read_text() for path in kept.iterdir()} == {"first", "second", "third"}


def test_a_stage_that_left_nothing_needs_no_room(tmp_path: Path) -> None:
    """Nothing is moved and no folder made if nothing lies."""
    assert markers.clear_stale(tmp_path, "stage-1", ["stage-1/out.txt"], "att-0001") == ()
    assert list(tmp_path.iterdir()) == []
