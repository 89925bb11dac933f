"""Checks beside a writer: log and files of one moment, whatever is written while they look."""

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

#: Carries out a command each time it is told to, and says when it is done.
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
    """Yield what lets another process write once."""
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
def test_a_check_finds_nothing_in_what_is_written_while_it_looks(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Given a write before any step of the check, when it is through, then all is as it should."""
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
def test_a_machines_check_finds_nothing_in_what_is_written_while_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a write before any step of the check, when it is through, then all is as it should."""
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
def test_a_check_waits_for_the_files_of_what_was_just_appended(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Given a writer between commit and files, when it writes them, then nothing was wrong."""
    record_only(place, "just appended")
    monkeypatch.setattr("service.root.root.system_clock", lambda: CRASHED_AT)
    with writer(place, "note", "and shown") as write:
        monkeypatch.setattr("service.root.root.time.sleep", lambda _: write())
        answer = place.json(*CHECKS[name])
    assert answer.code == 0
    assert name != "status" or answer.data["files"] == []


@pytest.mark.parametrize("name", ["replay --check", "status"])
def test_files_that_nobody_wrote_for_long_are_not_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Given an event whose writer died or has its root elsewhere, then a check looks once."""
    pauses: list[float] = []
    record_only(place, "appended long ago")
    later = CRASHED_AT + timedelta(seconds=3)
    monkeypatch.setattr("service.root.root.system_clock", lambda: later)
    monkeypatch.setattr("service.root.root.time.sleep", pauses.append)
    place.json(*CHECKS[name])
    assert pauses == []


def test_what_a_crash_left_behind_is_told_from_what_somebody_changed(place: Place) -> None:
    """Given a file that nobody brings up to date, then it is said to be behind the log."""
    (line,) = record_only(place, "unshown")
    answer = place.json("replay", "--check")
    assert answer.code == 7
    (found,) = answer.data["findings"]
    assert (found["file"], found["kind"]) == ("progress.log", "behind")
    assert f"-{line}" in found["diff"] + "\n"


def test_a_log_that_somebody_cut_is_changed_and_not_behind(place: Place) -> None:
    """Given a log without its last line, which it had, then it is said to be changed."""
    path = place.path / "progress.log"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    (found,) = place.json("replay", "--check").data["findings"]
    assert (found["file"], found["kind"]) == ("progress.log", "changed")
