"""At a terminal, `run` and `wait` update a line for each running stage, and leave it clean."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.cli.support import HERE, Place, call, write_plan
from tests.need import need_programs

pytestmark = [pytest.mark.slow, pytest.mark.long]


class Screen:
    """A shell in a window of tmux, which is a complete terminal."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "tmux")

    def tmux(self, *words: str) -> str:
        """Call tmux, and return its output."""
        done = subprocess.run(
            ["tmux", "-S", self._socket, "-f", os.devnull, *words],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    def type(self, line: str) -> None:
        """Type a line into the shell."""
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")

    def rows(self) -> list[str]:
        """Return the rows of the screen without trailing empty rows."""
        return self.tmux("capture-pane", "-p").rstrip("\n").split("\n")

    def wait_for(self, is_shown: Callable[[list[str]], bool]) -> list[str]:
        """Wait until the rows of the screen meet a condition, and return them."""
        end = time.monotonic() + 40
        while not is_shown(rows := self.rows()):
            assert time.monotonic() < end, "\n".join(rows)
            time.sleep(0.1)
        return rows


@contextmanager
def opened_screen() -> Iterator[Screen]:
    """Open a window with a shell, and close the window at the end."""
    need_programs("tmux", "bash")
    shell = "env -u TMUX PS1='$ ' TERM=screen bash --norc --noprofile"
    # The path of a Unix socket may have at most 107 bytes, and pytest's folders can be longer.
    with TemporaryDirectory() as short:
        screen = Screen(Path(short))
        screen.tmux("new-session", "-d", "-x", "110", "-y", "30", shell)
        try:
            yield screen
        finally:
            screen.tmux("kill-server")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Yield a workflow with a sweep and a plain stage, which wait for the files ``go-N``.

    At the end, let the jobs end.
    """
    wait = "until [ -e {0}/go-{1} ]; do sleep 0.05; done"
    tasks = f"[ $WFCTL_PARAM_T = 1 ] || {wait.format(tmp_path, 1)}; echo 1 > e.json"
    map_ = {"grid": {"T": [1, 2, 3, 4, 5, 6, 7, 8]}}
    stages = [
        {
            "id": "stage-1",
            "name": "Sweep",
            "outputs": ["stage-1/tasks.csv"],
            "parameters": {
                "command": tasks,
                "map": map_,
                "task_outputs": ["e.json"],
                "at_once": 2,
            },
        },
        {
            "id": "stage-2",
            "name": "Plain",
            "outputs": ["stage-2/out.txt"],
            "parameters": {"command": f"{wait.format(tmp_path, 2)}; echo hi > out.txt"},
        },
    ]
    root = tmp_path / "root"
    root.mkdir()
    plan = write_plan(tmp_path, {"workflow_id": "bars", "purpose": "Bars.", "stages": stages})
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0
    yield Place(root)
    for number in (1, 2):
        (tmp_path / f"go-{number}").touch()
    call("--root", str(root), "wait", "stage-1", "stage-2")


def count_rows(rows: list[str], start: str) -> int:
    """Return the number of rows that start with a text."""
    return sum(row.startswith(start) for row in rows)


def has_one_row_each(rows: list[str]) -> bool:
    """Return whether each of the two stages has exactly one row with its progress."""
    starts = ("stage-1 running, ", "stage-2 running, ")
    return all(count_rows(rows, start) == 1 for start in starts)


COMMANDS = {"run": "run --max-parallel 2", "wait": "wait stage-1 stage-2"}


@pytest.mark.parametrize("how", ["ctrl-c", "sigterm", "end"])
@pytest.mark.parametrize("command", COMMANDS)
def test_bars_are_updated_in_place_and_erased_at_the_end(
    tmp_path: Path, place: Place, command: str, how: str
) -> None:
    """Neither a narrower window nor a signal leaves rows of a bar on the screen."""
    if command == "wait":
        place.done("dispatch", "stage-1")
        place.done("dispatch", "stage-2")
    pid = tmp_path / "pid"
    words = [sys.executable, "-m", "cli.main", "--root", str(place.path)]
    line = f"cd {HERE} && echo $$ > {pid}; exec {shlex.join(words)} {COMMANDS[command]}"
    with opened_screen() as screen:
        screen.type("clear")
        screen.type(f"bash -c {shlex.quote(line)}")
        screen.wait_for(lambda rows: has_one_row_each(rows) and "1 of 8 done" in "".join(rows))
        for width in ("60", "140", "45", "90"):
            screen.tmux("resize-window", "-x", width)
            time.sleep(1.5)
            screen.wait_for(has_one_row_each)
        (tmp_path / "go-2").touch()
        if command == "run":  # the message about the end of the stage is above the bar
            screen.wait_for(lambda rows: "stage-2 (Plain): status -> " in "".join(rows))
        rows = screen.wait_for(lambda rows: not count_rows(rows, "stage-2 running, "))
        rows = screen.wait_for(lambda rows: rows[-1].startswith("stage-1 running, "))
        assert count_rows(rows, "stage-1 running, ") == 1
        if how == "ctrl-c":
            screen.tmux("send-keys", "C-c")
        elif how == "sigterm":
            os.kill(int(pid.read_text()), signal.SIGTERM)
        else:
            (tmp_path / "go-1").touch()
        rows = screen.wait_for(lambda rows: rows[-1] == "$")
        assert not [row for row in rows if " running, " in row or " of 8 done," in row], rows
        assert screen.tmux("display-message", "-p", "#{cursor_flag} #{cursor_x}").split() == [
            "1",
            "2",
        ]
