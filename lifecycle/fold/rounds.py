"""The fold of optimization loops: it starts and ends rounds, and decides when a loop is over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from lifecycle.event import Event
from lifecycle.state.loops import LoopState, Round
from lifecycle.state.status import FINISHED, Status
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.sweeps.definition import MAP
from lifecycle.words.document import collect_changes_by_field
from lifecycle.words.mandates import RULE, format_count
from lifecycle.words.metrics import parse_valid_metrics
from lifecycle.words.plan_parameters import PLAN_PARAMETERS
from lifecycle.words.rounds import (
    LoopDefinition,
    find_values_outside_envelope,
    is_criterion_met,
    loop_limits_as_mandate,
    parse_valid_loops,
)


def fold_round_begun(draft: Workflow, event: Event) -> None:
    """Start a round of a loop: add its points, and reset the stages of the loop.

    Ignore the event if the round was not allowed to start.
    """
    data = event.data
    if explain_round_not_begun(draft, data) is not None:
        return
    loop = draft.loops[data["loop"]]
    loop.rounds.append(
        Round(
            number=data["round"],
            points=data["points"],
            by=data["by"],
            reason=data.get("reason"),
            source=data.get("source"),
            data=data.get("data", {}),
            began_at=event.occurred_at,
        )
    )
    stages = [draft.stages[id_] for id_ in loop.stages]
    for stage in stages:
        _reset_stage(stage)
    for stage in stages:
        if stage.status is Status.INVALIDATED and not draft.unmet_dependencies(stage):
            stage.status = Status.READY


def explain_round_not_begun(state: Workflow, data: Mapping[str, Any]) -> str | None:
    """Return the reason why a recorded round could not start, or None if it started."""
    standing = state.loops.get(data["loop"])
    if standing is None:
        return "there is no such loop"
    loop = state.loop(data["loop"])
    # Earlier versions of wfctl charged fewer attempts to a loop. The old rule is used here, so that
    # the rounds they recorded stay valid.
    is_over = _explain_loop_end(state, loop, standing, rule=1) is not None
    has_ended = standing.round.ended_at is not None
    if is_over or not has_ended or data["round"] != standing.round.number + 1:
        return "no such round was due"
    if not is_round_from_loop_source(state, loop, data):
        return f"its points are not those of {loop.ask}"
    if not data["points"] or len(data["points"]) > (loop.each or len(data["points"])):
        return "it has another number of points than the envelope allows"
    optional = list_optional_values(state, loop)
    outside = (
        why
        for point in data["points"]
        for why in find_values_outside_envelope(loop, point, optional)
    )
    repeated = find_new_point_problems(state, loop, standing, data["points"])
    return next(outside, None) or next(repeated, None)


def list_loop_points(
    state: Workflow, loop: LoopDefinition, standing: LoopState
) -> list[dict[str, Any]]:
    """Return the points of a loop so far: those of the plan, then those of its rounds."""
    from lifecycle.sweeps.points import build_points  # imports readers of files

    first = build_points(state.stages[loop.points].parameters[MAP])
    return [*(dict(one.values) for one in first), *standing.points_from_rounds]


def list_optional_values(state: Workflow, loop: LoopDefinition) -> set[str]:
    """Return the names of the values that the points of a round may lack.

    The commands can run without these values: they have a default in the parameters of the stage,
    or a point of the plan lacks them too.
    """
    work = state.stages[loop.points].work
    common = work.common_value_names()
    return set() if common is None else {*loop.within} - (common - {*work.parameters})


def find_new_point_problems(
    state: Workflow, loop: LoopDefinition, standing: LoopState, asked: list[dict[str, Any]]
) -> Iterator[str]:
    """Yield the error if new points repeat each other or earlier points, or are not usable."""
    from lifecycle.sweeps.points import UnusableMap, build_points

    options = {k: v for k, v in state.stages[loop.points].parameters[MAP].items() if k == "folders"}
    so_far = ""
    try:
        before = list_loop_points(state, loop, standing)
        so_far = f" (the first {len(before)} are those so far)"
        build_points({"points": [*before, *asked], **options})
    except UnusableMap as error:
        yield f"{error}{so_far}"


def is_round_from_loop_source(
    state: Workflow, loop: LoopDefinition, data: Mapping[str, Any]
) -> bool:
    """Return whether the points of a round come from the source that the loop defines.

    The source is a person or agent, or an output file of a stage. The file must be unchanged since
    the stage completed.
    """
    results = {
        one["path"]: one["sha256"]
        for one in state.stages[loop.points_source_stage or loop.points].results
    }
    known = (data.get("data") or {}).get(loop.ask)
    own = data.get("source") == loop.ask and known is not None
    return loop.has_external_proposer or (own and known == results.get(loop.ask))


def _reset_stage(stage: Stage) -> None:
    """Reset a stage to be computed again in a new round of its loop. Leave a skipped stage."""
    if stage.status is Status.SKIPPED:
        return
    stage.status, stage.changed, stage.rerun_by = Status.INVALIDATED, [], None
    stage.metrics, stage.retry_count, stage.fix = [], 0, None
    stage.started_at = stage.completed_at = None
    stage.running_process, stage.blocked_by = None, {}
    # If the stage adds only new points in each round, the tasks of earlier rounds stay valid.
    stage.keeps_tasks = stage.work.grows_by_rounds


def fold_loop_stopped(draft: Workflow, event: Event) -> None:
    """Store the reason why a person or agent stopped the loop."""
    loop = draft.loops.get(event.data["loop"])
    if loop is not None:
        loop.stopped = event.data["reason"]


def refresh_loops(draft: Workflow, at: str) -> None:
    """Update the loops of a workflow after an event.

    Add new loops, end rounds whose stages are all finished, and check whether a loop is over.
    """
    if not (draft.loops or draft.rounds):
        return
    defined = parse_valid_loops(draft.rounds)
    draft.loops = {name: one for name, one in draft.loops.items() if name in defined}
    for name, loop in defined.items():
        if any(id_ not in draft.stages for id_ in loop.stages):
            draft.loops.pop(name, None)
            continue
        standing = draft.loops.setdefault(name, LoopState([]))
        standing.stages = list(loop.stages)
        _end_or_reopen_round(draft, standing, at)
        standing.over = _explain_loop_end(draft, loop, standing)


def _end_or_reopen_round(draft: Workflow, loop: LoopState, at: str) -> None:
    """Record the end and the metrics of the current round if all its stages are finished.

    Reopen an ended round if one of its stages is no longer finished.
    """
    stages = [draft.stages[id_] for id_ in loop.stages]
    done = all(stage.status in FINISHED for stage in stages)
    if done and loop.round.ended_at is None:
        found = {name: number for stage in stages for name, number in _list_metric_values(stage)}
        loop.rounds[-1] = replace(loop.round, ended_at=at, numbers=found, plan=draft.version)
    elif not done and loop.round.ended_at is not None:
        loop.rounds[-1] = replace(loop.round, ended_at=None, numbers={}, plan=0)


def _list_metric_values(stage: Stage) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the full name of each metric of a stage with its value, error and unit."""
    for one in stage.metrics:
        yield (
            f"{stage.id}.{one['name']}",
            {name: one.get(name) for name in ("value", "error", "unit")},
        )


