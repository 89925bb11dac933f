"""Commands show how far a running sweep is, and how long it will still run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.live_view import live_view
from tests.cli.support import Place
from tests.pages.support import served
from tests.pages.test_pages import home
from tests.sweeps.support import begun, sweep

pytestmark = pytest.mark.slow

GRID: dict[str, Any] = {"grid": {"T": [1, 2, 3, 4, 5, 6]}}


def gated(folder: Path) -> str:
    """Return a command: task 1 fails, task 2 succeeds, and others wait for the file ``go-T``."""
    cases = f"1) exit 3;; 2) ;; *) until [ -e {folder}/go-$WFCTL_PARAM_T ]; do sleep 0.05; done;;"
    return f"{{ case $WFCTL_PARAM_T in {cases} esac; }}"


def progress_when(place: Place, **counts: int) -> dict[str, Any]:
    """Wait until the sweep has the given numbers of tasks, and return its progress."""
    end = time.monotonic() + 30
    while True:
        [stage] = place.done("status")["stages"]
        found: dict[str, Any] = stage.get("progress", {})
        if found and found | counts == found:
            return found
        assert time.monotonic() < end, stage
        time.sleep(0.1)


@contextmanager
def half_done(folder: Path, map_: dict[str, Any] = GRID, **parameters: Any) -> Iterator[Place]:
    """Start a sweep whose tasks wait for files, and complete it at the end."""
    stage = sweep(folder / "trace", map_, gated(folder), at_once=2, tolerate=0.5, **parameters)
    place = begun(folder, stage)
    place.done("dispatch", "stage-1")
    try:
        yield place
    finally:
        for number in range(1, 7):
            (folder / f"go-{number}").touch()
        place.call("wait", "stage-1")


def test_progress_of_a_running_sweep_is_shown_everywhere(tmp_path: Path) -> None:
    """`status`, its live view and the pages show the same tasks, and the time left."""
    with half_done(tmp_path) as place:
        found = progress_when(place, done=1, failed=1, lost=0, running=2, waiting=2)
        assert found["seconds_left"] >= 0
        assert found["elapsed_seconds"] > 0
        text = place.call("status").out
        assert "[###.................] 1 of 6 done, " in text
        assert "1 failed, 2 running, 2 waiting" in text
        assert "1 of 6 done, " in live_view(place.path)
        with served(tmp_path, "--root", str(place.path)) as pages:
            address = home(pages)
            for page in ("", "stage/stage-1"):
                shown = pages.get(address + page).text
                assert 'class="t-running" style="flex-grow:2"' in shown
                assert "1 failed, 2 running, 2 waiting" in shown
    [stage] = place.done("status")["stages"]
    assert "progress" not in stage
    assert stage["tasks"] == {"done": 5, "failed": 1, "lost": 0, "running": 0, "waiting": 0}


def test_replicates_count_as_tasks(tmp_path: Path) -> None:
    """Two points with three replicates each are six tasks."""
    map_ = {"grid": {"T": [2, 3]}, "replicates": 3}
    with half_done(tmp_path, map_) as place:
        assert progress_when(place, done=3, running=2, waiting=1)["seconds_left"] is not None


def test_tasks_after_the_first_task_count_as_waiting(tmp_path: Path) -> None:
    """The time left is unknown until it is seen how many of the other tasks run together."""
    with half_done(tmp_path, {"grid": {"T": [3, 4, 5, 6]}, "first": 1}) as place:
        assert progress_when(place, done=0, running=1, waiting=3)["seconds_left"] is None
        (tmp_path / "go-3").touch()
        place.call("wait", "stage-1", "--timeout", "5")  # starts the second attempt
        assert progress_when(place, done=1, running=2, waiting=1)["seconds_left"] is not None


def test_page_shows_a_bar_of_a_plain_stage_with_an_expected_time(tmp_path: Path) -> None:
    """The bar shows which share of the expected time has passed."""
    command = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    parameters = {"command": command, "expected_seconds": 5000}
    place = begun(tmp_path, {"id": "stage-1", "name": "Plain", "parameters": parameters})
    place.done("dispatch", "stage-1")
    try:
        assert 4900 < progress_when(place, done=0, running=1, waiting=0)["seconds_left"] < 5000
        assert "] about 1 h 2" in place.call("status").out
        assert "] about 1 h 2" in live_view(place.path)
        with served(tmp_path, "--root", str(place.path)) as pages:
            shown = pages.get(home(pages)).text
            assert 'aria-label="about 1 h 2' in shown
    finally:
        (tmp_path / "go").touch()
        place.call("wait", "stage-1")


def said_in_a_pipe(place: Place) -> list[str]:
    """Wait for the sweep without a terminal, and return the printed messages."""
    answer = place.call("wait", "stage-1", "--timeout", "4.5")
    return [json.loads(line)["message"] for line in answer.err.splitlines()]


@pytest.mark.long
@pytest.mark.parametrize(
    ("soonest", "regular", "fewest", "most"),
    [(0.2, 1000, 2, 5), (1000, 0.5, 3, 9), (1000, 1000, 0, 0)],
    ids=["tasks were done", "time has passed", "neither"],
)
def test_line_is_printed_in_a_pipe_after_some_tasks_or_some_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    soonest: float,
    regular: float,
    fewest: int,
    most: int,
) -> None:
    """A line says how many tasks are done, and no line is printed if none is due."""
    for name, seconds in (("_SOONEST", soonest), ("_REGULAR", regular), ("_FIRST", regular)):
        monkeypatch.setattr(f"cli.terminal.progress_lines.{name}", seconds)
    map_ = {"grid": {"T": {"from": 1, "to": 10}}}
    place = begun(tmp_path, sweep(tmp_path / "trace", map_, "sleep 0.3", at_once=1))
    place.done("dispatch", "stage-1")
    progress_when(place, running=1)
    told = said_in_a_pipe(place)
    assert fewest <= len(told) <= most, told
    assert all(text.startswith("waiting: stage-1 ") and " of 10 done" in text for text in told)
    counts = [int(text.split("] ")[1].split()[0]) for text in told]
    assert counts == sorted(counts)
