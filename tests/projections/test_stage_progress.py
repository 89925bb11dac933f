"""The progress of a running stage is computed from its tasks, or from the expected run time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt, Stage
from projections.words.stage_progress import (
    StageProgress,
    compute_stage_progress,
    format_stage_progress,
    list_bar_parts,
)

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
#: Time at which the progress is computed, in seconds after the start of the attempt.
NOW = 100


class Run(NamedTuple):
    """A task and its newest run, with times in microseconds since the epoch."""

    state: str
    attempt: str | None = None
    started: int | None = None
    ended: int | None = None


def run(state: str, start: float, end: float | None = None, attempt: str = "att-0002") -> Run:
    """Return a run with the given times in seconds after the start of the attempt."""
    first = START.timestamp()
    return Run(
        state,
        attempt,
        int((first + start) * 1e6),
        None if end is None else int((first + end) * 1e6),
    )


def stage(tasks: int | None = None, launched: bool = True, **parameters: Any) -> Stage:
    """Return a running stage whose second attempt must compute the given number of tasks."""
    at = START.isoformat()
    running = Attempt(
        "att-0002", at, "tmux", "/w", "", "", "", "",
        launched_at=at if launched else None, tasks_given=tasks,
    )  # fmt: skip
    return Stage("stage-1", "A", Status.RUNNING, parameters=parameters, attempts=[running])


def seconds_left(tasks: list[Run], given: int | None = None) -> float | None:
    """Return the estimated time left of a sweep with the given tasks."""
    states = ("done", "failed", "lost", "running", "waiting")
    counts = {one: sum(task.state == one for task in tasks) for one in states}
    now = START + timedelta(seconds=NOW)
    return compute_stage_progress(stage(given), now, counts, tasks).seconds_left


WAITING = Run("waiting")
#: Two tasks at a time since the start, each of which took 50 s.
PAIRS = [run("done", start, start + 50) for start in (0, 0, 50, 50)]
EARLIER = [run("done", -900, -850, "att-0001") for _ in range(3)]


@pytest.mark.parametrize(
    ("tasks", "given", "left"),
    [
        pytest.param([WAITING, run("running", 0)], None, None, id="nothing finished"),
        pytest.param([*PAIRS, *[WAITING] * 4], None, 100, id="two tasks at a time"),
        pytest.param(
            [*PAIRS, run("running", 75), run("running", 75), WAITING, WAITING],
            None,
            (2 * 25 + 2 * 50) / 2.5,
            id="running tasks count with the rest of their time",
        ),
        pytest.param([*PAIRS, run("running", 80)], None, 30, id="the last task runs alone"),
        pytest.param([*PAIRS, run("running", 10)], None, 0, id="longer than other tasks"),
        pytest.param(PAIRS, None, 0, id="every task is done"),
        pytest.param(
            [*EARLIER, run("running", 90), WAITING], None, 90, id="earlier attempts give the times"
        ),
        pytest.param([*EARLIER, WAITING], None, None, id="the attempt has started no task"),
        pytest.param([*PAIRS, *[WAITING] * 4], 6, None, id="other tasks start later"),
        pytest.param([*PAIRS, WAITING], 6, 50, id="a failed task runs again"),
        pytest.param(
            [*[task._replace(state="failed") for task in PAIRS], *[WAITING] * 4],
            None,
            100,
            id="failed tasks have finished",
        ),
        pytest.param(
            [*PAIRS, Run("done"), Run("lost"), run("done", 60, 10), *[WAITING] * 4],
            None,
            pytest.approx(100, rel=0.3),
            id="unknown times are ignored",
        ),
    ],
)
def test_time_left_follows_from_finished_tasks(
    tasks: list[Run], given: int | None, left: float | None
) -> None:
    """Remaining run time, divided by the number of tasks that ran at the same time."""
    assert seconds_left(tasks, given) == (left if left is None else pytest.approx(left))


@pytest.mark.parametrize(
    ("expected", "left", "text"),
    [
        (None, None, ""),
        (400, 300, "[#####...............] about 5 min 0 s left"),
        (80, 0, "[####################] longer than the expected 1 min 20 s"),
        (True, None, ""),
        ("soon", None, ""),
        (float("nan"), None, ""),
        (10**400, None, ""),
        (0, None, ""),
    ],
)
def test_time_left_of_a_plain_stage_follows_from_the_plan(
    expected: Any, left: float | None, text: str
) -> None:
    """Without a valid expected run time, only the elapsed time is known."""
    parameters = {} if expected is None else {"expected_seconds": expected}
    found = compute_stage_progress(stage(**parameters), START + timedelta(seconds=NOW))
    assert (found.elapsed, found.seconds_left) == (NOW, left)
    assert format_stage_progress(found) == text


@pytest.mark.parametrize(("launched", "state"), [(True, "running"), (False, "waiting")])
def test_plain_stage_counts_as_one_task(launched: bool, state: str) -> None:
    """The task is waiting until the job is launched."""
    found = compute_stage_progress(stage(launched=launched), START).to_dict()
    assert {name: number for name, number in found.items() if number} == {state: 1}


def test_clock_that_was_set_back_gives_no_time() -> None:
    """An attempt that seems to start in the future has an unknown elapsed time."""
    found = compute_stage_progress(stage(expected_seconds=9), START - timedelta(seconds=NOW))
    assert (found.elapsed, found.seconds_left) == (None, None)


def test_text_has_the_time_left_before_the_other_numbers() -> None:
    """On a narrow terminal, the end of the line is cut off."""
    counts = {"done": 1500, "failed": 2, "lost": 0, "running": 8, "waiting": 1490}
    found = StageProgress(counts, elapsed=60, seconds_left=80)
    assert format_stage_progress(found) == (
        "[##########..........] 1,500 of 3,000 done, about 1 min 20 s left, 2 failed, 8 running, "
        "1,490 waiting"
    )


@pytest.mark.parametrize(
    ("progress", "parts"),
    [
        (StageProgress({"done": 3, "failed": 0, "waiting": 1}), [("done", 3), ("waiting", 1)]),
        (
            StageProgress({"running": 1}, False, elapsed=30, seconds_left=90, expected=120),
            [("running", 0.25), ("waiting", 0.75)],
        ),
    ],
)
def test_bar_on_a_page_has_a_part_for_each_state(
    progress: StageProgress, parts: list[tuple[str, float]]
) -> None:
    """The length of a part is the number of tasks, or the share of the expected time."""
    assert list_bar_parts(progress) == parts
