"""What an amendment makes stale, and what a result rests on."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lifecycle.event import UNFOLDABLE
from lifecycle.fold.evolve import apply, goes_on, is_rejudged, keeps_tasks
from lifecycle.fold.rounds import points_since, refresh
from lifecycle.payload import models as p
from lifecycle.state.conditions import added_points, downstream, is_judged_alone, partners_of
from lifecycle.state.effort import seconds_of
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import Amendment, Stage, Workflow
from lifecycle.sweeps.definition import MAP, VERDICTS, numbers_of, verdict_of
from lifecycle.words.document import rewired_fields

if TYPE_CHECKING:
    from lifecycle.rules.loops_ahead import LoopAhead

#: An attempt was begun, and no result of it counts yet.
_TRIED = ACTIVE | {Status.FAILED}
#: Fields that say what a stage is called or means, not what it computes.
_HARMLESS = frozenset({"name"})


@dataclass(frozen=True, slots=True)
class Impact:
    """What an approval brings about; stages in array order.

    ``seconds`` is the computing time thrown away by stage, from the recorded attempts.
    """

    #: Every stage that is transitively affected, whatever its status.
    affected: tuple[str, ...] = ()
    #: Stages that become invalidated: completed ones, and any that rests on what runs again.
    invalidated: tuple[str, ...] = ()
    #: Stages under way that are stopped: stage → attempt, None if none was started.
    stopped: Mapping[str, str | None] = field(default_factory=dict)
    #: Stage → the folder that its outputs are kept as before it runs again.
    kept: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    #: Stages whose kept results are judged anew; computed only where they do not hold.
    judged: tuple[str, ...] = ()
    #: Stages that are computed again once they may run; tasks of a sweep whose points change aside.
    again: tuple[str, ...] = ()
    #: Stage → the attempt under way that goes on, and is judged at its end by what is changed.
    going_on: Mapping[str, str | None] = field(default_factory=dict)

    def binding(self) -> dict[str, Any]:
        """Return what an approval is bound to: all that becomes of stages at once."""
        return {
            "affected": list(self.affected),
            "invalidated": list(self.invalidated),
            "stopped": dict(self.stopped),
            "kept": dict(self.kept),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**self.binding(), "seconds_thrown_away": dict(self.seconds)}


def impact_of(
    state: Workflow,
    amendment: Amendment,
    found: Mapping[str, int] | None = None,
    now: str | None = None,
    *,
    stops_all: bool = False,
) -> Impact:
    """Return the impact of approving the amendment in ``state``.

    ``stops_all``: as it was while a change of the verdict alone stopped what was under way.
    ``found`` gives by stage the highest K of the ``stage-N.vK`` on the disk; ``now`` (UTC,
    ISO 8601) ends the time of what is still running.
    """
    reach = reach_of(state, amendment)
    affected = [stage for stage in state.stages.values() if stage.id in reach.affected]
    under_way = [stage for stage in reach.stages(state) if stage.status in ACTIVE]
    going_on = [s for s in under_way if not stops_all and goes_on(state, amendment, s)]
    stopped = [stage for stage in under_way if stage not in going_on]
    invalidated = [stage for stage in affected if _is_invalidated(reach, stage)]
    again = {stage.id for stage in (*invalidated, *stopped)}
    # An attempt that failed would be another now; somebody has it run again.
    tried = [s.id for s in affected if s.status is Status.FAILED and s.attempts]
    begun = [s for s in reach.stages(state) if s.id in again or s.id in tried]
    # Results are there, and nothing changes but the verdict on them.
    alone = [s for s in begun if is_rejudged(state, amendment, s.id)]
    judged = [s for s in alone if is_judged_alone(reach.after, reach.after.stages[s.id])]
    # Tasks whose points stay are not computed again.
    wasted = [s for s in begun if s not in judged and not keeps_tasks(state, amendment, s.id)]
    return Impact(
        affected=_ids(affected),
        invalidated=_ids(invalidated),
        stopped=attempts_of(stopped),
        kept=kept_as(
            [s for s in reach.stages(state) if _is_kept(amendment, s, again)], found or {}
        ),
        seconds={
            s.id: seconds_of(s.attempts[-1], now)
            for s in wasted
            if s.attempts and s.status is not Status.FAILED
        },
        judged=_ids(judged),
        again=_ids([s for s in wasted if s.id != reach.skipped]),
        going_on=attempts_of(going_on),
    )


@dataclass(frozen=True, slots=True)
class Reach:
    """How far an amendment reaches: what it defines anew itself, and all that it affects.

    ``after`` is the state with the definition changed, ``skipped`` the stage that is taken out:
    nothing of it is affected, and it may be under way.
    """

    direct: frozenset[str]
    affected: frozenset[str]
    after: Workflow
    skipped: str | None

    def stages(self, state: Workflow) -> list[Stage]:
        """Return the stages that are reached in any way, in array order."""
        return [s for s in state.stages.values() if s.id in self.direct or s.id in self.affected]


def reach_of(state: Workflow, amendment: Amendment) -> Reach:
    """Return how far an amendment reaches in ``state``."""
    changed = state.draft()
    apply(changed, amendment)
    refresh(changed, state.updated)
    direct = _direct(state, changed, amendment) | _behind_loops(state, changed)
    reached = set(direct)
    for one in (state, changed):
        reached |= downstream({s.id: s.depends_on for s in one.stages.values()}, direct)
    skipped = amendment.stage if amendment.kind == "stage_skip" else None
    return Reach(frozenset(direct), frozenset(reached - {skipped}), changed, skipped)


def acting_on(state: Workflow) -> dict[str, list[str]]:
    """Return by stage the amendments that wait for a decision and would act on it."""
    found: dict[str, list[str]] = {}
    for amendment in state.pending_amendments:
        try:
            reached = None if amendment.is_plan else reach_of(state, amendment).stages(state)
        except UNFOLDABLE:
            continue  # a row that no rule let in: it is never approved, and acts on nothing
        for stage in state.stages.values() if reached is None else reached:
            found.setdefault(stage.id, []).append(amendment.id)
    return found


def _is_invalidated(reach: Reach, stage: Stage) -> bool:
    """Whether what the stage did counts no longer, and it waits for what it rests on."""
    if stage.status not in _TRIED:
        return stage.status is Status.COMPLETED
    stages = reach.after.stages
    return any(
        need in reach.affected
        or need == reach.skipped
        or stages[need].status is not Status.COMPLETED
        for need in stages[stage.id].depends_on
    )


def _ids(stages: list[Stage]) -> tuple[str, ...]:
    return tuple(stage.id for stage in stages)


def _direct(state: Workflow, changed: Workflow, amendment: Amendment) -> set[str]:
    """Return the stages whose own definition is no longer what their results came from."""
    found = {
        id_
        for id_, change in amendment.rewired.items()
        if not set(rewired_fields(change)) <= _HARMLESS
    }
    if amendment.stage is not None:
        changes_only = amendment.kind != "stage_rerun" and bool(amendment.changes)
        harmless = changes_only and set(amendment.changes) <= _HARMLESS
        return found if harmless else found | {*amendment.targets}
    return found | {
        stage.id
        for stage in state.stages.values()
        if _backend(state, stage) != _backend(changed, changed.stages[stage.id])
    }


def _behind_loops(state: Workflow, changed: Workflow) -> set[str]:
    """Return the stages behind loops that were over, and go on by what changes."""
    going_on = [name for name in going_on_again(state, changed) if name in changed.loops]
    own = {id_ for name in going_on for id_ in changed.loops[name].stages}
    return {
        stage.id
        for stage in changed.stages.values()
        if stage.id not in own and own.intersection(stage.depends_on)
    }


def going_on_again(state: Workflow, changed: Workflow) -> list[str]:
    """Return the loops that were over before a change, and are not after it."""
    over = [name for name, loop in state.loops.items() if loop.over is not None]
    return [name for name in over if name in changed.loops and changed.loops[name].over is None]


def _backend(state: Workflow, stage: Stage) -> Any:
    return (stage.backend or state.default_backend, state.profile(stage))


def _is_kept(amendment: Amendment, stage: Stage, again: Container[str]) -> bool:
    """Whether the stage runs again and has something to keep."""
    if stage.id == amendment.stage and amendment.kind == "stage_skip":
        return False
    if stage.status is Status.COMPLETED:
        return True
    is_rerun = amendment.kind == "stage_rerun" and stage.id in amendment.targets
    return (stage.id in again or (is_rerun and stage.status is Status.FAILED)) and has_run(stage)


def has_run(stage: Stage) -> bool:
    """Whether an attempt of the stage may have left something that is not kept already."""
    return bool(stage.attempts) and stage.keep_as is None


def attempts_of(stages: list[Stage]) -> dict[str, str | None]:
    """Return by stage its newest attempt."""
    return {stage.id: stage.attempts[-1].id if stage.attempts else None for stage in stages}


def kept_as(stages: list[Stage], found: Mapping[str, int]) -> dict[str, str]:
    """Return by stage the folder that is next in its row."""
    return {s.id: f"{s.id}.v{max(s.kept, found.get(s.id, 0)) + 1}" for s in stages}


def binding_before(
    state: Workflow, amendment: Amendment, found: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return the impact of an approval as it was shown then, as plain JSON values."""
    reach = reach_of(state, amendment)
    affected = [stage for stage in state.stages.values() if stage.id in reach.affected]
    under_way = [stage for stage in reach.stages(state) if stage.status in ACTIVE]
    rerun = amendment.stage if amendment.kind == "stage_rerun" else None

    def is_kept(stage: Stage) -> bool:
        again = stage.status in ACTIVE and stage.id in reach.direct
        again = again or (stage.status is Status.FAILED and stage.id == rerun)
        return stage.status is Status.COMPLETED or (again and has_run(stage))

    return {
        "affected": [stage.id for stage in affected],
        "invalidated": [stage.id for stage in affected if stage.status is Status.COMPLETED],
        "stopped": attempts_of([stage for stage in under_way if stage.id in reach.direct]),
        "outdated": [stage.id for stage in under_way if stage.id not in reach.direct],
        "kept": kept_as([stage for stage in affected if is_kept(stage)], found or {}),
    }


