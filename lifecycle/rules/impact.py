"""Find the stages whose results an amendment makes invalid."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lifecycle.event import UNFOLDABLE
from lifecycle.fold.evolve import (
    apply_amendment,
    can_keep_finished_tasks,
    is_attempt_continued,
    is_only_recheck_needed,
    restrict_to_stage,
)
from lifecycle.fold.rounds import points_added_from_round, refresh_loops
from lifecycle.state.basis import is_recheck_sufficient
from lifecycle.state.conditions import downstream, find_point_source_stages, points_added_by_rounds
from lifecycle.state.effort import attempt_seconds
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.sweeps.definition import MAP, OF_NEXT_ATTEMPT, VERDICTS, parse_ranges
from lifecycle.words.document import collect_changes_by_field

if TYPE_CHECKING:
    from lifecycle.rules.loops_ahead import LoopForecast

#: Statuses of stages that have a started attempt but no valid result.
_TRIED = ACTIVE | {Status.FAILED}
#: Fields of a stage that have no influence on its results.
_HARMLESS = frozenset({"name"})


@dataclass(frozen=True, slots=True)
class Impact:
    """The effects of approving an amendment, with stages in the order of the plan.

    ``seconds`` is the computing time, by stage, of attempts whose results become useless.
    """

    #: All stages that the amendment affects directly or indirectly, in any status.
    affected: tuple[str, ...] = ()
    #: Stages whose status becomes invalidated: completed stages, and stages that depend on a stage
    #: that runs again.
    invalidated: tuple[str, ...] = ()
    #: Running stages that are stopped, each with the id of its attempt (None if no attempt was
    #: started).
    stopped: Mapping[str, str | None] = field(default_factory=dict)
    #: For each stage that runs again, the folder to which its outputs are moved.
    kept: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    #: Stages whose existing results are only checked again. They are computed again if the check
    #: fails.
    judged: tuple[str, ...] = ()
    #: Stages that are computed again completely.
    again: tuple[str, ...] = ()
    #: Stages whose running attempt continues, with the id of the attempt.
    going_on: Mapping[str, str | None] = field(default_factory=dict)
    #: Those of these stages whose results will be checked by new criteria.
    newly_checked: tuple[str, ...] = ()

    def effects_to_approve(self) -> dict[str, Any]:
        """Return the effects that a person agrees to by approving the amendment.

        If these effects change before the approval, the person must be asked again.
        """
        return {
            "affected": list(self.affected),
            "invalidated": list(self.invalidated),
            "stopped": dict(self.stopped),
            "kept": dict(self.kept),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the impact as a dictionary of JSON values."""
        return {**self.effects_to_approve(), "seconds_thrown_away": dict(self.seconds)}


def compute_approval_impact(
    state: Workflow,
    amendment: Amendment,
    found: Mapping[str, int] | None = None,
    now: str | None = None,
    *,
    stops_all: bool = False,
) -> Impact:
    """Return the effects that the approval of the amendment would have in ``state``.

    ``found`` gives, by stage, the highest K of the archive folders ``stage-N.vK`` on disk. ``now``
    (UTC, ISO 8601) is used as the end of running attempts. ``stops_all`` applies the rule of
    earlier versions, by which even a change of the checks alone stopped running attempts.
    """
    reach = compute_amendment_reach(state, amendment)
    affected = [stage for stage in state.stages.values() if stage.id in reach.affected]
    under_way = [stage for stage in reach.stages(state) if stage.status in ACTIVE]
    going_on = [s for s in under_way if not stops_all and is_attempt_continued(state, amendment, s)]
    stopped = [stage for stage in under_way if stage not in going_on]
    invalidated = [stage for stage in affected if _is_invalidated(reach, stage)]
    again = {stage.id for stage in (*invalidated, *stopped)}
    # A retry of a failed stage would now use another definition. The failed stage is therefore
    # affected.
    tried = [s.id for s in affected if s.status is Status.FAILED and s.attempts]
    begun = [s for s in reach.stages(state) if s.id in again or s.id in tried]
    # Stages for which only the check of existing results changes.
    alone = [s for s in begun if is_only_recheck_needed(state, amendment, s.id)]
    judged = [s for s in alone if is_recheck_sufficient(reach.after, reach.after.stages[s.id])]
    # Tasks of unchanged points are not computed again, and their computing time is not lost.
    wasted = [
        s for s in begun if s not in judged and not can_keep_finished_tasks(state, amendment, s.id)
    ]
    return Impact(
        affected=_stage_ids(affected),
        invalidated=_stage_ids(invalidated),
        stopped=newest_attempts(stopped),
        kept=choose_archive_folders(
            [s for s in reach.stages(state) if _should_archive_files(amendment, s, again)],
            found or {},
        ),
        seconds={
            s.id: attempt_seconds(s.attempts[-1], now)
            for s in wasted
            if s.attempts and s.status is not Status.FAILED
        },
        judged=_stage_ids(judged),
        again=_stage_ids([s for s in wasted if s.id != reach.skipped]),
        going_on=newest_attempts(going_on),
        newly_checked=_stage_ids([s for s in going_on if _is_check_changed(amendment, s.id)]),
    )


