"""Generated files are a cache: after damage, the next write restores them from the log."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.support import Place, tree
from tests.service.support import FILES, files_of, record_only

BROKEN = ["", "{", "[]", '{"files": {}}', '{"head": {}, "files": {"progress.log": 3}}', "\x00"]


def test_next_write_shows_events_before_a_crash(place: Place) -> None:
    """wfctl adds the missing lines to progress.log before the line of the new event."""
    before = place.log()
    shown = record_only(place, "one", "two")
    assert place.log() == before
    assert len(place.done("status")["files"]) == 2
    place.done("note", "three")
    assert place.log().startswith(before + "".join(shown))
    assert place.log().endswith("] three\n")
    assert place.done("status")["files"] == []
    assert place.call("replay", "--check").code == 0


def test_repeated_command_repairs_the_files(place: Place) -> None:
    """If the caller repeats its command after a crash, wfctl updates the outdated files."""
    place.done("note", "hello", "--command-id", "key-1")
    shown = record_only(place, "one")
    assert place.done("note", "hello", "--command-id", "key-1")["repeated"] is True
    assert place.log().endswith(shown[0])
    assert place.call("replay", "--check").code == 0


LINE = "[2026-04-01T12:00:00+00:00] äö\n".encode()


@pytest.mark.parametrize("cut", range(len(LINE) + 1))
def test_partly_written_line_is_completed(place: Place, cut: int) -> None:
    """After a crash at any byte of a line, progress.log has each line once and complete."""
    before = (place.path / "progress.log").read_bytes()
    assert record_only(place, "äö")[0].encode() == LINE
    with (place.path / "progress.log").open("ab") as log:
        log.write(LINE[:cut])
    place.done("note", "then")
    content = (place.path / "progress.log").read_bytes()
    assert content.startswith(before + LINE)
    assert content.decode().splitlines()[-1].endswith("] then")
    assert content.count(b"\n") == before.count(b"\n") + 2
    assert place.call("replay", "--check").code == 0


@pytest.mark.parametrize("whole", [0, 1, 2, 3])
@pytest.mark.parametrize("cut", [0, 1, 20])
def test_partly_written_lines_are_completed(place: Place, whole: int, cut: int) -> None:
    """wfctl completes progress.log after several lines were written and one was cut off."""
    before = place.log()
    expected = record_only(place, "one", "two", "three")
    torn = "".join(expected[:whole]) + "".join(expected[whole : whole + 1])[:cut]
    with (place.path / "progress.log").open("a") as log:
        log.write(torn)
    place.done("note", "then")
    assert place.log().startswith(before + "".join(expected))
    assert place.log().count("\n") == before.count("\n") + 4
    assert place.call("replay", "--check").code == 0


@pytest.mark.parametrize("foreign", ["a line\n", "two\nlines\n", "no line break", "äöü \x00\n"])
def test_foreign_text_in_progress_log_is_kept(place: Place, foreign: str) -> None:
    """wfctl leaves the user's text unchanged and starts its next entry on a new line."""
    before = place.log()
    with (place.path / "progress.log").open("a", encoding="utf-8") as log:
        log.write(foreign)
    place.done("note", "then")
    place.done("note", "last")
    assert place.log().startswith(before + foreign)
    assert place.log().splitlines()[-1].endswith("] last")
    assert place.log().count("] then\n") == place.log().count("] last\n") == 1


def test_foreign_line_after_a_crash_loses_no_entry(place: Place) -> None:
    """progress.log has the user's line and each entry of wfctl once."""
    expected = record_only(place, "one", "two")
    with (place.path / "progress.log").open("a") as log:
        log.write(f"{expected[0]}I was here\n")
    place.done("note", "then")
    lines = place.log().splitlines(keepends=True)
    for line in (*expected, "I was here\n"):
        assert lines.count(line) == 1
    assert lines[-1].endswith("] then\n")


