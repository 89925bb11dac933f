"""The tasks and core seconds that attempts and loop rounds use, and their limits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from lifecycle.state.conditions import find_point_source_stages, points_added_by_rounds
from lifecycle.state.requested_resources import cores_per_task, get_time_limit
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.words.mandates import GRACE, RULE, Mandate, format_count, format_number
from lifecycle.words.rounds import LoopDefinition

#: Number of seconds in an hour.
HOUR = 3600.0


def attempt_seconds(attempt: Attempt, now: str | None = None) -> float:
    """Return the duration of an attempt in seconds.

    For an attempt that has not ended, ``now`` (UTC, ISO 8601) is used as its end.
    """
    end = datetime.fromisoformat(attempt.ended_at or now or attempt.started_at)
    return max(0.0, (end - datetime.fromisoformat(attempt.started_at)).total_seconds())


class MandateUse(NamedTuple):
    """The use of a mandate (a permission given in advance, with limits).

    A running attempt is included with the maximum that it may use.
    """

    amendments: int = 0
    reruns: int = 0
    tasks: int = 0
    core_seconds: float = 0.0


def compute_mandate_use(state: Workflow, name: str, rule: int = RULE) -> MandateUse:
    """Return the total use of a mandate since the workflow was created.

    A mandate is a permission given in advance, with limits. ``rule`` is the version of the mandate
    rules. In version 1, an attempt was charged only to the first of its mandates.
    """
    by_it = [one for one in state.amendments.values() if one.mandate == name]
    attempts = [
        attempt
        for stage in state.stages.values()
        for attempt in stage.attempts
        if name in attempt.charged.get("mandates", [])[: None if rule == RULE else 1]
    ]
    return MandateUse(
        len(by_it),
        sum(len(one.targets) for one in by_it if one.kind == "stage_rerun"),
        sum(attempt.charged["tasks"] for attempt in attempts),
        sum(map(charged_core_seconds, attempts)),
    )


def charged_core_seconds(attempt: Attempt) -> float:
    """Return the core seconds that an attempt is charged to its mandates.

    This is the maximum for an attempt that may still be running, otherwise the actual use.
    """
    most = float(attempt.charged["core_seconds"])
    if attempt.is_open or attempt.can_have_running_jobs:
        return most
    return min(most, attempt_seconds(attempt) * int(attempt.charged["cores"]))


def task_count(state: Workflow, stage: Stage) -> int:
    """Return the number of tasks of a stage.

    If the points are in a file, return the last recorded number, or 1 if none is recorded.
    """
    if listed := stage.work.listed_points():
        points = len(listed) + len(points_added_by_rounds(state, stage.id))
        return points * stage.work.replicates
    seen = stage.work.progress(stage.attempts)
    return seen["total"] if seen is not None else 1


def compute_round_cost(
    state: Workflow, loop: LoopDefinition, count: int
) -> tuple[int, float | None]:
    """Return the number of tasks of a complete round of a loop, and its maximum core seconds.

    ``count`` is the number of new points in the round. A round starts only if the whole round is
    within the limits. The core seconds are None if a stage has no time limit.
    """
    tasks, seconds, unknown = 0, 0.0, False
    count *= state.stages[loop.points].work.replicates
    for id_ in loop.stages:
        stage = state.stages[id_]
        leading = {id_, *(partner.id for partner in find_point_source_stages(state, stage))}
        own = count if loop.points in leading else task_count(state, stage)
        limit = get_time_limit(state, stage)
        unknown = unknown or limit is None
        tasks += own
        seconds += own * cores_per_task(state, stage) * ((limit or 0) + GRACE)
    return tasks, None if unknown else seconds


def find_exceeded_mandate_limits(
    mandate: Mandate, so_far: MandateUse, tasks: int, seconds: float | None
) -> Iterator[str]:
    """Yield a sentence for each limit of a mandate that new work would exceed.

    The new work has ``tasks`` tasks and at most ``seconds`` core seconds. ``so_far`` is the earlier
    use of the mandate.
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
