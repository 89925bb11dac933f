"""Recover after a lost session: report the current state, the repairs and the next steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.payload import models as p
from lifecycle.state.basis import has_outdated_tasks
from lifecycle.state.session_budget import maximum_session_cost
from lifecycle.state.status import ACTIVE, FINISHED, Status
from lifecycle.state.workflow import Workflow
from projections.screens.next_actions import (
    GO_ON,
    Surroundings,
    find_session_obstacle,
    is_ready_to_start,
    next_actions,
)
from projections.words.account import list_attention_items
from projections.words.amendments import summarise_changes
from projections.words.format_results import list_named_results
from projections.words.mandates import list_mandates
from projections.words.result_origin import AttentionItem
from projections.words.stage_progress import count_tasks_by_state, format_task_progress
from projections.words.text import NextAction
from reconciler.briefing.briefing import BriefCriteria, Briefing, BriefItem, BriefVerdict, Repair
from reconciler.files.freshness import build_change_records, find_deviations, find_log_differences
from reconciler.files.stages_to_correct import find_stages_to_correct
from service.files.stage_obstacles import read_surroundings
from service.questions.recent_events import PastEvent, last_note, list_events_since_last_act

if TYPE_CHECKING:
    from reconciler.context import JobContext
    from reconciler.control.judge_attempts import AttemptFinding

_WAITS = (Status.READY, Status.PREPARING)
#: Equals `reconciler.verdict.table.Action.WAIT`. That module is imported only if there are
#: findings.
_WAIT = "wait"
_DIED = "record that the preparation was interrupted when its session ended"
_ALONE = Surroundings()

#: Maximum number of stages whose success criteria are printed. Stages in progress are always
#: printed, even if there are more.
_MAX_STAGES = 8


def rehydrate(jobs: JobContext, *, dry_run: bool = False) -> Briefing:
    """Recover a workflow after a lost session, and return the briefing for the next one.

    Computes the state from the log, inspects all running attempts and repairs what is possible.
    With ``dry_run``, writes and repairs nothing.
    """
    known = jobs.service.state().head
    if not dry_run:
        jobs.service.files.record_foreign_changes()
    before = jobs.service.state()
    findings = _reconcile_if_needed(jobs, before, dry_run)
    now = before if dry_run else jobs.service.state()
    root = jobs.root
    died = [
        id_
        for id_ in before.stages
        if _has_interrupted_preparation(root, before, id_)
        and _has_interrupted_preparation(root, now, id_)
    ]
    if not dry_run:
        news = build_change_records(jobs.service.root, now, find_deviations(jobs.root, now))
        if news:
            jobs.acting_as("reconciler").record(*news)
        for id_ in died:
            with jobs.lock_stage(id_):
                if _has_interrupted_preparation(root, jobs.service.state(), id_):
                    failed = p.StageFailed(stage=id_, error="interrupted during preparation")
                    jobs.acting_as("reconciler").record(failed)
        jobs.service.files.bring_up_to_date()
    history = list_events_since_last_act(jobs.service.log, known, before.head)
    state = jobs.service.state()
    seen = find_log_differences(jobs.service.root, jobs.service.log, state)
    around = read_surroundings(jobs.service.root, state, jobs.service.log, seen)
    around = around._replace(lacking={**find_stages_to_correct(jobs.root, state), **around.lacking})
    briefing = briefing_of(before, state, findings, died, history, around)
    return replace(briefing, noted=last_note(jobs.service.log, known))


def briefing_of(
    before: Workflow,
    state: Workflow,
    findings: Sequence[AttemptFinding],
    died: Sequence[str],
    history: Sequence[PastEvent],
    around: Surroundings = _ALONE,
) -> Briefing:
    """Build the briefing from states and findings that were already collected.

    ``before`` and ``state`` are the states before and after the repairs. ``died`` names the stages
    whose preparation was interrupted. ``history`` contains the last action and the events after it.
    ``around`` contains facts that are not in the log.
    """
    items = list_attention_items(state, around.seen)
    session, stages = state.session, state.stages.values()
    found, denied, repaired = list[BriefVerdict](), list[BriefItem](), list[Repair]()
    if findings:
        from reconciler.briefing import format_findings

        found = [format_findings.build_brief_verdict(one) for one in findings]
        denied = [item for one in findings for item in format_findings.find_contradictions(one)]
        repaired = [done for one in findings for done in format_findings.list_repairs(one)]
    denied += (
        BriefItem(one.kind, (one.subject,), one.text) for one in items if _is_file_mismatch(one)
    )
    waits = (one for one in items if one.person and not _is_file_mismatch(one))
    return Briefing(
        workflow=state.id,
        purpose=state.purpose,
        status=state.workflow_status or "active",
        version=state.head,
        last_recorded=before.updated,
        counts=dict(Counter(stage.status.value for stage in stages)),
        session={  # a session without a recorded end may have crashed
            "number": session.count,
            "started_at": session.id,
            "cost": session.cost,
            "budget": maximum_session_cost(state),
            "exit_reason": session.exit_reason,
            "open": session.is_open,
        },
        stages=tuple(
            {"id": one.id, "name": one.name, "status": one.status.value, "last_error": one.error}
            for one in stages
        ),
        since=history[0] if history else None,
        meanwhile=tuple(history[1:]),
        found=(*found, *_list_uninspected_verdicts(state, findings)),
        contradictions=tuple(denied),
        repaired=(*repaired, *(Repair((id_,), _DIED) for id_ in died)),
        waiting=tuple(BriefItem(one.kind, (one.subject,), one.text) for one in waits),
        actions=tuple(_find_next_actions(state, around)),
        judged=tuple(_list_criteria(state)),
        results=tuple(str(one) for one in list_named_results(state, around.seen) if one.number),
        mandates=tuple(map(str, list_mandates(state))),
        loops=tuple(_describe_loops(state)),
        decided=_describe_last_decision(state),
    )


def _describe_loops(state: Workflow) -> Iterator[str]:
    if state.loops:
        from projections.words.rounds import list_loop_progress  # imported only if a loop exists

        yield from map(str, list_loop_progress(state))


def _is_file_mismatch(one: AttentionItem) -> bool:
    """Return whether an item concerns a file that no longer matches the log.

    Such a file is a result, or an input of a stage that used it. A manual edit of a generated file
    is a different kind of item.
    """
    return one.is_of_files and one.kind != "drift"


def _list_criteria(state: Workflow) -> Iterator[BriefCriteria]:
    """Yield success criteria of unfinished stages, first of active and due stages.

    Later stages are included until `_MAX_STAGES` stages are listed.
    """
    unfinished = [stage for stage in state.stages.values() if stage.status not in FINISHED]
    current = [
        one
        for one in unfinished
        if one.status in (*ACTIVE, Status.FAILED) or is_ready_to_start(state, one)
    ]
    later = [one for one in unfinished if one not in current]
    for stage in [*current, *later[: max(0, _MAX_STAGES - len(current))]]:
        seen = next((one.tasks for one in reversed(stage.attempts) if one.tasks), None)
        is_current = seen is not None and not has_outdated_tasks(state, stage)
        tasks = (
            format_task_progress(count_tasks_by_state(seen))
            if seen is not None and is_current
            else ""
        )
        if stage.success_criteria or tasks:
            yield BriefCriteria(stage.id, stage.success_criteria or "", tasks)


def _describe_last_decision(state: Workflow) -> str | None:
    """Return one line about the last decision on a plan change, or None if none exists."""
    decided = [one for one in state.amendments.values() if one.decided_at is not None]
    if not decided:
        return None
    last = max(decided, key=lambda one: str(one.decided_at))
    by = f" by {last.approved_by}" if last.approved_by else ""
    return f"{last.decided_at}, {last.id} {last.status}{by}: {summarise_changes(last)}"


def _reconcile_if_needed(
    jobs: JobContext, state: Workflow, dry_run: bool
) -> Sequence[AttemptFinding]:
    """Return findings about attempts if an attempt runs or must be stopped.

    The log is compared with reality for this. Otherwise returns no findings, and does not import
    the slow modules that the comparison needs.
    """
    newest = (stage.attempt for stage in state.stages.values())
    under_way = any(one is not None and (one.is_open or one.is_to_stop) for one in newest)
    # A person may have launched the job of a waiting stage by hand, which the log does not show.
    waiting = [one.id for one in state.stages.values() if one.status in _WAITS]
    if not under_way and waiting:
        from reconciler.attempt.paths import WRAPPER

        under_way = any((jobs.root / id_ / WRAPPER).exists() for id_ in waiting)
    if not under_way:
        return []
    from reconciler.control.reconcile import reconcile_stages

    return reconcile_stages(jobs, dry_run=dry_run)


def _has_interrupted_preparation(root: Path, state: Workflow, id_: str) -> bool:
    """Return whether a session ended while it was preparing the stage.

    If the stage's folder contains a wrapper script that wfctl did not write, a person completed the
    preparation, and the result is False. This is also true if the person removed the submission
    later.
    """
    stage = state.stages[id_]
    if stage.status is not Status.PREPARING or stage.open_attempt is not None:
        return False
    from reconciler.files.hand_launched_jobs import has_foreign_wrapper

    return not has_foreign_wrapper(root / id_)


def _list_uninspected_verdicts(
    state: Workflow, findings: Iterable[AttemptFinding]
) -> Iterator[BriefVerdict]:
    """Yield the recorded verdicts of running attempts that were not inspected in this call.

    Another process started these attempts, or recorded their state, during the inspection.
    """
    seen = {(finding.stage, finding.attempt) for finding in findings}
    for stage in state.stages.values():
        one = stage.open_attempt
        under_way = stage.status in (Status.PREPARING, Status.RUNNING)
        if one is None or not under_way or (stage.id, one.id) in seen:
            continue
        name = one.verdict or ("LAUNCHED" if one.launched_at else "STARTED")
        reason = one.reason or "as recorded in the log"
        yield BriefVerdict((stage.id,), one.id, name, one.action or _WAIT, one.row, reason)


def _find_next_actions(state: Workflow, around: Surroundings) -> list[NextAction]:
    """Return the next actions for the user.

    The command that runs all due stages comes first if work is available and no loop runs already.
    """
    known = next_actions(state, around)
    open_ = [action for action in known if not (action.needs or action.person)]
    held = around.driven or around.paused or find_session_obstacle(state, around) is not None
    if state.workflow_status == "completed" or held or not open_:
        return known
    others = [action for action in known if action.command != GO_ON]
    return [NextAction(GO_ON, "run every stage that can run now"), *others]
