"""The live view, in a real terminal: it follows the log, and draws when something has changed."""

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
from projections.drawing.terminal import SIGNS
from projections.screens.watch_view import STYLES, elapsed
from tests.cli.support import HERE, Place, attempt_data, tree
from tests.exports.support import stages_of
from tests.exports.world import PLAN, STORIES, make_root
from tests.need import need_programs

WATCH = [sys.executable, "-m", "cli.main", "watch", "--root"]
ENVIRON = {**os.environ, "PYTHONPATH": str(HERE), "TERM": "xterm-256color"}
SOON = 30.0
RUNNING = re.compile(r"att-0001 +\d+ s")


def once(place: Place, columns: int = 100) -> str:
    """Return one view for a window of so many columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        answer = place.call("watch", "--once")
    assert answer.code == 0, answer
    return answer.out


def until(found: Callable[[], bool], what: str) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + SOON
    while not found():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@contextmanager
def in_tmux(place: Place) -> Iterator[Callable[[], str]]:
    """Run the view in a tmux of its own, 100 columns wide; yield what shows its screen."""
    need_programs("tmux")
    server = ["tmux", "-L", f"wfctl-{uuid4().hex[:12]}", "-f", "/dev/null"]
    line = [*WATCH, str(place.path)]
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


def test_a_view_shows_graph_attempts_decisions_and_log(half_way: Place) -> None:
    """Every stage with its sign; how long an attempt runs; what waits; the newest line last."""
    text = once(half_way)
    for stage in PLAN["stages"]:
        assert stage["id"] in text
    assert "▶ stage-2" in text
    assert "stage-2 att-0004" in text
    assert "amend-3" in text
    assert "changed by hand" in text
    assert "Amendment proposed: amend-3" in text.rstrip().splitlines()[-1]


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_a_view_fits_its_window(told: Place, columns: int) -> None:
    """However narrow; where the graph does not fit, the stages are listed."""
    lines = once(told, columns).splitlines()
    assert max(map(len, lines)) <= columns
    assert all(any(stage in line for line in lines) for stage in stages_of(told))


def test_edges_join_the_stages_that_depend_on_each_other(half_way: Place) -> None:
    """One above the other, with lines between."""
    lines = once(half_way).splitlines()
    first = next(n for n, line in enumerate(lines) if "stage-1 Build" in line)
    assert "┼" in lines[first + 1]
    assert "stage-2" in lines[first + 2]
    assert "stage-3" in lines[first + 2]


def test_nobody_paints_over_the_view(tmp_path: Path) -> None:
    """Words of others are shown without what steers a terminal."""
    place = Place(make_root(tmp_path / "root", STORIES["begun"]))
    place.done("note", "gone: \x1b[2J\x1b[1;1H")
    text = once(place)
    assert "gone: \ufffd[2J\ufffd[1;1H" in text
    assert "\x1b" not in text


def test_every_status_has_a_sign_and_a_style() -> None:
    """None is told by colour alone."""
    assert set(SIGNS) == set(STYLES) == set(Status)
    assert len(set(SIGNS.values())) == len(SIGNS)


ELAPSED = {0: "0 s", 59: "59 s", 60: "1 min 0 s", 3599: "59 min 59 s", 3600: "1 h 0 min"}


@pytest.mark.parametrize("seconds", ELAPSED)
def test_elapsed_time_is_told_in_words(seconds: int) -> None:
    """In two units at most."""
    now = datetime(2026, 3, 31, 12, tzinfo=UTC)
    since = (now - timedelta(seconds=seconds)).isoformat()
    assert elapsed(since, now) == ELAPSED[seconds]
    assert elapsed("yesterday", now) == "since an unknown time"


@pytest.mark.slow
def test_the_view_follows_the_log(tmp_path: Path) -> None:
    """A note appears, a stage changes its sign, an attempt's time runs on."""
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
    """Return what comes until nothing has come for so many seconds."""
    found = b""
    while select.select([descriptor], [], [], quiet)[0]:
        found += os.read(descriptor, 1 << 16)
    return found


def read_until(descriptor: int, wanted: bytes) -> bytes:
    """Return what comes until the wanted has, and then nothing for half a second."""
    found = b""
    while wanted not in found:
        assert select.select([descriptor], [], [], SOON)[0], (wanted, found)
        found += read_all(descriptor, 0.5)
    return found


@pytest.mark.slow
def test_nothing_is_drawn_while_nothing_changes(tmp_path: Path) -> None:
    """And nothing is written in the root; Ctrl-C leaves with 130 and gives the screen back."""
    place = Place(make_root(tmp_path / "root", STORIES["begun"]))
    before = tree(place.path)
    main, side = pty.openpty()
    # Where the tests run in the background, what they start would ignore Ctrl-C.
    minding = ["env", "--default-signal=INT", *WATCH, str(place.path)]
    process = subprocess.Popen(minding, env=ENVIRON, stdin=side, stdout=side, stderr=side)
    try:
        read_until(main, b"stage-5")
        assert read_all(main, 1.5) == b""
        assert tree(place.path) == before
        place.done("note", "wake up")
        read_until(main, b"wake up")
        process.send_signal(signal.SIGINT)
        # Read before it is waited for: a terminal that nobody reads is full at some time.
        read_until(main, b"\x1b[?1049l")
        assert process.wait(SOON) == 130
    finally:
        process.kill()
        process.wait()
        os.close(main)
        os.close(side)


@pytest.mark.parametrize("line", [[], ["-o", "json"], ["-o", "jsonl", "--once"]])
def test_it_is_for_people_at_a_terminal(half_way: Place, line: list[str]) -> None:
    """Elsewhere it names what to call instead."""
    answer = half_way.call("watch", *line)
    assert answer.code == 2
    assert "wfctl" in answer.err + answer.out


def test_colours_are_left_out_where_nobody_wants_them(half_way: Place) -> None:
    """In a pipe, and by ``--color``."""
    assert "\x1b[" not in once(half_way)
    colored = [*WATCH, str(half_way.path), "--once", "--color", "always"]
    done = subprocess.run(colored, env=ENVIRON, capture_output=True, check=True)
    assert b"\x1b[" in done.stdout