def _explain_loop_end(
    draft: Workflow, loop: LoopDefinition, standing: LoopState, rule: int = RULE
) -> str | None:
    """Return the reason why the loop is over, or None if it is not.

    None is also returned while a round is running.
    """
    if standing.round.ended_at is None:
        return None
    if standing.stopped is not None:
        return f"stopped: {standing.stopped}"
    numbers = [one.numbers for one in list_valid_rounds(draft, standing)]
    for until in loop.until:
        if is_criterion_met(until, numbers, better_direction(draft, until.metric)):
            return str(until)
    if standing.round.number >= loop.at_most:
        return f"its limit of {format_count(loop.at_most, 'round')}"
    return _find_exhausted_limit(draft, loop, rule)


def _find_exhausted_limit(draft: Workflow, loop: LoopDefinition, rule: int) -> str | None:
    """Return the cost limit that does not allow another round with one point.

    Return None if no limit is exhausted.
    """
    envelope = loop_limits_as_mandate(loop)
    if envelope.tasks is None and envelope.core_hours is None:
        return None
    from lifecycle.state.effort import (  # needed by few loops
        compute_mandate_use,
        compute_round_cost,
        find_exceeded_mandate_limits,
    )

    so_far = compute_mandate_use(draft, envelope.name, rule)
    problems = find_exceeded_mandate_limits(envelope, so_far, *compute_round_cost(draft, loop, 1))
    why = "; ".join(problems)
    return f"no further round is within its limits: {why}" if why else None


