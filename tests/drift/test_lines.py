"""Lines that other programs append to ``progress.log``: wfctl records them in order."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.files import drift
from service.files import workflow_files as files
from service.root import atomic_files, sync_record
from tests.cli.support import Place, call, write_plan
from tests.drift.faults import Killed
from tests.drift.support import (
    LOG,
    PLAN,
    append_log,
    check_clean,
    detected,
    external,
    kept,
    log_bytes,
    shown,
)
from tests.service.support import record_only

CONTENT: dict[str, bytes] = {
    "a line": b"looks fine to me\n",
    "a line in the form of ours": b"[2026-04-02 00:00] stage-1 (Build): status -> completed\n",
    "two lines": b"one\ntwo\n",
    "an empty line": b"\n",
    "spaces": b"   \n",
    "no newline": b"torn off",
    "carriage returns": b"one\r\ntwo\r\n",
    "a lone carriage return": b"50%\r100%\n",
    "no UTF-8": b"\xff\xfe caf\xe9\n",
    "zero bytes": b"\x00\x00\x00\n\x00",
    "escape sequences": b"\x1b[31mred\x1b[0m\n",
    "a line separator": "one\u2028two\n".encode(),
    "a surrogate in UTF-8": b"\xed\xa0\x80\n",
    "a byte order mark": b"\xef\xbb\xbfhello\n",
    "a long line": b"x" * 100_000 + b"\n",
    "much binary": bytes(range(256)) * 200,
    "the start of a line of ours": b"[20",
}


@pytest.mark.parametrize("name", CONTENT)
def test_foreign_bytes_are_recorded_and_stay_in_the_file(place: Place, name: str) -> None:
    """Any bytes are kept exactly, and the next line of wfctl starts on a new line."""
    before = log_bytes(place)
    append_log(place, CONTENT[name])
    place.done("note", "ours")
    after = log_bytes(place)
    assert after.startswith(before + CONTENT[name])
    assert after.removeprefix(before + CONTENT[name]).lstrip(b"\n").endswith(b" ours\n")
    assert b"".join(external(place)) == CONTENT[name]
    check_clean(place)


def test_foreign_lines_are_recorded_in_order(place: Place) -> None:
    """Each foreign line becomes one event before the event of the command that found it."""
    append_log(place, b"one\ntwo\n")
    place.done("note", "ours")
    append_log(place, b"three\n")
    place.done("note", "ours again")
    texts = [e["data"]["text"] for e in place.done("events", "--type", "note.logged")]
    assert texts == ["one", "two", "ours", "three", "ours again"]


def test_status_and_drift_show_report_foreign_lines(place: Place) -> None:
    """`status` and `drift show` report unrecorded foreign lines and record no event."""
    append_log(place, b"one\ntwo\n")
    assert any("2 lines" in text for text in place.done("status")["files"])
    [change] = shown(place)
    assert (change["kind"], [d["new"] for d in change["differences"]]) == (
        "appended",
        ["one", "two"],
    )
    assert external(place) == []


def test_line_written_in_two_parts_stays_one_line(place: Place) -> None:
    """If wfctl runs between the two parts of a foreign line, it adds no line break."""
    append_log(place, b"half a ")
    place.done("drift", "revert")
    append_log(place, b"line\n")
    place.done("note", "ours")
    assert b"\nhalf a line\n[" in log_bytes(place)
    assert external(place) == [b"half a ", b"line\n"]
    check_clean(place)


def test_log_from_before_the_workflow_is_continued(place: Place) -> None:
    """The lines of an existing progress.log stay at its start and are recorded first."""
    root = place.path.parent / "second"
    root.mkdir()
    (root / LOG).write_bytes(b"notes of mine\nno newline")
    plan = write_plan(place.path.parent, PLAN, "second.json")
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0
    other = Place(root)
    assert log_bytes(other).startswith(b"notes of mine\nno newline\n[")
    assert b"".join(external(other)) == b"notes of mine\nno newline"
    check_clean(other)


def test_foreign_lines_after_a_crash_keep_their_position(place: Place) -> None:
    """Lines appended before the repair stay in front of the lines that the crash delayed."""
    before = log_bytes(place)
    (line,) = record_only(place, "held back")
    append_log(place, b"meanwhile\n")
    place.done("note", "after")
    found = log_bytes(place).removeprefix(before)
    assert found.startswith(b"meanwhile\n" + line.encode())
    check_clean(place)


@pytest.mark.parametrize("upto", [1, 10, 27, -1])
def test_torn_line_of_wfctl_is_completed(place: Place, upto: int) -> None:
    """wfctl completes its own line that a crash cut off, without a foreign line."""
    before = log_bytes(place)
    (line,) = record_only(place, "torn")
    append_log(place, line.encode()[:upto])
    place.done("note", "after")
    assert log_bytes(place).startswith(before + line.encode() + b"[")
    assert external(place) == []
    check_clean(place)


def test_torn_line_with_foreign_text_is_written_again(place: Place) -> None:
    """If foreign text follows a cut line of wfctl, the mixed line is recorded as foreign.

    wfctl then writes its own line again.
    """
    (line,) = record_only(place, "torn")
    append_log(place, line.encode()[:10] + b"somebody else\n")
    place.done("note", "after")
    assert external(place) == [line.encode()[:10] + b"somebody else\n"]
    assert log_bytes(place).count(line.encode()) == 1
    check_clean(place)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a byte changed": lambda content: content.replace(b"created", b"CREATED", 1),
    "a line removed": lambda content: content.split(b"\n", 1)[1],
    "a line put in": lambda content: b"first!\n" + content,
    "other line ends": lambda content: content.replace(b"\n", b"\r\n"),
    "written over": lambda _: b"oops\n",
    "a byte appended to the middle of the last line": lambda c: c[:-3] + b"x" + c[-3:],
}


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("renamed", [False, True], ids=["in place", "by another file"])
def test_change_inside_the_log_is_kept_reported_and_undone(
    place: Place, name: str, renamed: bool
) -> None:
    """wfctl restores the file from the log and keeps a copy of the foreign version."""
    before = log_bytes(place)
    foreign = DAMAGE[name](before)
    if renamed:
        (place.path / "other").write_bytes(foreign)
        (place.path / "other").rename(place.path / LOG)
    else:
        (place.path / LOG).write_bytes(foreign)
    assert any(LOG in text for text in place.done("status")["files"])
    assert [change["file"] for change in shown(place)] == [LOG]
    place.done("note", "ours")
    [drift] = detected(place)
    assert (drift["file"], drift["kind"]) == (LOG, "changed")
    assert drift["differences"]
    assert kept(place) == [foreign]
    assert log_bytes(place).startswith(before)
    check_clean(place)


@pytest.mark.parametrize("left", [None, 0, 1, 40, -1])
def test_deleted_or_truncated_log_is_restored(place: Place, left: int | None) -> None:
    """wfctl restores the file, records the loss, and keeps no copy."""
    before = log_bytes(place)
    (place.path / LOG).unlink()
    if left is not None:
        (place.path / LOG).write_bytes(before[:left])
    assert any(LOG in text for text in place.done("status")["files"])
    place.done("note", "ours")
    assert [d["kind"] for d in detected(place)] == ["missing" if left is None else "truncated"]
    assert kept(place) == []
    assert log_bytes(place).startswith(before)
    check_clean(place)


def test_log_file_is_repaired_in_place(place: Place) -> None:
    """A job that has the file open for appending can continue to write to the file."""
    with (place.path / LOG).open("ab") as writer:
        (place.path / LOG).write_bytes(b"oops\n")
        place.done("note", "ours")
        writer.write(b"a job goes on\n")
    place.done("note", "after")
    assert external(place) == [b"a job goes on\n"]
    check_clean(place)


@pytest.mark.parametrize("name", DAMAGE)
def test_reader_sees_no_missing_lines_during_a_repair(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The file is never shorter than the shorter one of the damaged and the repaired version."""
    before = log_bytes(place)
    foreign = DAMAGE[name](before)
    (place.path / LOG).write_bytes(foreign)
    seen: list[bytes] = []
    for step in ("fstat", "write", "ftruncate", "fsync"):
        monkeypatch.setattr(os, step, _looking(getattr(os, step), place, seen))
    place.done("note", "ours")
    assert seen
    assert min(map(len, seen)) >= min(len(foreign), len(before))


