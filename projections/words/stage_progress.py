"""Measure and describe the progress of a running stage: its tasks, and the time left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from lifecycle.state.workflow import Attempt, Stage
from lifecycle.sweeps.definition import count_range_numbers
from projections.words.text import compute_seconds, format_two_unit_duration, parse_time_to_epoch

#: Number of characters of a progress bar.
_BAR = 20
_MICROSECONDS = 1_000_000
#: Number of seconds, about thirty years, above which an expected run time is ignored.
_LONGEST = 1e9
#: States of tasks whose run time is known.
_ENDED = frozenset({"done", "failed"})


class TimedTask(Protocol):
    """The state and the times of the newest run of a task, in microseconds since the epoch.

    ``attempt`` is the id of the attempt that started the run, or None if it is unknown.
    """

    @property
    def state(self) -> str:
        """Return done, failed, lost, running or waiting."""

    @property
    def attempt(self) -> str | None:
        """Return the id of the attempt that started the run."""

    @property
    def started(self) -> int | None:
        """Return the start of the run."""

    @property
    def ended(self) -> int | None:
        """Return the end of the run, or None while it continues."""


class StageProgress(NamedTuple):
    """The progress of a stage.

    ``counts`` contains the number of tasks in each state; a plain stage counts as one task.
    ``elapsed`` is the time in seconds since the attempt started, or None if no attempt is running.
    ``expected`` is the run time of a plain stage in seconds that the plan expects. The values are
    None if they are unknown.
    """

    counts: Mapping[str, int]
    is_sweep: bool = True
    elapsed: float | None = None
    seconds_left: float | None = None
    expected: float | None = None

    @property
    def total(self) -> int:
        """Return the number of tasks."""
        return sum(self.counts.values())

    @property
    def has_bar(self) -> bool:
        """Return whether it is known which part of the work is done."""
        return self.is_sweep or self.expected is not None

    def to_dict(self) -> dict[str, Any]:
        """Return the number of tasks in each state, and the times in seconds, for JSON."""
        times = {"elapsed_seconds": self.elapsed, "seconds_left": self.seconds_left}
        return {**self.counts, **{n: t if t is None else round(t, 1) for n, t in times.items()}}


def compute_stage_progress(
    stage: Stage,
    now: datetime,
    counts: Mapping[str, int] | None = None,
    tasks: Sequence[TimedTask] = (),
) -> StageProgress:
    """Return the progress of a stage.

    ``counts`` is the number of a sweep's tasks in each state, or None for a stage without tasks.
    ``tasks`` are the tasks of the sweep, if they can be read. Their times are needed to estimate
    the time left.
    """
    attempt = stage.open_attempt
    elapsed = None
    if attempt is not None:
        elapsed = compute_seconds(attempt.started_at, now.isoformat())
        elapsed = None if elapsed is None else max(elapsed, 0.0)
    if counts is not None:
        left = None if attempt is None else _estimate_seconds_left(attempt, tasks, now)
        return StageProgress(counts, elapsed=elapsed, seconds_left=left)
    is_running = attempt is not None and attempt.launched_at is not None
    counts = {"done": 0, "failed": 0, "running": int(is_running), "waiting": int(not is_running)}
    expected = _read_expected_seconds(stage)
    left = None if expected is None or elapsed is None else max(expected - elapsed, 0.0)
    return StageProgress(counts, False, elapsed, left, expected)


def _read_expected_seconds(stage: Stage) -> float | None:
    """Return the expected run time of a stage, or None if the plan gives no valid number."""
    given = stage.parameters.get("expected_seconds")
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return float(given) if 0 < given < _LONGEST else None


def _estimate_seconds_left(
    attempt: Attempt, tasks: Sequence[TimedTask], now: datetime
) -> float | None:
    """Estimate how long an attempt of a sweep will still run, in seconds.

    The estimate divides the remaining run time by the number of tasks that ran at the same time so
    far. Returns None before any task has ended, or if the attempt does not start all tasks, because
    it is unknown how many of the others will run at the same time.
    """
    spans = [_get_run_time(task) for task in tasks if task.state in _ENDED]
    known = [span for span in spans if span is not None]
    waiting = _count_tasks_to_start(attempt, tasks)
    if not known or waiting is None:
        return None
    mean, moment = sum(known) / len(known), now.timestamp() * _MICROSECONDS
    runs = _list_runs(attempt, tasks, moment)
    ages = [age for task, age in runs if task.state == "running"]
    work = waiting * mean + sum(max(mean - age, 0.0) for age in ages)
    if not work:
        return 0.0
    concurrency = min(_measure_concurrency(runs, moment), waiting + len(ages))
    return work / concurrency if concurrency > 0 else None


def _get_run_time(task: TimedTask) -> float | None:
    """Return the run time of an ended task in seconds, or None if it is unknown."""
    if task.started is None or task.ended is None or task.ended < task.started:
        return None
    return (task.ended - task.started) / _MICROSECONDS


def _count_tasks_to_start(attempt: Attempt, tasks: Sequence[TimedTask]) -> int | None:
    """Return how many tasks an attempt has not started yet.

    The number includes failed tasks of earlier attempts that run again. Returns None if some tasks
    start only in a later attempt.
    """
    waiting = sum(task.state == "waiting" for task in tasks)
    if attempt.tasks_given is None:
        return waiting
    started = sum(task.attempt == attempt.id for task in tasks)
    found = max(attempt.tasks_given - started, 0)
    return None if waiting > found else found


def _list_runs(
    attempt: Attempt, tasks: Sequence[TimedTask], moment: float
) -> list[tuple[TimedTask, float]]:
    """Return the tasks that an attempt has run, each with its run time in seconds until now.

    Tasks whose results of an earlier attempt are only verified again are not included.
    """
    start = (parse_time_to_epoch(attempt.started_at) or 0.0) * _MICROSECONDS
    return [
        (task, max((task.ended or moment) - task.started, 0.0) / _MICROSECONDS)
        for task in tasks
        if task.attempt == attempt.id and task.started is not None and task.started >= start
    ]


def _measure_concurrency(runs: Sequence[tuple[TimedTask, float]], moment: float) -> float:
    """Return how many tasks ran at the same time, as an average since the first task started."""
    first = min((task.started or 0 for task, _ in runs), default=moment)
    span = (moment - first) / _MICROSECONDS
    return sum(seconds for _, seconds in runs) / span if span > 0 else 0.0


def count_tasks_by_state(seen: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of tasks in each state, from the field ``tasks`` of an attempt."""
    found = {
        name: count_range_numbers(seen.get(name, ""))
        for name in ("done", "failed", "lost", "running")
    }
    found["waiting"] = max(0, seen["total"] - sum(found.values()))
    return found