def list_valid_rounds(state: Workflow, loop: LoopState) -> list[Round]:
    """Return the rounds of a loop whose results are valid for the current plan.

    An amendment makes the results of earlier rounds invalid, unless it states that they stay valid.
    """

    def counts(one: Round) -> bool:
        since = [
            a for a in state.amendments.values() if one.plan and _is_approved_since(a, one.plan)
        ]
        return not any(
            _is_recomputation_required(state, amendment, loop.stages)
            and not _keeps_round(amendment, one.number)
            for amendment in since
        )

    return [one for one in loop.rounds if counts(one)]


def first_invalid_round(state: Workflow, stage: Stage, plan: int) -> int | None:
    """Return the number of the first round whose tasks are no longer valid.

    The tasks belong to the version ``plan`` of the plan. Return 0 if the tasks of all rounds are
    invalid, and None if no later amendment limits the valid rounds.
    """
    since = [
        amendment.from_round
        for amendment in state.amendments.values()
        if _is_approved_since(amendment, plan)
        and (
            (amendment.kind == "stage_rerun" and stage.id in amendment.targets)
            or _is_recomputation_required(state, amendment, [stage.id])
        )
    ]
    return min(number or 0 for number in since) if any(since) else None


def points_added_from_round(state: Workflow, stage: str, number: int) -> list[dict[str, Any]]:
    """Return the points that round ``number`` and all later rounds added to a sweep stage."""
    loop = state.loops[state.loop_of(stage) or ""]
    return [point for one in loop.rounds if one.number >= number for point in one.points]


def _is_approved_since(amendment: Amendment, plan: int) -> bool:
    """Return whether an amendment was approved after version ``plan`` of the plan."""
    return amendment.status == "approved" and (amendment.version or 0) > plan


def _keeps_round(amendment: Amendment, number: int) -> bool:
    """Return whether the results of a round stay valid under an amendment."""
    return amendment.from_round is not None and number < amendment.from_round


def _is_recomputation_required(
    state: Workflow, amendment: Amendment, stages: Iterable[str]
) -> bool:
    """Return whether an amendment requires that one of the stages is computed again."""
    if amendment.record is not None or not {*stages} & {*amendment.invalidated_stages}:
        return False
    if amendment.kind in ("stage_insert", "stage_skip"):
        return True
    if amendment.stage is None and PLAN_PARAMETERS in amendment.changes:
        return True
    changes = {id_: collect_changes_by_field(change) for id_, change in amendment.rewired.items()}
    if amendment.stage is not None:
        changes[amendment.stage] = amendment.changes
    return any(
        not _can_keep_tasks_after_change(state, id_, field, change)
        for id_, fields in changes.items()
        for field, change in fields.items()
    )


def _can_keep_tasks_after_change(
    state: Workflow, stage: str, field: str, change: Mapping[str, Any]
) -> bool:
    """Return whether the change of a field needs no new computation of finished tasks.

    Such a change affects only the points of the stage or the check of its results.
    """
    if field != "parameters":
        return field in ("name", "success_criteria", "outputs")
    of = state.stages.get(stage)
    return of is not None and {*change} <= {MAP} | of.work.ignored_parameters


def better_direction(draft: Workflow, metric: str) -> str:
    """Return "lower" or "higher", the direction in which values of a metric are better.

    Return an empty string if the plan does not define it.
    """
    stage, _, name = metric.rpartition(".")
    known = parse_valid_metrics(draft.stages[stage].parameters) if stage in draft.stages else {}
    return known[name].better if name in known else ""
