"""The files are a cache: whatever happens to them, the next write makes them what the log says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.support import Place, tree
from tests.service.support import FILES, files_of, record_only

BROKEN = ["", "{", "[]", '{"files": {}}', '{"head": {}, "files": {"progress.log": 3}}', "\x00"]


def test_what_a_crash_left_unshown_is_shown_by_the_next_write(place: Place) -> None:
    """In its place, before the line of the write that shows it."""
    before = place.log()
    shown = record_only(place, "one", "two")
    assert place.log() == before
    assert len(place.done("status")["files"]) == 2
    place.done("note", "three")
    assert place.log().startswith(before + "".join(shown))
    assert place.log().endswith("] three\n")
    assert place.done("status")["files"] == []
    assert place.call("replay", "--check").code == 0


def test_a_repeated_command_shows_what_its_first_try_could_not(place: Place) -> None:
    """The caller that saw the crash repeats its line, and the files are in order again."""
    place.done("note", "hello", "--command-id", "key-1")
    shown = record_only(place, "one")
    assert place.done("note", "hello", "--command-id", "key-1")["repeated"] is True
    assert place.log().endswith(shown[0])
    assert place.call("replay", "--check").code == 0


LINE = "[2026-04-01T12:00:00+00:00] äö\n".encode()


@pytest.mark.parametrize("cut", range(len(LINE) + 1))
def test_a_line_torn_at_any_byte_is_made_whole(place: Place, cut: int) -> None:
    """A crash while the log was written: no line twice, none broken, none missing."""
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
def test_an_append_of_several_lines_torn_anywhere_is_made_whole(
    place: Place, whole: int, cut: int
) -> None:
    """Some lines were written, one in part."""
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
def test_what_others_append_to_the_log_stays_where_it_is(place: Place, foreign: str) -> None:
    """Byte for byte, and what wfctl writes next begins on a line of its own."""
    before = place.log()
    with (place.path / "progress.log").open("a", encoding="utf-8") as log:
        log.write(foreign)
    place.done("note", "then")
    place.done("note", "last")
    assert place.log().startswith(before + foreign)
    assert place.log().splitlines()[-1].endswith("] last")
    assert place.log().count("] then\n") == place.log().count("] last\n") == 1


def test_a_foreign_line_between_ours_after_a_crash_loses_none(place: Place) -> None:
    """Somebody wrote while we crashed: both their line and ours are there, once."""
    expected = record_only(place, "one", "two")
    with (place.path / "progress.log").open("a") as log:
        log.write(f"{expected[0]}I was here\n")
    place.done("note", "then")
    lines = place.log().splitlines(keepends=True)
    for line in (*expected, "I was here\n"):
        assert lines.count(line) == 1
    assert lines[-1].endswith("] then\n")


def test_a_state_that_somebody_edited_is_kept_before_it_is_written_anew(place: Place) -> None:
    """Under ``.wfctl/drift``, byte for byte; a second edit is kept beside the first."""
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


def test_a_state_that_is_no_json_is_kept_too(place: Place) -> None:
    """Whatever it was, it was somebody's."""
    (place.path / "workflow-state.json").write_bytes(b"\xff\x00 not mine")
    place.done("note", "then")
    kept = [p.read_bytes() for p in (place.path / ".wfctl/drift").rglob("*") if p.is_file()]
    assert b"\xff\x00 not mine" in kept
    assert place.call("replay", "--check").code == 0


@pytest.mark.parametrize("content", [None, *BROKEN], ids=repr)
def test_a_lost_or_broken_sync_file_loses_and_repeats_nothing(
    place: Place, content: str | None
) -> None:
    """What the files show is then found out by looking at them."""
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
def test_a_file_that_is_gone_comes_back_whole(place: Place, name: str) -> None:
    """With the next write, or by the rebuild."""
    place.done("note", "one")
    (place.path / name).unlink()
    place.done("note", "two")
    assert place.call("replay", "--check").code == 0


def test_a_rebuild_in_a_copy_without_the_files_makes_the_same_bytes(
    place: Place, tmp_path: Path
) -> None:
    """The log alone holds everything that the files show."""
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


def test_a_rebuild_of_files_that_are_right_writes_nothing(place: Place) -> None:
    """And says so."""
    before = files_of(place)
    marks = [(place.path / name).stat().st_mtime_ns for name in FILES]
    assert place.done("replay", "--rebuild")["written"] == []
    assert files_of(place) == before
    assert [(place.path / name).stat().st_mtime_ns for name in FILES] == marks


def test_the_log_is_appended_in_place(place: Place) -> None:
    """Anyone who follows it with ``tail -f`` goes on seeing it."""
    before = (place.path / "progress.log").stat().st_ino
    place.done("note", "one")
    assert (place.path / "progress.log").stat().st_ino == before
