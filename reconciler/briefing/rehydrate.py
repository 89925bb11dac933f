"""After a lost session: what is so now, what was repaired, what comes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lifecycle.payload import models as p
from lifecycle.state.conditions import budget_of
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import Workflow
from projections.screens.next_actions import GO_ON, Surroundings, is_due, next_actions, session_bar
from projections.words.account import account
from projections.words.amendments import summary
from projections.words.answers import answers
from projections.words.came_about import Item, counts_of, line_of
from projections.words.mandates import standings
from projections.words.text import NextAction
from reconciler.briefing.briefing import BriefCriteria, Briefing, BriefItem, BriefVerdict, Repair
from reconciler.files.freshness import deviations, look, unfit, unrecorded
from service.files.surroundings import surroundings
from service.questions.meanwhile import Happened, happened_since, last_note

if TYPE_CHECKING:
    from reconciler.context import Jobs
    from reconciler.control.strangers import AttemptFinding

_WAITS = (Status.READY, Status.PREPARING)
#: `reconciler.verdict.table.Action.WAIT`, whose module is only needed where there is a finding.
_WAIT = "wait"
_DIED = "record that its preparation died with its session"
_ALONE = Surroundings()


def rehydrate(jobs: Jobs, *, dry_run: bool = False) -> Briefing:
    """Fold the log, look at everything in flight, repair what can be repaired."""
    known = jobs.service.state().head
    if not dry_run:
        jobs.service.files.take_in()
    before = jobs.service.state()
    findings = _reconciled(jobs, before, dry_run)
    now = before if dry_run else jobs.service.state()
    died = [id_ for id_ in before.stages if _died(before, id_) and _died(now, id_)]
    if not dry_run:
        news = unrecorded(jobs.service.root, now, deviations(jobs.root, now))
        if news:
            jobs.acting_as("reconciler").record(*news)
        for id_ in died:
            with jobs.sole(id_):
                if _died(jobs.service.state(), id_):
                    failed = p.StageFailed(stage=id_, error="died while preparing")
                    jobs.acting_as("reconciler").record(failed)
        jobs.service.files.bring_up_to_date()
    history = happened_since(jobs.service.log, known, before.head)
    state = jobs.service.state()
    seen = look(jobs.service.root, jobs.service.log, state)
    around = surroundings(jobs.service.root, state, jobs.service.log, seen)
    around = replace(around, lacking={**unfit(jobs.root, state), **around.lacking})
    briefing = briefing_of(before, state, findings, died, history, around)
    return replace(briefing, noted=last_note(jobs.service.log, known))


def briefing_of(
    before: Workflow,
    state: Workflow,
    findings: Sequence[AttemptFinding],
    died: Sequence[str],
    history: Sequence[Happened],
    around: Surroundings = _ALONE,
) -> Briefing:
    """Return what there is to be told.

    ``before`` and ``state`` are those around the repairs, ``died`` the stages whose preparation
    died, ``history`` the last act before and what followed it, ``around`` what no log tells.
    """
    items, session, stages = account(state, around.seen), state.session, state.stages.values()
    found, denied, repaired = list[BriefVerdict](), list[BriefItem](), list[Repair]()
    if findings:
        from reconciler.briefing import findings_told

        found = [findings_told.found_of(one) for one in findings]
        denied = [item for one in findings for item in findings_told.contradictions(one)]
        repaired = [done for one in findings for done in findings_told.repairs(one)]
    denied += (BriefItem(one.kind, (one.subject,), one.text) for one in items if _is_unfit(one))
    waits = (one for one in items if one.person and not _is_unfit(one))
    return Briefing(
        workflow=state.id,
        purpose=state.purpose,
        status=state.workflow_status or "active",
        version=state.head,
        last_recorded=before.updated,
        counts=dict(Counter(stage.status.value for stage in stages)),
        session={  # open without an end it may have died
            "number": session.count,
            "started_at": session.id,
            "cost": session.cost,
            "budget": budget_of(state),
            "exit_reason": session.exit_reason,
            "open": session.is_open,
        },
        stages=tuple(
            {"id": one.id, "name": one.name, "status": one.status.value, "last_error": one.error}
            for one in stages
        ),
        since=history[0] if history else None,
        meanwhile=tuple(history[1:]),
        found=(*found, *_others(state, findings)),
        contradictions=tuple(denied),
        repaired=(*repaired, *(Repair((id_,), _DIED) for id_ in died)),
        waiting=tuple(BriefItem(one.kind, (one.subject,), one.text) for one in waits),
        actions=tuple(_actions(state, around)),
        judged=tuple(_judged(state)),
        results=tuple(str(one) for one in answers(state, around.seen) if one.number),
        mandates=tuple(map(str, standings(state))),
        loops=tuple(_loops(state)),
        decided=_decision(state),
    )


def _loops(state: Workflow) -> Iterator[str]:
    if state.loops:
        from projections.words.rounds import loops_told  # only if there is one

        yield from map(str, loops_told(state))


def _is_unfit(one: Item) -> bool:
    """Whether it does not fit what was recorded: a result, and what rests on it."""
    return one.is_of_files and one.kind != "drift"


def _judged(state: Workflow) -> Iterator[BriefCriteria]:
    for stage in state.stages.values():
        if stage.status not in (*ACTIVE, Status.FAILED) and not is_due(state, stage):
            continue
        seen = next((one.tasks for one in reversed(stage.attempts) if one.tasks), None)
        tasks = line_of(counts_of(seen)) if seen is not None else ""
        if stage.success_criteria or tasks:
            yield BriefCriteria(stage.id, stage.success_criteria or "", tasks)


def _decision(state: Workflow) -> str | None:
    """Return the last decision of a person on an amendment or on the plan, in words."""
    decided = [one for one in state.amendments.values() if one.decided_at is not None]
    if not decided:
        return None
    last = max(decided, key=lambda one: str(one.decided_at))
    by = f" by {last.approved_by}" if last.approved_by else ""
    return f"{last.id} {last.status}{by}: {summary(last)}"


def _reconciled(jobs: Jobs, state: Workflow, dry_run: bool) -> Sequence[AttemptFinding]:
    """Reconcile; a root in which nothing is under way or to be stopped loads nothing for it."""
    newest = (stage.attempt for stage in state.stages.values())
    under_way = any(one is not None and (one.is_open or one.is_to_stop) for one in newest)
    # A job may have been launched by hand for a stage that nothing was launched for.
    waiting = [one.id for one in state.stages.values() if one.status in _WAITS]
    if not under_way and waiting:
        from reconciler.attempt.paths import WRAPPER

        under_way = any((jobs.root / id_ / WRAPPER).exists() for id_ in waiting)
    if not under_way:
        return []
    from reconciler.control.reconcile import reconcile

    return reconcile(jobs, dry_run=dry_run)


def _died(state: Workflow, id_: str) -> bool:
    stage = state.stages[id_]
    return stage.status is Status.PREPARING and stage.open_attempt is None


def _others(state: Workflow, findings: Iterable[AttemptFinding]) -> Iterator[BriefVerdict]:
    """Yield attempts under way, as the log alone knows them, that were not looked at.

    Others started or settled them meanwhile.
    """
    seen = {(finding.stage, finding.attempt) for finding in findings}
    for stage in state.stages.values():
        one = stage.open_attempt
        under_way = stage.status in (Status.PREPARING, Status.RUNNING)
        if one is None or not under_way or (stage.id, one.id) in seen:
            continue
        name = one.verdict or ("LAUNCHED" if one.launched_at else "STARTED")
        reason = one.reason or "as the log has it"
        yield BriefVerdict((stage.id,), one.id, name, one.action or _WAIT, one.row, reason)


def _actions(state: Workflow, around: Surroundings) -> list[NextAction]:
    """Return what leads on; the loop first, where it would do something and nobody runs it."""
    known = next_actions(state, around)
    open_ = [action for action in known if not (action.needs or action.person)]
    held = around.driven or around.paused or session_bar(state, around) is not None
    if state.workflow_status == "completed" or held or not open_:
        return known
    others = [action for action in known if action.command != GO_ON]
    return [NextAction(GO_ON, "goes on with whatever needs nobody"), *others]