def _is_check_changed(amendment: Amendment, id_: str) -> bool:
    """Return whether an amendment changes the check of the results of a running attempt."""
    own = amendment if amendment.stage == id_ else restrict_to_stage(amendment, id_)
    parameters = {*own.changes.get("parameters", {})}
    return not (own.changes.keys() <= {"name", "parameters"} and parameters <= OF_NEXT_ATTEMPT)


class AmendmentReach(NamedTuple):
    """The stages that an amendment changes directly, and all stages that it affects.

    ``after`` is the state with the changed plan. ``skipped`` is the stage that the amendment skips.
    It is not part of ``affected``, and it may be running.
    """

    direct: frozenset[str]
    affected: frozenset[str]
    after: Workflow
    skipped: str | None

    def stages(self, state: Workflow) -> list[Stage]:
        """Return the directly changed and the affected stages, in the order of the plan."""
        return [s for s in state.stages.values() if s.id in self.direct or s.id in self.affected]


def compute_amendment_reach(state: Workflow, amendment: Amendment) -> AmendmentReach:
    """Return the stages that an amendment changes or affects in ``state``."""
    changed = state.draft()
    apply_amendment(changed, amendment)
    refresh_loops(changed, state.updated)
    direct = _find_directly_changed(state, changed, amendment) | _find_stages_behind_reopened_loops(
        state, changed
    )
    reached = set(direct)
    for one in (state, changed):
        reached |= downstream({s.id: s.depends_on for s in one.stages.values()}, direct)
    skipped = amendment.stage if amendment.kind == "stage_skip" else None
    return AmendmentReach(frozenset(direct), frozenset(reached - {skipped}), changed, skipped)


def group_open_amendments_by_stage(state: Workflow) -> dict[str, list[str]]:
    """Return the ids of undecided amendments by the stages that they would affect."""
    found: dict[str, list[str]] = {}
    for amendment in state.pending_amendments:
        try:
            reached = (
                None
                if amendment.is_plan
                else compute_amendment_reach(state, amendment).stages(state)
            )
        except UNFOLDABLE:
            continue  # another program wrote this row, which is never approved
        for stage in state.stages.values() if reached is None else reached:
            found.setdefault(stage.id, []).append(amendment.id)
    return found


def _is_invalidated(reach: AmendmentReach, stage: Stage) -> bool:
    """Return whether the amendment changes the stage's status to invalidated.

    This is the case if the stage is completed, or if it was started and must wait for a dependency.
    """
    if stage.status not in _TRIED:
        return stage.status is Status.COMPLETED
    stages = reach.after.stages
    return any(
        need in reach.affected
        or need == reach.skipped
        or stages[need].status is not Status.COMPLETED
        for need in stages[stage.id].depends_on
    )


