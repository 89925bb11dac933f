"""Checks compare the log with files of the same moment, even during concurrent writes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from tests.cli.support import HERE, Place
from tests.machines.place import MachinePlace
from tests.service.steps import before_step
from tests.service.support import CRASHED_AT, record_only

#: Program that runs a wfctl command for each line on stdin, and then prints a line.
ON_CALL = """
import os, sys
from cli.main import run
for number, _ in enumerate(sys.stdin):
    words = [word.replace("{}", str(number)) for word in sys.argv[1:]]
    if run(words) == 0:
        os.write(2, b"done\\n")
"""


@contextmanager
def writer(place: Place | MachinePlace, *words: str) -> Iterator[Callable[[], None]]:
    """Yield a function that makes another process run the write command once."""
    process = subprocess.Popen(
        [sys.executable, "-c", ON_CALL, "--root", str(place.path), *words],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    given, said = process.stdin, process.stderr

    def write() -> None:
        given.write("\n")
        given.flush()
        assert said.readline() == "done\n"

    with process:
        yield write
        given.close()


CHECKS: dict[str, list[str]] = {
    "replay --check": ["replay", "--check"],
    "fsck": ["fsck"],
    "drift show": ["drift", "show"],
    "status": ["status"],
}


@pytest.mark.slow
@pytest.mark.few(2)
@pytest.mark.parametrize("name", CHECKS)
def test_check_ignores_concurrent_writes(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Another process writes before any step of the check, which reports no problem."""
    with writer(place, "note", "meanwhile {}") as write:
        for number in count():
            with monkeypatch.context() as patched:
                steps = before_step(patched, number, write)
                answer = place.json(*CHECKS[name])
            assert answer.code == 0, (number, answer)
            assert name != "status" or answer.data["files"] == [], number
            if steps.over:
                break
    assert number > 10, "the check had too few steps to mean anything"


@pytest.mark.slow
def test_machine_check_ignores_concurrent_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes before any step of the check, which reports no problem."""
    place = MachinePlace(tmp_path)
    place.init("login")
    with writer(place, "machine", "update", "login", "artifacts.design={}.md") as write:
        for number in count():
            with monkeypatch.context() as patched:
                steps = before_step(patched, number, write)
                answer = place.wfctl("replay", "--check", "--machine", "login")
            assert answer.code == 0, (number, answer)
            if steps.over:
                break
    assert number > 10, "the check had too few steps to mean anything"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["replay --check", "status"])
def test_check_waits_for_files_of_a_new_event(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """If an event is recorded but its files are not yet written, the check waits for them."""
    record_only(place, "just appended")
    monkeypatch.setattr("service.root.sync_record.system_clock", lambda: CRASHED_AT)
    with writer(place, "note", "and shown") as write:
        monkeypatch.setattr("service.root.sync_record.time.sleep", lambda _: write())
        answer = place.json(*CHECKS[name])
    assert answer.code == 0
    assert name != "status" or answer.data["files"] == []


@pytest.mark.parametrize("name", ["replay --check", "status"])
def test_check_does_not_wait_for_files_of_an_old_event(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """After three seconds, the writer must have died or writes to a folder elsewhere."""
    pauses: list[float] = []
    record_only(place, "appended long ago")
    later = CRASHED_AT + timedelta(seconds=3)
    monkeypatch.setattr("service.root.sync_record.system_clock", lambda: later)
    monkeypatch.setattr("service.root.sync_record.time.sleep", pauses.append)
    place.json(*CHECKS[name])
    assert pauses == []


def test_outdated_file_is_reported_as_behind(place: Place) -> None:
    """After a crash, a file without the newest events is reported as behind, not changed."""
    (line,) = record_only(place, "unshown")
    answer = place.json("replay", "--check")
    assert answer.code == 7
    (found,) = answer.data["findings"]
    assert (found["file"], found["kind"]) == ("progress.log", "behind")
    assert f"-{line}" in found["diff"] + "\n"


def test_truncated_log_file_is_reported_as_changed(place: Place) -> None:
    """wfctl had already written the removed line, so progress.log is not behind."""
    path = place.path / "progress.log"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    (found,) = place.json("replay", "--check").data["findings"]
    assert (found["file"], found["kind"]) == ("progress.log", "changed")