def _looking(call: Callable[..., Any], place: Place, seen: list[bytes]) -> Callable[..., Any]:
    def looked(*arguments: Any) -> Any:
        seen.append(log_bytes(place))
        return call(*arguments)

    return looked


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("part", [0.0, 0.3, 0.7, 1.0])
def test_crash_during_a_repair_is_not_a_second_edit(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str, part: float
) -> None:
    """If a repair was cut off, the next repair still reports only the one foreign edit."""
    before = log_bytes(place)
    foreign = DAMAGE[name](before)
    (place.path / LOG).write_bytes(foreign)

    def cut_off(path: Path, content: bytes, _: object) -> None:
        upto = int(len(content) * part)
        path.write_bytes(content[:upto] + foreign[upto:])
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(files, "overwrite_in_place", cut_off)
        with pytest.raises(Killed):
            place.call("note", "killed")
    place.done("note", "ours")
    assert len(detected(place)) == 1
    assert kept(place) == [foreign]
    assert external(place) == []
    assert log_bytes(place).startswith(before)
    check_clean(place)


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("line", [["note", "ours"], ["replay", "--rebuild"]], ids=" ".join)
def test_lines_appended_during_a_repair_are_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str, line: list[str]
) -> None:
    """Bytes that a job appends during the repair are in the file or in a kept copy."""
    before = log_bytes(place)
    foreign = DAMAGE[name](before)
    (place.path / LOG).write_bytes(foreign)
    real, parts = atomic_files._write_all, iter([b"a job goes on\n"])

    def write(descriptor: int, content: bytes) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink() == place.path / LOG:
            append_log(place, next(parts, b""))
        real(descriptor, content)

    monkeypatch.setattr(atomic_files, "_write_all", write)
    place.done(*line)
    assert b"a job goes on\n" in b"".join([log_bytes(place), *kept(place)])
    assert foreign in kept(place)
    assert log_bytes(place).startswith(before)
    # The foreign text may follow part of a wfctl line that a crash cut off, so only its end is
    # compared.
    assert [note[-14:] for note in external(place)] in ([], [b"a job goes on\n"])
    check_clean(place)


