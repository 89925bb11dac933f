"""Suggest the next commands for the current state of a workflow.

Each suggested command is accepted and changes the state. If it needs further arguments, or if only
a person may run it, the suggestion states this. No suggested command destroys data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from lifecycle.state.basis import find_reusable_attempts
from lifecycle.state.conditions import (
    Hindrance,
    advise_after_rejected_points,
    find_hindrances,
    find_stage_hindrance,
    has_run_rejected_points,
    open_amendments_of_failed_stage,
    upstream,
)
from lifecycle.state.session_budget import (
    estimate_stage_cost,
    is_over_session_budget,
    maximum_session_cost,
)
from lifecycle.state.status import Status, retry_limit
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.mandates import format_count
from projections.words.account import (
    Deviation,
    FileCheckResult,
    find_stale_stages,
    list_recorded_deviations,
    list_waiting_items,
)
from projections.words.result_origin import AttentionItem
from projections.words.text import NextAction


class StartObstacle(NamedTuple):
    """The reason why a stage cannot start, and the command that removes the obstacle."""

    why: str
    action: NextAction

    def to_hindrance(self, stage: str | None) -> Hindrance:
        """Return this obstacle as a `Hindrance` of a stage.

        If ``stage`` is None, the hindrance belongs to the workflow.
        """
        command, needs = self.action.command, self.action.needs
        return Hindrance(stage, self.why, f"`{command}`", command, needs)


class Surroundings(NamedTuple):
    """Circumstances that affect the next actions but are not in the log.

    - ``driven``: a runner is active. ``drive_again``: the command that replaces a killed runner.
    - ``lacking``: the missing requirements of each stage that cannot start.
    - ``edited``: manually edited fields that wait for a decision, by stage (None: the workflow).
    - ``scripts``: pinned scripts that have changed. ``unpinnable``: why scripts cannot be pinned.
    - ``session``: the reason why the last session could not start.
    - ``beneath``: changed results of the stages on which the next stages depend.
    - ``seen``: the result of a check of all files, or None without a check.
    - ``now``: the current UTC time in ISO 8601, or empty.
    - ``is_attended``: a person at a terminal runs the workflow, so the budget has no effect.
    """

    driven: bool = False
    drive_again: str | None = None
    paused: bool = False
    lacking: Mapping[str, str] = MappingProxyType({})
    edited: Mapping[str | None, Sequence[str]] | None = None
    scripts: Sequence[str] = ()
    unpinnable: Sequence[str] = ()
    session: str | None = None
    prepared: frozenset[str] = frozenset()
    #: Stage whose outputs must be verified → fields in which the launch of its job differed from
    #: the plan.
    launched: Mapping[str, Sequence[str]] = MappingProxyType({})
    beneath: Sequence[Deviation] = ()
    seen: FileCheckResult | None = None
    now: str = ""
    is_attended: bool = False


def is_ready_to_start(state: Workflow, stage: Stage) -> bool:
    """Return whether a stage is ready to start and all its dependencies are completed.

    Amendments that wait for a decision are ignored here.
    """
    waiting = stage.status is Status.READY or (
        stage.status is Status.PREPARING and stage.open_attempt is None
    )
    return waiting and not state.unmet_dependencies(stage)


def dependencies_of_ready_stages(state: Workflow) -> list[str]:
    """Return the dependencies of all stages that are ready to start."""
    due = (stage for stage in state.stages.values() if is_ready_to_start(state, stage))
    return list(dict.fromkeys(id_ for stage in due for id_ in stage.depends_on))


def find_start_obstacle(
    state: Workflow, stage: Stage, around: Surroundings
) -> StartObstacle | None:
    """Return the obstacle that prevents a stage from starting, or None if it can start."""
    return next(_find_bars(state, stage, around), None)


def _find_bars(state: Workflow, stage: Stage, around: Surroundings) -> Iterator[StartObstacle]:
    fields = find_edits_affecting_stage(state, stage.id, around)
    if fields:
        why = f"{', '.join(fields[:3])} was edited by hand"
        way = "adopt or revert the change"
        yield StartObstacle(why, NextAction("wfctl drift show", f"{why}; {way}", person=True))
    yield from _find_changed_inputs(state, stage, around)
    if around.scripts:
        why = f"pinned files have changed: {', '.join(around.scripts)}"
        agree = "wfctl amend propose --set session_config.pin=scripts --reason TEXT"
        way = "restore the old files, or approve the new files"
        yield StartObstacle(why, NextAction(agree, f"{why}; {way}", ("TEXT",), person=True))
    if around.unpinnable:
        why = f"only pinned files may run, but {'; '.join(around.unpinnable)}"
        agree = "wfctl plan apply PLAN --reason TEXT"
        way = "name the scripts, or remove the pin"
        yield StartObstacle(why, NextAction(agree, f"{why}; {way}", ("PLAN", "TEXT"), person=True))
    if state.mandates_for(stage):
        yield from _find_mandate_obstacles(state, stage, around)
    is_limited = stage.status is Status.READY and not around.is_attended
    if is_limited and is_over_session_budget(state, stage):
        yield build_cost_obstacle(state, stage)
    lacking = around.lacking.get(stage.id)
    if not (lacking or stage.parameters.get("command") or stage.id in around.prepared):
        lacking = f"{stage.id}/submission.json, or parameters.command by an amendment"
    if lacking is not None:
        reason = f"{stage.id} is {stage.status}"
        action = NextAction(f"wfctl dispatch {stage.id}", reason, (lacking,))
        yield StartObstacle(f"{lacking} is missing", action)


def _find_mandate_obstacles(
    state: Workflow, stage: Stage, around: Surroundings
) -> Iterator[StartObstacle]:
    """Yield an obstacle for each mandate that excludes the stage.

    A mandate is a permission given in advance. Limits that depend on files are checked later, when
    the stage starts.
    """
    from lifecycle.rules.mandates import command_to_widen, list_refusing_mandates
    from lifecycle.state.effort import task_count

    least = 1 if stage.keeps_tasks else task_count(state, stage)
    for name, objections in list_refusing_mandates(state, stage, least, around.now).items():
        why = f"the mandate {name} does not allow an attempt: {'; '.join(objections)}"
        grant = command_to_widen(name)
        needs = tuple(word for word in ("FILE", "NAME=VALUE", "TEXT") if word in grant)
        yield StartObstacle(why, NextAction(grant, f"{stage.id}: {why}", needs, person=True))


def list_hindrances(state: Workflow, around: Surroundings) -> list[Hindrance]:
    """Return everything that prevents stages or the workflow from continuing.

    This includes obstacles from the log, from the files, and from loops that wait for new points.
    """
    told = find_hindrances(state)
    named = {one.stage for one in told}
    due = [
        one
        for one in state.stages.values()
        if is_ready_to_start(state, one) and one.id not in named
    ]
    barred = {
        stage.id: found for stage in due if (found := find_start_obstacle(state, stage, around))
    }
    held = [*told, *(one.to_hindrance(id_) for id_, one in barred.items())]
    session = find_session_obstacle(state, around)
    if session is not None and len(barred) < len(due):
        held.append(session.to_hindrance(None))
    return held + [one.to_hindrance(None) for one in _find_waiting_loop_obstacles(state)]


def _find_waiting_loop_obstacles(state: Workflow) -> Iterator[StartObstacle]:
    """Yield an obstacle for each loop whose next points a stage has already written.

    An optimization loop runs its stages in rounds, with new points in each round. Normally, `wfctl
    run` uses these points. If it ended without using them, the points are invalid, and it would
    refuse them again. The suggested action is then to correct the stage and run it again.
    """
    for name, loop in state.loops.items():
        definition = state.loop(name)
        if not loop.is_due or definition.has_external_proposer or state.pending_amendments:
            continue
        why = f"{name} waits for the points of round {loop.round.number + 1}"
        if not has_run_rejected_points(state, name):
            yield StartObstacle(why, NextAction(GO_ON, why))
            continue
        why = f"{why}; the points in {definition.ask} were refused"
        yield StartObstacle(
            why, NextAction(*advise_after_rejected_points(definition, why), ("TEXT",))
        )


def find_edits_affecting_stage(state: Workflow, stage: str, around: Surroundings) -> list[str]:
    """Return the manually edited fields that affect a stage and wait for a decision.

    These are fields of the stage, of the stages it depends on, and of the workflow.
    """
    edited = around.edited if around.edited is not None else _map_edited_fields(state)
    if not edited:
        return []
    return [
        name for id_ in list_affecting_field_owners(state, stage) for name in edited.get(id_, ())
    ]


def list_affecting_field_owners(state: Workflow, stage: str) -> list[str | None]:
    """Return the owners of all fields that can affect a stage.

    They are the workflow (None), the stage itself, and all stages it depends on.
    """
    graph = {id_: one.depends_on for id_, one in state.stages.items()}
    return [None, stage, *sorted(upstream(graph, [stage]))]


def _map_edited_fields(state: Workflow) -> dict[str | None, list[str]]:
    """Return the manually edited fields that the log records, by the id of their stage."""
    found: dict[str | None, list[str]] = {}
    for name in (name for drift in state.drifts for name in drift.touches):
        found.setdefault(name.partition(".")[0], []).append(name)
    return found


def _find_changed_inputs(
    state: Workflow, stage: Stage, around: Surroundings
) -> Iterator[StartObstacle]:
    """Yield an obstacle for each changed result that the stage would use as an input."""
    known = list_recorded_deviations(state) if around.seen is None else around.seen.deviations
    found = [*known, *around.beneath]
    for one in found:
        if one.what == "result" and one.kind != "touched" and one.stage in stage.depends_on:
            why = str(one)
            way = "restore the file, adopt the change, or compute the stage again"
            action = NextAction(f"wfctl verify {one.stage}", f"{why}; {way}", person=True)
            yield StartObstacle(why, action)


def build_cost_obstacle(state: Workflow, stage: Stage) -> StartObstacle:
    """Return the obstacle for a stage that costs more than the budget of a session.

    The suggested action is to increase the budget to the cost of the stage.
    """
    least = estimate_stage_cost(state, stage)
    why = (
        f"{stage.id} costs {least:g}, which is above the budget of a session, "
        f"{maximum_session_cost(state):g} (session_config.session_budget)"
    )
    change = f"--set session_config.session_budget={least:g}"
    return StartObstacle(
        why, NextAction(f"wfctl amend propose {change} --reason TEXT", why, ("TEXT",))
    )


def find_session_obstacle(state: Workflow, around: Surroundings) -> StartObstacle | None:
    """Return the obstacle that prevents a new session, or None if a session can start.

    Without a session, `wfctl run` cannot run any stage.
    """
    if around.session is not None:
        action = NextAction("wfctl run", "start a new session", (around.session,))
        return StartObstacle(f"the last session could not start: {around.session}", action)
    policy = state.session_config.get("stale", "tell")
    if around.seen is None or policy != "stop":
        return None
    reasons = find_stale_stages(state, around.seen.deviations)
    if not reasons:
        return None
    why = (
        "session_config.stale is stop, so wfctl starts no stage while these results are "
        f"stale: {', '.join(reasons)}"
    )
    return StartObstacle(why, NextAction(f"wfctl rerun {' '.join(reasons)}", why, person=True))


GO_ON = "wfctl run"
#: Maximum number of stages with outdated results in one suggested command, and maximum number of
#: stages named in a reason.
_TOGETHER, _NAMED = 8, 3
_ALONE = Surroundings()


def next_actions(state: Workflow, around: Surroundings = _ALONE) -> list[NextAction]:
    """Return the suggested next actions, the most urgent first.

    Return an empty list if there is nothing to do.
    """
    found = [*_list_decisions(state, list_waiting_items(state, around.seen))]
    if state.workflow_status == "completed":
        return found or [NextAction("wfctl report -", "the workflow is completed")]
    found += _suggest_runner_restart(state, around)
    found += _suggest_for_running_stages(state)
    found += _suggest_for_waiting_loops(state, around)
    barred = around.seen.verdicts if around.seen else {}
    for stage in state.stages.values():
        found += _of_stage(state, stage, around) if stage.id not in barred else []
    return _remove_repeated_commands([*found, *_suggest_start(state, around)])


def suggest_actions_for_stage(state: Workflow, id_: str, around: Surroundings) -> list[NextAction]:
    """Return the suggested actions for one stage.

    These are actions that remove an obstacle to its start, and actions whose command names the
    stage.
    """
    stage = state.stage(id_)
    found = (
        [find_start_obstacle(state, stage, around), find_session_obstacle(state, around)]
        if is_ready_to_start(state, stage)
        else []
    )
    named = [one for one in next_actions(state, around) if id_ in one.command.split()]
    return _remove_repeated_commands([*(one.action for one in found if one is not None), *named])


def _remove_repeated_commands(actions: list[NextAction]) -> list[NextAction]:
    """Return the actions without repeated commands. The first one of each is kept."""
    found: dict[str, NextAction] = {}
    for one in actions:
        found.setdefault(one.command, one)
    return list(found.values())


def _list_decisions(state: Workflow, waiting: list[AttentionItem]) -> Iterator[NextAction]:
    """Yield an action for each decision that waits for a person."""
    for one in waiting:
        if one.kind == "amendment":
            why = f"approve or reject {one.subject}"
            yield NextAction(f"wfctl amend show {one.subject}", why, person=True)
        elif one.kind == "drift":
            why = f"{one.subject} was edited by hand; adopt or revert the change"
            yield NextAction("wfctl drift show", why, person=True)
        elif one.kind == "verdict":
            agree = "wfctl amend propose --set session_config.pin=scripts --reason TEXT"
            why = (
                f"{one.subject} failed when it ran with different scripts; restore the old files, "
                "or approve the new files"
            )
            yield NextAction(agree, why, ("TEXT",), person=True)
        elif one.is_of_files and one.kind != "stale":
            why = f"{one}; restore the file, adopt the change, or compute the stage again"
            yield NextAction(f"wfctl verify {one.stage}", why, person=True)
    yield from _suggest_rerun(state, [one for one in waiting if one.kind == "stale"])


def _suggest_rerun(state: Workflow, stale: list[AttentionItem]) -> Iterator[NextAction]:
    known = {
        id_
        for amendment in state.pending_amendments
        for id_ in (*amendment.targets, *state.list_parameter_users(amendment))
    }
    named = [one for one in stale if one.subject not in known][:_TOGETHER]
    if named:
        command = f"wfctl rerun {' '.join(one.subject for one in named)}"
        yield NextAction(command, "; ".join(map(str, named)), person=True)


def _suggest_runner_restart(state: Workflow, around: Surroundings) -> Iterator[NextAction]:
    """Suggest restarting a killed background runner, if a stage runs or can start."""
    stages = state.stages.values()
    if around.drive_again is None or around.driven or around.paused:
        return
    if find_session_obstacle(state, around) is not None:
        return
    if any(stage.open_attempt is not None or is_ready_to_start(state, stage) for stage in stages):
        why = "the runner of this workflow was killed, and no other one runs"
        yield NextAction(around.drive_again, why)


def _suggest_for_running_stages(state: Workflow) -> Iterator[NextAction]:
    """Yield actions for running stages.

    For each blocked stage, suggest how to continue. For all others, suggest a single command that
    waits for them.
    """
    going = [stage for stage in state.stages.values() if stage.open_attempt is not None]
    found = [
        one for one in (find_stage_hindrance(state, stage) for stage in going) if one is not None
    ]
    for one in found:
        yield NextAction(one.command, one.short_reason, one.needs)
    hindered = {one.stage for one in found}
    waiting = [stage.id for stage in going if stage.id not in hindered]
    if waiting:
        yield NextAction(
            f"wfctl wait {' '.join(waiting)}", f"{_format_subject(waiting)} in progress"
        )


def _suggest_for_waiting_loops(state: Workflow, around: Surroundings) -> Iterator[NextAction]:
    """Suggest how each waiting optimization loop can continue.

    If a runner is active, suggest only the loops whose points must come from outside.
    """
    yield from () if around.driven else (one.action for one in _find_waiting_loop_obstacles(state))
    for name, loop in state.loops.items():
        if loop.is_due and not state.pending_amendments and state.loop(name).has_external_proposer:
            why = f"{name} waits for the points of round {loop.round.number + 1}"
            yield NextAction(f"wfctl round propose {name} FILE", why, ("FILE",))


def _format_subject(ids: list[str]) -> str:
    if len(ids) == 1:
        return f"{ids[0]} is"
    return f"{', '.join(ids)} are" if len(ids) <= 5 else f"{len(ids)} stages are"


def _of_stage(state: Workflow, stage: Stage, around: Surroundings) -> list[NextAction]:
    match stage.status:
        case Status.PENDING | Status.INVALIDATED if not state.unmet_dependencies(stage):
            return [NextAction(f"wfctl stage ready {stage.id}", f"{stage.id} can start")]
        case Status.POST_PROCESSING:
            return [_suggest_verification(state, stage, around.launched.get(stage.id, ()))]
        case Status.FAILED:
            return _suggest_after_failure(state, stage, around)
    return _suggest_unblocking(state, stage)


def _suggest_unblocking(state: Workflow, stage: Stage) -> list[NextAction]:
    """Return the action that unblocks a stage, as a list with at most one element.

    The list is empty if an attempt is running, or if an amendment that waits for a decision would
    already solve the problem.
    """
    found = find_stage_hindrance(state, stage)
    under_way = found is None or stage.open_attempt is not None
    if found is None or under_way or open_amendments_of_failed_stage(state, stage):
        return []
    return [NextAction(found.command, found.short_reason, found.needs)]


def _suggest_verification(state: Workflow, stage: Stage, unlike: Sequence[str]) -> NextAction:
    attempt = stage.attempt
    if attempt is not None and attempt.outdated_by is not None:
        why = f"computed before {attempt.outdated_by}"
        return NextAction(
            f'wfctl stage fail {stage.id} --error "{why}"',
            f"{stage.id} was {why}, and wfctl runs the stage again",
        )
    if unlike:
        reason = (
            f"the job of {stage.id} was not launched as the plan defines "
            f"({', '.join(unlike):.200}); `wfctl stage retry` then computes it as defined"
        )
        return NextAction(f'wfctl stage fail {stage.id} --error "not launched as defined"', reason)
    found = find_stage_hindrance(state, stage)
    if found is None:
        # The checks may pass or fail. With ``--or-fail``, the command also records a failure.
        command = f"wfctl stage complete {stage.id} --or-fail"
        return NextAction(command, f"check the outputs of {stage.id}")
    reason = f"{stage.id}: {found.why}; or `wfctl stage fail`"
    return NextAction(found.command, reason, found.needs)


def _suggest_after_failure(state: Workflow, stage: Stage, around: Surroundings) -> list[NextAction]:
    """Return the actions that let a failed stage run again.

    Return an empty list if a decision on the stage already waits or has been made, or if its
    dependencies are not completed and retries are left.
    """
    decided = stage.rerun_by is not None or find_edits_affecting_stage(state, stage.id, around)
    used_up = stage.retry_count >= retry_limit(state.backend_type(stage))
    if decided or (state.unmet_dependencies(stage) and not used_up):
        return []
    found = _suggest_unblocking(state, stage)
    return [
        *found,
        *(new for one in found for new in _suggest_retry_keeping_tasks(stage, around, one)),
    ]


def _suggest_retry_keeping_tasks(
    stage: Stage, around: Surroundings, retry: NextAction
) -> Iterator[NextAction]:
    """Yield a variant of the retry command that keeps the finished tasks of a sweep.

    Without this option, a retry computes all tasks again, because the inputs of the stage changed.
    """
    files = around.seen.changed_inputs.get(stage.id) if around.seen is not None else None
    tasks = stage.attempts[-1].tasks if stage.attempts else None
    if files and tasks and tasks["done"] and retry.command.startswith("wfctl stage retry "):
        command = f"{retry.command} --failed-only"
        why = f"{stage.id}: {', '.join(files)} changed; this command keeps the finished tasks"
        yield NextAction(command, why, ("TEXT",), person=True)


def _suggest_start(state: Workflow, around: Surroundings) -> Iterator[NextAction]:
    """Suggest a command that starts the stages that can start.

    Suggest nothing if a runner is active, because it starts them. If the runner is paused, suggest
    resuming it. For stages that cannot start, suggest how to remove the obstacle.
    """
    ready = [stage for stage in state.stages.values() if is_ready_to_start(state, stage)]
    if not ready or state.pending_amendments or around.driven:
        return
    if around.paused:
        why = f"the runner is paused, and {format_count(len(ready), 'stage')} can start"
        yield NextAction("wfctl runner resume", why, person=True)
        return
    barred = {
        stage.id: found for stage in ready if (found := find_start_obstacle(state, stage, around))
    }
    able = [stage for stage in ready if stage.id not in barred]
    session = find_session_obstacle(state, around)
    if able and session is not None:
        yield session.action
    elif len(able) == 1:
        why = f"{able[0].id} is {able[0].status}{_describe_reuse_option(state, able[0])}"
        yield NextAction(f"wfctl dispatch {able[0].id}", why)
    elif able:
        names = ", ".join(stage.id for stage in able[:_NAMED]) + (
            " …" if len(able) > _NAMED else ""
        )
        yield NextAction(GO_ON, f"{len(able)} stages can start: {names}")
    yield from (
        found.action
        for found in islice(
            {found.action.command: found for found in barred.values()}.values(), _NAMED
        )
    )


def _describe_reuse_option(state: Workflow, stage: Stage) -> str:
    """Return a hint that the stage can reuse the outputs of an earlier run.

    Return an empty string if no earlier run has the same definition.
    """
    if state.session_config.get("reuse") == "never" or stage.status is not Status.READY:
        return ""
    one = next(iter(find_reusable_attempts(state, stage)), None)
    if one is None:
        return ""
    return (
        f"; if its inputs are unchanged, `wfctl stage reuse {stage.id}` takes the outputs of "
        f"{one.id}, which has the same definition"
    )