_HEX_DIGITS = 64


def rests_on(state: Workflow, stage: Stage) -> p.RestsOn:
    """Return what the result of a stage rests on now.

    Events that are decided together with the result have no hash yet, and are left out.
    """
    source = stage.source
    record = ((source.tasks or {}).get("record") or {}) if source is not None else {}
    return p.RestsOn(
        attempt=_recorded(source.event) if source is not None else None,
        definition=sha256(definition_text(stage)).hexdigest(),
        tasks=record.get("sha256"),
        approvals={
            one.id: one.approval for one in _agreed(state, stage) if _recorded(one.approval)
        },
    )


def stage_definition(stage: Stage) -> dict[str, Any]:
    """Return what is computed by a stage and how it is judged, as a plan has it."""
    fields = ("id", "name", "depends_on", "backend", "inputs", "outputs", "parameters")
    return {f: getattr(stage, f) for f in (*fields, "success_criteria")}


def definition_text(stage: Stage) -> bytes:
    """Return the definition of a stage as it is digested: JSON, keys sorted, no spaces."""
    said = stage_definition(stage)
    text = json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogateescape")


def _agreed(state: Workflow, stage: Stage) -> Iterator[Amendment]:
    """Yield what a person agreed to of the stage: the plan, and what changed it or all stages."""
    for one in state.amendments.values():
        inserted = (one.insert or {}).get("id") == stage.id
        names_it = one.stage is None or stage.id in (*one.targets, *one.rewired) or inserted
        if one.status == "approved" and one.record is None and names_it:
            yield one