def format_task_progress(counts: Mapping[str, int]) -> str:
    """Return a progress bar with task counts: ``[#####.....] 50 of 100 done, 2 failed``.

    Counts that are zero are omitted.
    """
    return format_stage_progress(StageProgress(counts))


def format_stage_progress(progress: StageProgress) -> str:
    """Return a progress bar with the description of a stage's progress.

    Returns an empty string for a plain stage whose run time is unknown.
    """
    if not progress.has_bar:
        return ""
    filled = int(_BAR * compute_done_share(progress))
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {describe_stage_progress(progress)}"


def compute_done_share(progress: StageProgress) -> float:
    """Return which share of a stage's work is done, from 0 to 1."""
    if progress.is_sweep:
        return progress.counts["done"] / progress.total if progress.total else 0.0
    return min((progress.elapsed or 0.0) / progress.expected, 1.0) if progress.expected else 0.0


def list_bar_parts(progress: StageProgress) -> list[tuple[str, float]]:
    """Return the parts of a bar, each with the state of its tasks and its relative length.

    For a plain stage, the part that is done has the state running, because its job still runs.
    """
    if progress.is_sweep:
        return [(state, number) for state, number in progress.counts.items() if number]
    share = compute_done_share(progress)
    return [("running", round(share, 3)), ("waiting", round(1 - share, 3))]


def describe_stage_progress(progress: StageProgress) -> str:
    """Return task counts and the time left: ``50 of 100 done, about 3 min 20 s left, 2 failed``.

    Numbers that are zero are omitted. For a plain stage, return only the time.
    """
    left = progress.seconds_left
    times = [f"about {format_two_unit_duration(left)} left"] if left and left >= 0.5 else []
    if not progress.is_sweep:
        expected = format_two_unit_duration(progress.expected or 0.0)
        return times[0] if times else f"longer than the expected {expected}"
    others = [f"{n:,} {state}" for state, n in progress.counts.items() if n and state != "done"]
    return ", ".join([f"{progress.counts['done']:,} of {progress.total:,} done", *times, *others])
