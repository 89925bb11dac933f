"""With concurrent writers, wfctl records every command once and keeps the files current."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from service.root.atomic_files import hold_lock
from tests.cli.support import HERE, Place
from tests.rounds import first
from tests.service.steps import before_step
from tests.service.support import record_only, store_of

WRITERS, EACH = 3, 8
#: Program that runs many wfctl commands in one process.
LOOP = """
import sys
from cli.main import run
root, name, number = sys.argv[1:]
sys.exit(any([run(["--root", root, "note", f"{name} {n}"]) for n in range(int(number))]))
"""


def writer(place: Place, name: str) -> subprocess.Popen[bytes]:
    """Start a process that writes notes, one command after another."""
    return subprocess.Popen(
        [sys.executable, "-c", LOOP, str(place.path), name, str(EACH)],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_concurrent_commands_are_all_recorded(place: Place) -> None:
    """The notes of each writer keep their order, and no writer sees a conflict."""
    writers = [writer(place, f"w{n}") for n in range(WRITERS)]
    assert [process.wait(120) for process in writers] == [0] * WRITERS
    notes = place.notes()
    assert len(notes) == WRITERS * EACH
    for n in range(WRITERS):
        mine = [note for note in notes if note.startswith(f"w{n} ")]
        assert mine == [f"w{n} {k}" for k in range(EACH)]
    messages = [line.split("] ", 1)[1] for line in place.log().splitlines()]
    assert [message for message in messages if message.startswith("w")] == notes
    assert place.call("replay", "--check").code == 0
    assert place.call("fsck").code == 0


def up_to_date(place: Place) -> None:
    """Change nothing; the files are up to date."""


def behind(place: Place) -> None:
    """Record an event without updating the files."""
    record_only(place, "unshown")


def cut(place: Place) -> None:
    """Remove the last bytes of progress.log."""
    path = place.path / "progress.log"
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("before", first([up_to_date, behind, cut], 2))
def test_event_recorded_during_a_write_is_shown_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, before: Callable[[Place], None]
) -> None:
    """An event recorded at any step of another command appears once after the next write."""
    line = ["note", "mine", "--command-id", "key"]
    place.done(*line)
    for number in count():
        text = f"step {number} of the other one"
        before(place)
        with monkeypatch.context() as patched:
            steps = before_step(patched, number, partial(record_only, place, text))
            assert place.call(*line).code == 0
        if steps.over:
            break
        place.done("note", f"then {number}")
        assert place.log().count(f"] {text}\n") == 1
    assert number > 20, "the command had too few steps to mean anything"
    assert place.call("replay", "--check").code == 0


def test_file_never_returns_to_an_older_state(place: Place) -> None:
    """Even if the sync file is outdated, the next write produces the newest state."""
    sync = place.path / ".wfctl/sync.json"
    place.done("stage", "prepare", "stage-1")
    stale = sync.read_bytes()
    place.done("stage", "fail", "stage-1", "--error", "it broke")
    sync.write_bytes(stale)
    place.done("note", "then")
    state = json.loads((place.path / "workflow-state.json").read_text("utf-8"))
    assert state["stages"][0]["status"] == "failed"
    assert place.log().count("status -> failed") == 1
    assert place.call("replay", "--check").code == 0


def test_read_does_not_wait_for_writers(place: Place) -> None:
    """Reading commands succeed while another process locks the log and the files."""
    with store_of(place) as store, (place.path / ".wfctl/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with store._transaction():
            for line in (["status"], ["events"], ["log"], ["replay", "--check"], ["fsck"]):
                assert place.call(*line).code == 0


def test_locked_files_give_an_error_that_says_recorded(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error tells the user that the event is recorded and only the files are behind."""
    monkeypatch.setattr("service.files.workflow_files.hold_lock", partial(hold_lock, timeout=0.2))
    with (place.path / ".wfctl/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = place.json("note", "heard")
    assert answer.error["code"] == "files_behind"
    assert "recorded up to version" in answer.error["message"]
    assert place.notes() == ["heard"]


@pytest.mark.parametrize("first", [False, True], ids=["kept before", "first kept state"])
def test_failed_fold_storage_does_not_lose_the_command(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: bool
) -> None:
    """If storing the fold fails, the events are recorded, and the error is `files_behind`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("service.reading.stream_log.FOLD_EVERY", 1)
    if not first:
        assert place.call("note", "before").code == 0
    with store_of(place) as store, store._transaction() as connection:
        connection.execute("DROP TABLE folds")
    answer = place.json("note", "heard")
    assert answer.error["code"] == "files_behind"
    assert place.notes()[-1] == "heard"
