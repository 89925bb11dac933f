"""What attempts used, and what a round of a loop may use: tasks, and seconds of cores. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from lifecycle.state.conditions import added_points, cores, partners_of
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import MAP, is_sweep
from lifecycle.words.mandates import GRACE, Mandate, counted, number, time_limit
from lifecycle.words.rounds import LoopDefinition

#: Seconds.
HOUR = 3600.0


def seconds_of(attempt: Attempt, now: str | None = None) -> float:
    """Return how long an attempt took, until ``now`` (UTC, ISO 8601) where it has no end."""
    end = datetime.fromisoformat(attempt.ended_at or now or attempt.started_at)
    return max(0.0, (end - datetime.fromisoformat(attempt.started_at)).total_seconds())


@dataclass(frozen=True, slots=True)
class Used:
    """What was used of a mandate: amendments, reruns of stages, tasks, seconds of cores.

    Of an attempt under way it is the most that it may use.
    """

    amendments: int = 0
    reruns: int = 0
    tasks: int = 0
    core_seconds: float = 0.0


def used(state: Workflow, name: str) -> Used:
    """Return what was used of the mandate of this name, in the whole life of the workflow."""
    by_it = [one for one in state.amendments.values() if one.mandate == name]
    attempts = [
        attempt
        for stage in state.stages.values()
        for attempt in stage.attempts
        if attempt.charged.get("mandate") == name
    ]
    return Used(
        len(by_it),
        sum(len(one.targets) for one in by_it if one.kind == "stage_rerun"),
        sum(attempt.charged["tasks"] for attempt in attempts),
        sum(map(core_seconds, attempts)),
    )


def core_seconds(attempt: Attempt) -> float:
    """Return the most that an attempt by a mandate has used or will use."""
    most = float(attempt.charged["core_seconds"])
    if attempt.is_open or attempt.may_run_on:
        return most
    return min(most, seconds_of(attempt) * int(attempt.charged["cores"]))


def task_count(state: Workflow, stage: Stage) -> int:
    """Return how many tasks a stage has; of points in a file, as many as it had."""
    if not is_sweep(stage.parameters):
        return 1
    given = stage.parameters[MAP]
    if "file" in given or "like" in given:
        return next((one.tasks["total"] for one in reversed(stage.attempts) if one.tasks), 1)
    from lifecycle.sweeps.points import points  # it loads readers of files

    return len(points(given)) + len(added_points(state, stage.id))


def of_a_round(state: Workflow, loop: LoopDefinition, count: int) -> tuple[int, float | None]:
    """Return the tasks of a whole round with so many points, and the most seconds of cores for it.

    A round that begins can be computed to its end. None if a stage has no time limit.
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

    ``tasks`` and ``seconds`` (of cores, at most) are those of the work, ``so_far`` what was used.
    """
    if mandate.tasks is not None and so_far.tasks + tasks > mandate.tasks:
        left = max(0, mandate.tasks - so_far.tasks)
        yield f"{counted(tasks, 'task')} may be computed, and {_format_rest(left, mandate.tasks)}"
    if mandate.core_hours is None:
        return
    if seconds is None:
        yield "a stage has no parameters.time_limit, and nobody knows what it may use"
    elif so_far.core_seconds + seconds > mandate.core_hours * HOUR:
        left_hours = max(0.0, mandate.core_hours - so_far.core_seconds / HOUR)
        hours = counted(seconds / HOUR, "core hour")
        yield f"up to {hours} may be used, and {_format_rest(left_hours, mandate.core_hours)}"


def _format_rest(left: float, most: float) -> str:
    return f"{number(left)} of its {number(most)} {'is' if number(left) == '1' else 'are'} left"