def _stage_ids(stages: list[Stage]) -> tuple[str, ...]:
    """Return the ids of the stages."""
    return tuple(stage.id for stage in stages)


def _find_directly_changed(state: Workflow, changed: Workflow, amendment: Amendment) -> set[str]:
    """Return the stages whose own definition or backend the amendment changes."""
    found = {
        id_
        for id_, change in amendment.rewired.items()
        if not set(collect_changes_by_field(change)) <= _HARMLESS
    }
    if amendment.stage is not None:
        changes_only = amendment.kind != "stage_rerun" and bool(amendment.changes)
        harmless = changes_only and set(amendment.changes) <= _HARMLESS
        return found if harmless else found | {*amendment.targets}
    found |= {*state.list_parameter_users(amendment)}
    return found | {
        stage.id
        for stage in state.stages.values()
        if _backend_settings(state, stage) != _backend_settings(changed, changed.stages[stage.id])
    }


def _find_stages_behind_reopened_loops(state: Workflow, changed: Workflow) -> set[str]:
    """Return the stages that depend on a loop that was over and will continue."""
    reopened = find_reopened_loops(state, changed)
    own = {id_ for name in reopened for id_ in changed.loops[name].stages}
    return {
        stage.id
        for stage in changed.stages.values()
        if stage.id not in own and own.intersection(stage.depends_on)
    }


def find_reopened_loops(state: Workflow, changed: Workflow) -> list[str]:
    """Return the names of loops that were over before a change and continue after it."""
    over = [name for name, loop in state.loops.items() if loop.over is not None]
    return [name for name in over if name in changed.loops and changed.loops[name].over is None]


def _backend_settings(state: Workflow, stage: Stage) -> Any:
    """Return the backend of a stage and the settings of its profile."""
    return (stage.backend or state.default_backend, state.profile(stage))


def _should_archive_files(amendment: Amendment, stage: Stage, again: Container[str]) -> bool:
    """Return whether the stage runs again and has files that must be archived before."""
    if stage.id == amendment.stage and amendment.kind == "stage_skip":
        return False
    if stage.status is Status.COMPLETED:
        return True
    is_rerun = amendment.kind == "stage_rerun" and stage.id in amendment.targets
    return (
        stage.id in again or (is_rerun and stage.status is Status.FAILED)
    ) and has_unarchived_files(stage)


def has_unarchived_files(stage: Stage) -> bool:
    """Return whether attempts of the stage may have written files that are not yet archived."""
    return bool(stage.attempts) and stage.keep_as is None


def newest_attempts(stages: list[Stage]) -> dict[str, str | None]:
    """Return the id of the newest attempt of each stage, or None if a stage has none."""
    return {stage.id: stage.attempts[-1].id if stage.attempts else None for stage in stages}


def choose_archive_folders(stages: list[Stage], found: Mapping[str, int]) -> dict[str, str]:
    """Return a free name for the archive folder of each stage, such as ``stage-1.v2``."""
    return {s.id: f"{s.id}.v{max(s.kept, found.get(s.id, s.kept)) + 1}" for s in stages}