def _recorded(hash_: str) -> str | None:
    return hash_ if len(hash_) == _HEX_DIGITS else None


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
    #: Stage that is computed again → how long it took before; None if it never ended.
    again: tuple[tuple[str, float | None], ...] = ()
    #: Completed stages whose results go on to count.
    results_kept: tuple[str, ...] = ()
    #: What becomes of the tasks of a stage whose points alone change.
    tasks: tuple[TasksAhead, ...] = ()
    #: Loops that go on by it, end by it, or have numbers that count no longer.
    loops: tuple[LoopAhead, ...] = ()
    #: Stages whose kept results are judged anew; computed only where they do not hold.
    judged: tuple[str, ...] = ()
    #: Stage → inputs that changed since its newest attempt read them: no task of it stays.
    changed_inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
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
            "changed_inputs": {id_: list(paths) for id_, paths in self.changed_inputs.items()},
            "tasks": {one.stage: one.to_dict() for one in self.tasks},
            "loops": {one.loop: one.to_dict() for one in self.loops},
        }


def foresee(
    state: Workflow,
    amendment: Amendment,
    impact: Impact,
    changed_inputs: Mapping[str, Sequence[str]] | None = None,
) -> Foresight:
    """Return what follows from approving the amendment in ``state``.

    ``changed_inputs`` gives by stage the inputs that are others now than its newest attempt read.
    """
    from lifecycle.rules.loops_ahead import loops_ahead  # most commands ask for no foresight

    changed = reach_of(state, amendment).after
    blocked = _blocked(state, changed, amendment)
    stages = state.stages.values()
    again = {*impact.again} - blocked
    done = [stage.id for stage in stages if stage.status is Status.COMPLETED]
    kept = tuple(id_ for id_ in done if id_ not in impact.affected and id_ != amendment.stage)
    swept = stages_by_task(state, amendment, impact)
    others = {id_: paths for id_, paths in (changed_inputs or {}).items() if id_ in swept}
    counting = dict[str, set[str]]()
    tasks = tuple(
        one
        for id_ in swept
        for one in _tasks(state, changed, amendment, id_, impact, id_ in others, counting)
    )
    return Foresight(
        blocked=tuple(id_ for id_ in state.stages if id_ in blocked),
        again=tuple((stage.id, _took(stage)) for stage in stages if stage.id in again),
        judged=impact.judged,
        results_kept=kept,
        tasks=tasks,
        changed_inputs=others,
        loops=tuple(loops_ahead(state, changed, amendment, impact.affected)),
        cheaper=tuple(_cheaper(state, amendment, impact, blocked)),
    )


