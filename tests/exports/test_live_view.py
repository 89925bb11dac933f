"""`wfctl status --follow` in a real terminal follows the log and draws only changes."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from lifecycle.state.status import Status
from projections.screens.watch_view import SIGNS, STYLES
from projections.words.text import format_elapsed
from tests.cli.live_view import live_view
from tests.cli.support import HERE, Place, attempt_data, tree
from tests.exports.support import stages_of
from tests.exports.world import PLAN, STORIES, make_root
from tests.need import need_programs

FOLLOW = [sys.executable, "-m", "cli.main", "status", "--follow", "--root"]
ENVIRON = {**os.environ, "PYTHONPATH": str(HERE), "TERM": "xterm-256color"}
SOON = 30.0
RUNNING = re.compile(r"att-0001 +\d+ s")


def until(found: Callable[[], bool], what: str) -> None:
    """Wait until the condition is true."""
    deadline = time.monotonic() + SOON
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@contextmanager
def in_tmux(place: Place) -> Iterator[Callable[[], str]]:
    """Run the live view in its own tmux; yield a function that returns the screen."""
    need_programs("tmux")
    server = ["tmux", "-L", f"wfctl-{uuid4().hex[:12]}", "-f", "/dev/null"]
    line = [*FOLLOW, str(place.path)]
    subprocess.run(
        [*server, "new-session", "-d", "-x", "100", "-y", "40", *line], env=ENVIRON, check=True
    )

    def screen() -> str:
        shot = [*server, "capture-pane", "-p"]
        return subprocess.run(shot, capture_output=True, text=True, check=True).stdout

    try:
        yield screen
    finally:
        subprocess.run([*server, "kill-server"], check=False)


def test_live_view_shows_stages_attempts_decisions_and_log(half_way: Place) -> None:
    """Stages have a sign for their status, and the newest log line is last."""
    text = live_view(half_way.path)
    for stage in PLAN["stages"]:
        assert stage["id"] in text
    assert "▶ stage-2" in text
    assert "stage-2 att-0004" in text
    assert "amend-3" in text
    assert "changed by hand" in text
    assert "Amendment proposed: amend-3" in text.rstrip().splitlines()[-1]


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_live_view_fits_its_window(told: Place, columns: int) -> None:
    """In a window of any width, every stage has a line and no line is too long."""
    lines = live_view(told.path, columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert all(any(stage in line for line in lines) for stage in stages_of(told))


def test_live_view_escapes_control_characters(tmp_path: Path) -> None:
    """Text of a note cannot move the cursor or clear the screen."""
    place = Place(make_root(tmp_path / "root", STORIES["begun"]))
    place.done("note", "gone: \x1b[2J\x1b[1;1H")
    text = live_view(place.path)
    assert "gone: \ufffd[2J\ufffd[1;1H" in text
    assert "\x1b" not in text


def test_every_status_has_its_own_sign_and_a_style() -> None:
    """Each status has a different sign, so the view is clear without colors."""
    assert set(SIGNS) == set(STYLES) == set(Status)
    assert len(set(SIGNS.values())) == len(SIGNS)


ELAPSED = {0: "0 s", 59: "59 s", 60: "1 min 0 s", 3599: "59 min 59 s", 3600: "1 h 0 min"}


@pytest.mark.parametrize("seconds", ELAPSED)
def test_elapsed_time_has_at_most_two_units(seconds: int) -> None:
    """A time has at most two units, and an invalid time is shown as unknown."""
    now = datetime(2026, 3, 31, 12, tzinfo=UTC)
    since = (now - timedelta(seconds=seconds)).isoformat()
    assert format_elapsed(since, now) == ELAPSED[seconds]
    assert format_elapsed("yesterday", now) == "since an unknown time"


@pytest.mark.slow
def test_live_view_follows_the_log(tmp_path: Path) -> None:
    """The view shows a new note, a new status and the running time of an attempt."""
    place = Place(make_root(tmp_path / "root", STORIES["begun"]))
    with in_tmux(place) as screen:
        until(lambda: "○ stage-1" in screen(), "the first view")
        place.done("note", "here it is")
        until(lambda: "here it is" in screen(), "the note")
        place.done("append", "attempt.started", "--data", attempt_data(mode="tmux"))
        until(lambda: "◐ stage-1" in screen(), "the new status")
        until(lambda: bool(RUNNING.search(screen())), "the attempt")
        first = RUNNING.findall(screen())
        until(lambda: RUNNING.findall(screen()) != first, "its time running on")


def read_all(descriptor: int, quiet: float) -> bytes:
    """Read until no byte has arrived for the given number of seconds."""
    found = b""
    while select.select([descriptor], [], [], quiet)[0]:
        found += os.read(descriptor, 1 << 16)
    return found


def read_until(descriptor: int, wanted: bytes) -> bytes:
    """Read until the wanted bytes have arrived and half a second has passed without output."""
    found = b""
    while wanted not in found:
        assert select.select([descriptor], [], [], SOON)[0], (wanted, found)
        found += read_all(descriptor, 0.5)
    return found


@pytest.mark.slow
def test_live_view_draws_nothing_without_changes(tmp_path: Path) -> None:
    """Without new events, the view writes nothing. Ctrl-C ends it with exit code 130."""
    place = Place(make_root(tmp_path / "root", STORIES["begun"]))
    before = tree(place.path)
    main, side = pty.openpty()
    # The test may run in a background process group, in which a child process would ignore Ctrl-C.
    minding = ["env", "--default-signal=INT", *FOLLOW, str(place.path)]
    process = subprocess.Popen(minding, env=ENVIRON, stdin=side, stdout=side, stderr=side)
    try:
        read_until(main, b"stage-5")
        assert read_all(main, 1.5) == b""
        assert tree(place.path) == before
        place.done("note", "wake up")
        read_until(main, b"wake up")
        process.send_signal(signal.SIGINT)
        # The test reads before it waits, because the process could not end while the terminal's
        # buffer is full.
        read_until(main, b"\x1b[?1049l")
        assert process.wait(SOON) == 130
    finally:
        process.kill()
        process.wait()
        os.close(main)
        os.close(side)


REFUSED = {
    "without a terminal": (["--follow"], "run `wfctl status`"),
    "as JSON": (["--follow", "-o", "json"], "`wfctl log --follow`"),
    "of an earlier state": (["--follow", "--at", "1"], "--follow and --at cannot be combined"),
    "of a machine, once": (["--machine", "m"], "`wfctl machine rehydrate m`"),
}


@pytest.mark.parametrize(("line", "told"), REFUSED.values(), ids=REFUSED)
def test_refused_options_name_a_command_that_works(
    half_way: Place, line: list[str], told: str
) -> None:
    """The live view refuses an earlier state or JSON, and names another command."""
    answer = half_way.call("status", *line)
    assert answer.code == 2
    assert told in answer.err + answer.out
