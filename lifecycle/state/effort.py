"""The effort of attempts, and the effort that a round of a loop may use: tasks and core seconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from lifecycle.state.conditions import added_points, cores, partners_of
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.words.mandates import GRACE, RULE, Mandate, format_count, format_number, time_limit
from lifecycle.words.rounds import LoopDefinition

#: Seconds per hour.
HOUR = 3600.0


def seconds_of(attempt: Attempt, now: str | None = None) -> float:
    """Return the duration of an attempt, up to ``now`` (UTC, ISO 8601) if it has not ended."""
    end = datetime.fromisoformat(attempt.ended_at or now or attempt.started_at)
    return max(0.0, (end - datetime.fromisoformat(attempt.started_at)).total_seconds())


@dataclass(frozen=True, slots=True)
class Used:
    """The use of a mandate: amendments, reruns of stages, tasks and core seconds.

    A running attempt counts with the maximum that it may use.
    """

    amendments: int = 0
    reruns: int = 0
    tasks: int = 0
    core_seconds: float = 0.0


def used(state: Workflow, name: str, rule: int = RULE) -> Used:
    """Return the total use of the named mandate since the workflow was created.

    ``rule`` is the version of the rules of mandates. Version 1 charged an attempt only to the first
    of its mandates.
    """
    by_it = [one for one in state.amendments.values() if one.mandate == name]
    attempts = [
        attempt
        for stage in state.stages.values()
        for attempt in stage.attempts
        if name in attempt.charged.get("mandates", [])[: None if rule == RULE else 1]
    ]
    return Used(
        len(by_it),
        sum(len(one.targets) for one in by_it if one.kind == "stage_rerun"),
        sum(attempt.charged["tasks"] for attempt in attempts),
        sum(map(core_seconds, attempts)),
    )


def core_seconds(attempt: Attempt) -> float:
    """Return the maximum core seconds that an attempt under mandates has used or will use."""
    most = float(attempt.charged["core_seconds"])
    if attempt.is_open or attempt.may_run_on:
        return most
    return min(most, seconds_of(attempt) * int(attempt.charged["cores"]))


def task_count(state: Workflow, stage: Stage) -> int:
    """Return the number of tasks of a stage. For points in a file, use the last known number."""
    if listed := stage.work.listed_points():
        return len(listed) + len(added_points(state, stage.id))
    seen = stage.work.progress(stage.attempts)
    return seen["total"] if seen is not None else 1


def of_a_round(state: Workflow, loop: LoopDefinition, count: int) -> tuple[int, float | None]:
    """Return the tasks of a whole round with ``count`` points, and its maximum core seconds.

    A round that starts can thus be completed. The core seconds are None if a stage has no time
    limit.
    """
    tasks, seconds, unknown = 0, 0.0, False
    for id_ in loop.stages:
        stage = state.stages[id_]
        leading = {id_, *(partner.id for partner in partners_of(state, stage))}
        own = count if loop.points in leading else task_count(state, stage)
        limit = time_limit(stage.parameters)
        unknown = unknown or limit is None
        tasks += own
        seconds += own * cores(state, stage) * ((limit or 0) + GRACE)
    return tasks, None if unknown else seconds


def cost_problems(
    mandate: Mandate, so_far: Used, tasks: int, seconds: float | None
) -> Iterator[str]:
    """Yield a sentence for each limit of a mandate that more work would exceed.

    ``tasks`` and ``seconds`` (maximum core seconds) belong to the new work, ``so_far`` is the use.
    """
    if mandate.tasks is not None and so_far.tasks + tasks > mandate.tasks:
        left = max(0, mandate.tasks - so_far.tasks)
        rest = _format_rest(left, mandate.tasks)
        yield f"{format_count(tasks, 'task')} may be computed, and {rest}"
    if mandate.core_hours is None:
        return
    if seconds is None:
        yield "a stage has no parameters.time_limit, so its core hours are unknown"
    elif so_far.core_seconds + seconds > mandate.core_hours * HOUR:
        left_hours = max(0.0, mandate.core_hours - so_far.core_seconds / HOUR)
        hours = format_count(seconds / HOUR, "core hour")
        yield f"up to {hours} may be needed, and {_format_rest(left_hours, mandate.core_hours)}"


def _format_rest(left: float, most: float) -> str:
    verb = "is" if format_number(left) == "1" else "are"
    return f"{format_number(left)} of its {format_number(most)} {verb} left"