def test_edited_state_file_is_saved_before_it_is_overwritten(place: Place) -> None:
    """wfctl saves each edited version under ``.wfctl/drift``, byte for byte."""
    path = place.path / "workflow-state.json"
    edits = []
    for name in ("Edited", "Edited again"):
        state = json.loads(path.read_text("utf-8"))
        state["stages"][0]["name"] = name
        edits.append(json.dumps(state).encode())
        path.write_bytes(edits[-1])
        place.done("note", f"after {name}")
        assert json.loads(path.read_text("utf-8"))["stages"][0]["name"] == "Build"
    kept = [p.read_bytes() for p in (place.path / ".wfctl/drift").rglob("*") if p.is_file()]
    assert set(edits) <= set(kept)


def test_invalid_state_file_is_saved_before_it_is_overwritten(place: Place) -> None:
    """wfctl saves even a state file that is not JSON, because a user may need its content."""
    (place.path / "workflow-state.json").write_bytes(b"\xff\x00 not mine")
    place.done("note", "then")
    kept = [p.read_bytes() for p in (place.path / ".wfctl/drift").rglob("*") if p.is_file()]
    assert b"\xff\x00 not mine" in kept
    assert place.call("replay", "--check").code == 0


@pytest.mark.parametrize("content", [None, *BROKEN], ids=repr)
def test_missing_or_broken_sync_file_is_harmless(place: Place, content: str | None) -> None:
    """Without a valid sync file, wfctl reads the generated files to find their last event."""
    place.done("note", "one")
    expected = record_only(place, "two")
    before = place.log()
    sync = place.path / ".wfctl/sync.json"
    sync.unlink()
    if content is not None:
        sync.write_text(content)
    place.done("note", "three")
    assert place.log().startswith(before + expected[0])
    assert place.log().count("\n") == before.count("\n") + 2
    assert place.call("replay", "--check").code == 0


@pytest.mark.parametrize("name", FILES)
def test_deleted_file_is_restored_by_the_next_write(place: Place, name: str) -> None:
    """wfctl writes the deleted file again with its full content."""
    place.done("note", "one")
    (place.path / name).unlink()
    place.done("note", "two")
    assert place.call("replay", "--check").code == 0


def test_rebuild_of_a_copy_gives_identical_files(place: Place, tmp_path: Path) -> None:
    """`replay --rebuild` writes the same files from a copy that has only the log."""
    for line in (["stage", "prepare", "stage-1"], ["note", "äöü\nzwei"]):
        place.done(*line)
    place.done("stage", "fail", "stage-1", "--error", "it broke")
    copy = Place(tmp_path / "copy")
    ignored = shutil.ignore_patterns(*FILES, "sync.json")
    shutil.copytree(place.path, copy.path, ignore=ignored)
    assert not set(FILES) & set(tree(copy.path))
    assert set(copy.done("replay", "--rebuild")["written"]) == set(FILES)
    assert files_of(copy) == files_of(place)
    assert copy.call("replay", "--check").code == 0


def test_rebuild_does_not_write_correct_files(place: Place) -> None:
    """`replay --rebuild` leaves correct files untouched and reports that it wrote none."""
    before = files_of(place)
    marks = [(place.path / name).stat().st_mtime_ns for name in FILES]
    assert place.done("replay", "--rebuild")["written"] == []
    assert files_of(place) == before
    assert [(place.path / name).stat().st_mtime_ns for name in FILES] == marks


def test_hard_link_of_progress_log_is_not_changed(place: Place) -> None:
    """A hard-linked backup keeps its content, because wfctl continues in a new file."""
    backup = place.path.parent / "backup.log"
    backup.hardlink_to(place.path / "progress.log")
    before = backup.read_bytes()
    place.done("note", "went on")
    assert backup.read_bytes() == before
    (place.path / "progress.log").unlink()
    (place.path / "progress.log").hardlink_to(backup)
    place.done("note", "went on again")
    assert backup.read_bytes() == before
    assert place.notes()[-2:] == ["went on", "went on again"]
    assert "went on again" in place.log()
    assert place.call("replay", "--check").code == 0


def test_progress_log_is_appended_in_place(place: Place) -> None:
    """wfctl adds lines to the same file, so ``tail -f`` continues to show them."""
    before = (place.path / "progress.log").stat().st_ino
    place.done("note", "one")
    assert (place.path / "progress.log").stat().st_ino == before