@pytest.mark.slow
def test_continuous_foreign_appends_lose_no_line(place: Place) -> None:
    """No line is lost if a shell appends lines in a loop while wfctl writes notes."""
    script = f"for i in $(seq 400); do echo line $i >> '{place.path / LOG}'; done"
    writer = threading.Thread(target=subprocess.run, args=(["bash", "-c", script],))
    writer.start()
    for number in range(15):
        place.done("note", f"ours {number}")
    writer.join()
    place.done("note", "last")
    assert b"".join(external(place)) == b"".join(b"line %d\n" % n for n in range(1, 401))
    check_clean(place)


def test_external_notes_cannot_be_appended_by_command(place: Place) -> None:
    """`wfctl append` refuses a note that claims to come from another program's line."""
    for data in ({"text": "x", "kind": "external"}, {"text": "x", "raw": "eA=="}):
        answer = place.json("append", "note.logged", "--data", json.dumps(data))
        assert (answer.code, answer.error["code"]) == (5, "no_command")


def test_append_hashes_only_the_newest_part_of_a_long_log(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """wfctl hashes the older part of progress.log once, and trusts it if unchanged."""
    append_log(place, b"x" * 5_000_000 + b"\n")
    place.done("note", "taken in")
    hashed: list[int] = []
    real = sync_record.digest

    def counting(content: bytes) -> str:
        hashed.append(len(content))
        return real(content)

    monkeypatch.setattr(sync_record, "digest", counting)
    monkeypatch.setattr(drift, "digest", counting)
    place.done("note", "one")
    place.done("note", "two")
    assert sum(hashed) < 4 * sync_record.NEWER_PART


def test_status_detects_an_old_byte_changed_with_the_same_time_stamp(place: Place) -> None:
    """`status` reads the whole file, and later writes detect the change too."""
    append_log(place, b"x" * 200_000 + b"\n")
    place.done("note", "taken in")
    path, left = place.path / LOG, place.path / ".wfctl/sync.json"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"xxx", b"xyx", 1))
    remembered = json.loads(left.read_bytes())
    status = path.stat()
    mark = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    remembered["files"][LOG]["mark"] = mark
    left.write_text(json.dumps(remembered))
    place.done("note", "unseen")
    assert detected(place) == []
    assert any(LOG in text for text in place.done("status")["files"])
    assert place.call("replay", "--check").code == 7
    for _ in range(4):
        append_log(place, b"y" * 30_000 + b"\n")
        place.done("note", "more")
    assert [drift["file"] for drift in detected(place)] == [LOG]
    check_clean(place)


@pytest.mark.parametrize(
    "content", [None, b"", b"{", b'{"files": 1}', b'{"files": {"progress.log": {}}}']
)
def test_missing_sync_file_only_costs_time(place: Place, content: bytes | None) -> None:
    """If sync.json is lost or damaged, wfctl reads all files again and reports no drift."""
    append_log(place, b"one\n")
    place.done("note", "ours")
    append_log(place, b"two\n")
    left = place.path / ".wfctl/sync.json"
    left.unlink()
    if content is not None:
        left.write_bytes(content)
    place.done("note", "after")
    assert external(place) == [b"one\n", b"two\n"]
    assert (kept(place), detected(place)) == ([], [])
    check_clean(place)
