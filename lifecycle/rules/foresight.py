"""What somebody who decides on an amendment wants to know beside its impact. Pure.

Nothing here is part of what is agreed to: the impact is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lifecycle.fold.amendments import apply, keeps_tasks
from lifecycle.rules.impact import Impact, seconds_of
from lifecycle.state.dependencies import downstream
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.sweeps.definition import MAP, VERDICTS, numbers_of, verdict_of
from lifecycle.sweeps.points import points

#: Seconds of computing below which nobody looks for another way.
_CHEAP = 60.0


@dataclass(frozen=True, slots=True)
class TasksAhead:
    """How many tasks of a stage go on to count, are computed, judged again, or kept aside.

    ``seconds`` is how long those that are computed may take, by what the others took.
    """

    stage: str
    kept: int
    computed: int
    aside: int
    seconds: float | None
    judged: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        counts = {"kept": self.kept, "computed": self.computed, "set_aside": self.aside}
        counts |= {"judged": self.judged} if self.judged else {}
        return {**counts, "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class Foresight:
    """What an approval would leave behind; stages in array order, times in seconds."""

    #: Stages that could never run again: they rest on one that is taken out.
    blocked: tuple[str, ...] = ()
    #: Stage that is computed again → how long it took before; None where it never ended.
    again: tuple[tuple[str, float | None], ...] = ()
    #: Completed stages whose results go on to count.
    results_kept: tuple[str, ...] = ()
    #: What becomes of the tasks of a stage whose points alone change.
    tasks: tuple[TasksAhead, ...] = ()
    #: Stages whose kept results are judged anew; computed only where they do not hold.
    judged: tuple[str, ...] = ()
    #: Other ways to the same end, each in a sentence.
    cheaper: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "blocked_for_good": list(self.blocked),
            "computed_again": dict(self.again),
            "judged_again": list(self.judged),
            "results_kept": list(self.results_kept),
            "cheaper": list(self.cheaper),
            "tasks": {one.stage: one.to_dict() for one in self.tasks},
        }


def foresee(state: Workflow, amendment: Amendment, impact: Impact) -> Foresight:
    """Return what follows from approving the amendment in ``state``."""
    changed = state.draft()
    apply(changed, amendment)
    blocked = _blocked(state, changed, amendment)
    stages = state.stages.values()
    again = {*impact.again} - blocked
    done = [stage.id for stage in stages if stage.status is Status.COMPLETED]
    kept = tuple(id_ for id_ in done if id_ not in impact.affected and id_ != amendment.stage)
    named = [amendment.stage] if amendment.stage is not None else [*amendment.rewired]
    swept = [id_ for id_ in named if keeps_tasks(state, amendment, id_)]
    tasks = tuple(one for id_ in swept for one in _tasks(state, changed, id_, impact))
    return Foresight(
        blocked=tuple(id_ for id_ in state.stages if id_ in blocked),
        again=tuple((stage.id, _took(stage)) for stage in stages if stage.id in again),
        judged=impact.judged,
        results_kept=kept,
        tasks=tasks,
        cheaper=tuple(_cheaper(state, amendment, impact, blocked)),
    )


def _tasks(state: Workflow, changed: Workflow, id_: str, impact: Impact) -> Iterator[TasksAhead]:
    """Yield what becomes of the tasks of a sweep; nothing where a file names its points."""
    maps = [one.stage(id_).parameters[MAP] for one in (state, changed)]
    if any(not ("points" in one or "grid" in one or "zip" in one) for one in maps):
        return
    before, after = (tuple(point.key for point in points(one)) for one in maps)
    stage = state.stage(id_)
    # As they were when they were last looked at.
    seen = next((one.tasks["done"] for one in reversed(stage.attempts) if one.tasks), "")
    done = {before[n] for n in numbers_of(seen) if n < len(before)}
    counting = done & {*after}
    verdicts = (verdict_of(one.stage(stage.id).parameters) for one in (state, changed))
    anew = next(verdicts) != next(verdicts)
    # Those of the newest attempt that were computed and did not pass.
    failed = ((stage.attempts[-1].tasks if stage.attempts else None) or {}).get("failures", [])
    bad = {one["key"] for one in failed if str(one.get("because")).startswith(VERDICTS)}
    judged = (counting | (bad & {*after})) if anew else set()
    # An attempt that goes on computes all that it was given; its verdicts alone are given anew.
    new = 0 if stage.id in impact.going_on else len({*after} - counting - judged)
    took = _took(stage)
    yield TasksAhead(
        stage=stage.id,
        kept=len(counting - judged),
        computed=new,
        aside=len(done - counting),
        seconds=None if took is None else took * new / len(before),
        judged=len(judged),
    )


def _blocked(state: Workflow, changed: Workflow, amendment: Amendment) -> set[str]:
    """Return the stages that rest on the one that is skipped, and did not on another before."""
    if amendment.kind != "stage_skip" or amendment.stage is None:
        return set()
    graph = {stage.id: stage.depends_on for stage in changed.stages.values()}
    below = downstream(graph, {amendment.stage}) - {amendment.stage}
    over = (Status.COMPLETED, Status.SKIPPED)
    return {id_ for id_ in below if id_ in state.stages and state.stages[id_].status not in over}


def _took(stage: Stage) -> float | None:
    """Return how long its newest attempt that ended took."""
    ended = [attempt for attempt in stage.attempts if attempt.ended_at is not None]
    try:
        return seconds_of(ended[-1]) if ended else None
    except (ValueError, TypeError):
        return None  # typed by hand in an imported file


def _cheaper(
    state: Workflow, amendment: Amendment, impact: Impact, blocked: set[str]
) -> Iterator[str]:
    if blocked:
        yield "with --rewire its dependents drop it, and go on"
    yield from _left_inputs(state, amendment)
    if amendment.kind == "parameter_change" and sum(impact.seconds.values()) > _CHEAP:
        yield (
            "a further stage with the other value (--insert) would keep every result; a value that "
            "is only for what comes later belongs into that stage"
        )


def _left_inputs(state: Workflow, amendment: Amendment) -> Iterator[str]:
    """Yield a sentence for each stage that is rewired, and takes files of the skipped one."""
    for id_ in amendment.rewired if amendment.kind == "stage_skip" else ():
        stage = state.stages.get(id_)
        folder = f"{amendment.stage}/"
        taken = [path for path in stage.inputs if path.startswith(folder)] if stage else []
        if taken and "inputs" not in amendment.rewired[id_]:
            yield (
                f"{id_} takes {', '.join(taken)} of the skipped stage: change its inputs too "
                f"(--stage {id_} --set inputs=JSON)"
            )