def stages_by_task(state: Workflow, amendment: Amendment, impact: Impact) -> list[str]:
    """Return the stages of which an amendment computes only some tasks, the leading ones first."""
    named = [amendment.stage] if amendment.stage is not None else [*amendment.rewired]
    followers = [id_ for id_ in impact.affected if partners_of(state, state.stage(id_))]
    rejudged = [id_ for id_ in followers if is_rejudged(state, amendment, id_)]
    swept = dict.fromkeys([*named, *(id_ for id_ in followers if id_ not in rejudged)])
    found = [id_ for id_ in swept if keeps_tasks(state, amendment, id_)]
    return sorted(found, key=lambda id_: len(partners_of(state, state.stage(id_))))


#: Names of folders that any value may have: the keys alone are asked for.
_FOLDERS = {"folders": "digest"}


def _tasks(
    state: Workflow,
    changed: Workflow,
    amendment: Amendment,
    id_: str,
    impact: Impact,
    all_anew: bool,
    counting_tasks: dict[str, set[str]],
) -> Iterator[TasksAhead]:
    """Yield what becomes of the tasks of a sweep; nothing if a file names its points.

    ``counting_tasks`` has by stage the keys of the tasks that stay, which this function adds to:
    of a follower, no task stays whose partner task does not.
    """
    partners = [partner.id for partner in partners_of(state, state.stage(id_))]
    leading = [id_, *partners][-1]
    maps = [one.stage(leading).parameters[MAP] for one in (state, changed)]
    if any(not ("points" in one or "grid" in one or "zip" in one) for one in maps):
        return
    from lifecycle.sweeps.points import points  # it loads readers of files, which few commands need

    added = added_points(state, leading)
    of = [points({"points": added, **_FOLDERS})] if added else []
    before, after = (tuple(p.key for some in (points(one), *of) for p in some) for one in maps)
    stage = state.stage(id_)
    # As they were when they were last looked at.
    seen = next((one.tasks["done"] for one in reversed(stage.attempts) if one.tasks), "")
    done = {before[n] for n in numbers_of(seen) if n < len(before)}
    since = amendment.from_round
    anew = len(points_since(state, leading, since)) if since is not None else 0
    stays = set[str]() if all_anew else {*after[: len(after) - anew]}
    stays &= next((counting_tasks[one] for one in partners[:1] if one in counting_tasks), stays)
    # What failed in rounds that stay as they are was tolerated, and stays too.
    left = stays - done if since is not None else set[str]()
    counting = done & stays
    verdicts = (verdict_of(one.stage(stage.id).parameters) for one in (state, changed))
    is_judged = next(verdicts) != next(verdicts) and not all_anew
    # Those of the newest attempt that were computed and did not pass.
    failed = ((stage.attempts[-1].tasks if stage.attempts else None) or {}).get("failures", [])
    bad = {one["key"] for one in failed if str(one.get("because")).startswith(VERDICTS)}
    judged = (counting | (bad & {*after})) if is_judged else set()
    # An attempt that goes on computes all that it was given; its verdicts alone are given anew.
    new = 0 if stage.id in impact.going_on else len({*after} - counting - left - judged)
    took = _took(stage)
    counting_tasks[id_] = counting | left | judged
    yield TasksAhead(
        stage=stage.id,
        kept=len((counting | left) - judged),
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