def impact_shown_by_earlier_versions(
    state: Workflow, amendment: Amendment, found: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return the impact of an approval as earlier versions of wfctl showed it.

    It is needed to check approvals that were recorded by those versions.
    """
    reach = compute_amendment_reach(state, amendment)
    affected = [stage for stage in state.stages.values() if stage.id in reach.affected]
    under_way = [stage for stage in reach.stages(state) if stage.status in ACTIVE]
    rerun = amendment.stage if amendment.kind == "stage_rerun" else None

    def is_kept(stage: Stage) -> bool:
        again = stage.status in ACTIVE and stage.id in reach.direct
        again = again or (stage.status is Status.FAILED and stage.id == rerun)
        return stage.status is Status.COMPLETED or (again and has_unarchived_files(stage))

    return {
        "affected": [stage.id for stage in affected],
        "invalidated": [stage.id for stage in affected if stage.status is Status.COMPLETED],
        "stopped": newest_attempts([stage for stage in under_way if stage.id in reach.direct]),
        "outdated": [stage.id for stage in under_way if stage.id not in reach.direct],
        "kept": choose_archive_folders(
            [stage for stage in affected if is_kept(stage)], found or {}
        ),
    }


#: If an approval discards at most this computing time (in seconds), no alternative is suggested.
_NEGLIGIBLE_SECONDS = 60.0


class TaskForecast(NamedTuple):
    """The effect of an amendment on the tasks of a sweep stage.

    The numbers are those of tasks that stay valid (``kept``), are computed, are moved away
    (``aside``), or are only checked again (``judged``). ``seconds`` is the estimated time of the
    computed tasks, based on the duration of earlier tasks.
    """

    stage: str
    kept: int
    computed: int
    aside: int
    seconds: float | None
    judged: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return the effect on the tasks as a dictionary of JSON values."""
        counts = {"kept": self.kept, "computed": self.computed, "set_aside": self.aside}
        counts |= {"judged": self.judged} if self.judged else {}
        return {**counts, "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class ApprovalForecast:
    """The detailed effects of an approval.

    Stages are in the order of the plan, and times are in seconds.
    """

    #: Stages that could never run, because they depend on a skipped stage.
    blocked: tuple[str, ...] = ()
    #: Stages that are computed again, each with the duration of its newest ended attempt (None if
    #: no attempt has ended).
    again: tuple[tuple[str, float | None], ...] = ()
    #: Completed stages whose results stay valid.
    results_kept: tuple[str, ...] = ()
    #: Number of kept, computed and removed tasks for each stage that computes only some of its
    #: tasks again.
    tasks: tuple[TaskForecast, ...] = ()
    #: Loops that continue or end because of the amendment, or whose earlier results become invalid.
    loops: tuple[LoopForecast, ...] = ()
    #: Stages whose existing results are only checked again. They are computed again if the check
    #: fails.
    judged: tuple[str, ...] = ()
    #: Input files that changed since the newest attempt, by stage. All tasks of such a stage become
    #: invalid.
    changed_inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Sentence on the tasks that must succeed before the others start, by stage.
    first_tasks: Mapping[str, str] = field(default_factory=dict)
    #: Suggestions of other changes that keep more results, one sentence each.
    cheaper: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as a dictionary of JSON values."""
        return {
            "blocked_for_good": list(self.blocked),
            "computed_again": dict(self.again),
            "judged_again": list(self.judged),
            "results_kept": list(self.results_kept),
            "cheaper": list(self.cheaper),
            "changed_inputs": {id_: list(paths) for id_, paths in self.changed_inputs.items()},
            "tasks": {one.stage: one.to_dict() for one in self.tasks},
            "loops": {one.loop: one.to_dict() for one in self.loops},
            **({"first_tasks": dict(self.first_tasks)} if self.first_tasks else {}),
        }


def forecast_approval(
    state: Workflow,
    amendment: Amendment,
    impact: Impact,
    changed_inputs: Mapping[str, Sequence[str]] | None = None,
    in_place: Mapping[str, Collection[str]] | None = None,
) -> ApprovalForecast:
    """Return a detailed forecast of the effects of approving the amendment.

    ``changed_inputs`` gives, by stage, the inputs that changed since the newest attempt.
    ``in_place`` gives, by stage, the keys of tasks whose results are on disk. By default, the tasks
    that the log records as done are used.
    """
    from lifecycle.rules.loops_ahead import forecast_loops  # most commands need no forecast

    changed = compute_amendment_reach(state, amendment).after
    blocked = _find_blocked_stages(state, changed, amendment)
    stages = state.stages.values()
    again = {*impact.again} - blocked
    done = [stage.id for stage in stages if stage.status is Status.COMPLETED]
    kept = tuple(id_ for id_ in done if id_ not in impact.affected and id_ != amendment.stage)
    swept = find_partly_recomputed_sweeps(state, amendment, impact)
    others = {id_: paths for id_, paths in (changed_inputs or {}).items() if id_ in swept}
    counting = dict[str, set[str]]()
    tasks = tuple(
        one
        for id_ in swept
        for one in _forecast_tasks(
            state, changed, amendment, id_, impact, id_ in others, counting, in_place
        )
    )
    return ApprovalForecast(
        blocked=tuple(id_ for id_ in state.stages if id_ in blocked),
        again=tuple((stage.id, _newest_duration(stage)) for stage in stages if stage.id in again),
        judged=impact.judged,
        results_kept=kept,
        tasks=tasks,
        changed_inputs=others,
        loops=tuple(forecast_loops(state, changed, amendment, impact.affected)),
        first_tasks=dict(_describe_first_tasks(changed, again, tasks)),
        cheaper=tuple(_suggest_alternatives(state, amendment, impact, blocked)),
    )


def _describe_first_tasks(
    changed: Workflow, again: Collection[str], tasks: Sequence[TaskForecast]
) -> Iterator[tuple[str, str]]:
    """Yield a sentence on the first tasks of each sweep that computes tasks, after its id.

    ``again`` are the stages that compute all their tasks.
    """
    known = {one.stage: (one.kept + one.judged, one.computed) for one in tasks}
    for id_ in changed.stages:
        kept, computed = known.get(id_, (0, 0))
        if id_ in again or computed:
            start = changed.stages[id_].work.describe_start(kept, kept + computed)
            if start is not None:
                yield id_, start


def find_partly_recomputed_sweeps(
    state: Workflow, amendment: Amendment, impact: Impact
) -> list[str]:
    """Return the sweep stages of which only some tasks are computed again.

    Stages that define points come before the followers, which reuse these points.
    """
    named = [amendment.stage] if amendment.stage is not None else [*amendment.rewired]
    followers = [
        id_ for id_ in impact.affected if find_point_source_stages(state, state.stage(id_))
    ]
    rejudged = [id_ for id_ in followers if is_only_recheck_needed(state, amendment, id_)]
    swept = dict.fromkeys([*named, *(id_ for id_ in followers if id_ not in rejudged)])
    found = [id_ for id_ in swept if can_keep_finished_tasks(state, amendment, id_)]
    return sorted(found, key=lambda id_: len(find_point_source_stages(state, state.stage(id_))))


#: Folder names of this kind are valid for all values. The names do not matter here, because only
#: the keys of the points are used.
_FOLDERS = {"folders": "digest"}


def _list_task_keys(
    given: Mapping[str, Any], added: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Return the keys of the tasks of a map, then those of the points that rounds added."""
    # Few commands need these modules, which load readers of files.
    from lifecycle.sweeps.points import build_points
    from lifecycle.sweeps.replicates import replicate_points

    more = build_points({"points": list(added), **_FOLDERS}) if added else ()
    return tuple(point.key for point in replicate_points(given, (*build_points(given), *more)))


def _forecast_tasks(
    state: Workflow,
    changed: Workflow,
    amendment: Amendment,
    id_: str,
    impact: Impact,
    all_anew: bool,
    counting_tasks: dict[str, set[str]],
    in_place: Mapping[str, Collection[str]] | None,
) -> Iterator[TaskForecast]:
    """Yield the number of valid, computed and removed tasks of a sweep stage.

    Yield nothing if the points are defined in a file. ``in_place`` is described in
    `forecast_approval`. The keys of the valid tasks are added to ``counting_tasks``, because the
    tasks of a follower (a stage that reuses the points of another stage) are valid only if their
    partner tasks are.
    """
    partners = [partner.id for partner in find_point_source_stages(state, state.stage(id_))]
    leading = [id_, *partners][-1]
    maps = [one.stage(leading).parameters[MAP] for one in (state, changed)]
    if any(not ("points" in one or "grid" in one or "zip" in one) for one in maps):
        return
    added = points_added_by_rounds(state, leading)
    before, after = (_list_task_keys(one, added) for one in maps)
    stage = state.stage(id_)
    # The numbers of the finished tasks at the last check.
    seen = next((one.tasks["done"] for one in reversed(stage.attempts) if one.tasks), "")
    done = {before[n] for n in parse_ranges(seen) if n < len(before)}
    done &= {*(in_place or {}).get(id_, done)}
    since = amendment.from_round
    anew = len(points_added_from_round(state, leading, since)) if since is not None else 0
    stays = set[str]() if all_anew else {*after[: len(after) - anew]}
    stays &= next((counting_tasks[one] for one in partners[:1] if one in counting_tasks), stays)
    # If earlier rounds stay valid, their failed tasks were accepted and are not computed again.
    left = stays - done if since is not None else set[str]()
    counting = done & stays
    verdicts = (one.stage(stage.id).work.task_check_parameters for one in (state, changed))
    is_judged = next(verdicts) != next(verdicts) and not all_anew
    # Tasks of the newest attempt that were computed, but whose results failed the check.
    failed = ((stage.attempts[-1].tasks if stage.attempts else None) or {}).get("failures", [])
    bad = {one["key"] for one in failed if str(one.get("because")).startswith(VERDICTS)}
    judged = (counting | (bad & {*after})) if is_judged else set()
    # A running attempt that continues computes all its tasks. Only their checks change.
    new = 0 if stage.id in impact.going_on else len({*after} - counting - left - judged)
    took = _newest_duration(stage)
    counting_tasks[id_] = counting | left | judged
    yield TaskForecast(
        stage=stage.id,
        kept=len((counting | left) - judged),
        computed=new,
        aside=len(done - counting),
        seconds=None if took is None else took * new / len(before),
        judged=len(judged),
    )


def _find_blocked_stages(state: Workflow, changed: Workflow, amendment: Amendment) -> set[str]:
    """Return the unfinished stages that could not run after a stage is skipped."""
    if amendment.kind != "stage_skip" or amendment.stage is None:
        return set()
    graph = {stage.id: stage.depends_on for stage in changed.stages.values()}
    below = downstream(graph, {amendment.stage}) - {amendment.stage}
    over = (Status.COMPLETED, Status.SKIPPED)
    return {id_ for id_ in below if id_ in state.stages and state.stages[id_].status not in over}


def _newest_duration(stage: Stage) -> float | None:
    """Return the duration in seconds of the newest ended attempt, or None without one."""
    ended = [attempt for attempt in stage.attempts if attempt.ended_at is not None]
    try:
        return attempt_seconds(ended[-1]) if ended else None
    except (ValueError, TypeError):
        return None  # typed by hand in an imported file


def _suggest_alternatives(
    state: Workflow, amendment: Amendment, impact: Impact, blocked: set[str]
) -> Iterator[str]:
    """Yield a sentence for each alternative change that keeps more results."""
    if blocked:
        yield (
            "with --rewire, the stages after the skipped stage no longer depend on it and can "
            "continue"
        )
    yield from _suggest_new_inputs(state, amendment)
    if amendment.kind == "parameter_change" and sum(impact.seconds.values()) > _NEGLIGIBLE_SECONDS:
        yield (
            "to keep every result, insert a new stage with the other value (--insert). If only a "
            "later stage needs the value, change that stage instead"
        )


def _suggest_new_inputs(state: Workflow, amendment: Amendment) -> Iterator[str]:
    """Yield a hint for each stage whose inputs include files of the skipped stage."""
    for id_ in amendment.rewired if amendment.kind == "stage_skip" else ():
        stage = state.stages.get(id_)
        folder = f"{amendment.stage}/"
        taken = [path for path in stage.inputs if path.startswith(folder)] if stage else []
        if taken and "inputs" not in amendment.rewired[id_]:
            yield (
                f"{id_} uses {', '.join(taken)} of the skipped stage, so change the inputs of "
                f"{id_} too (--stage {id_} --set inputs=JSON)"
            )
