"""After a lost session: what is so now, what was repaired, what comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lifecycle.payload import models as p
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.screens.next_actions import GO_ON, Surroundings, next_actions, session_bar
from projections.words.account import account
from projections.words.text import NextAction
from reconciler.briefing.briefing import (
    Briefing,
    BriefVerdict,
    Repair,
    contradictions_of,
    counts,
    decision_of,
    judged_of,
    session_of,
    under_way,
    waiting_of,
)
from reconciler.briefing.contradictions import Contradiction
from reconciler.files.freshness import deviations, look, unfit, unrecorded
from service.files.inspection import surroundings
from service.questions.meanwhile import Happened, happened_since, last_note

if TYPE_CHECKING:
    from reconciler.context import Jobs
    from reconciler.control.strangers import AttemptFinding

_WAITS = (Status.READY, Status.PREPARING)
_DIED = "record that its preparation died with its session"


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


_ALONE = Surroundings()


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
    items = account(state, around.seen)
    found, denied, repaired = _of_findings(findings) if findings else ((), (), ())
    return Briefing(
        workflow=state.id,
        purpose=state.purpose,
        status=state.workflow_status or "active",
        version=state.head,
        last_recorded=before.updated,
        counts=counts(state),
        session=session_of(state),
        stages=tuple(
            {"id": one.id, "name": one.name, "status": one.status.value, "last_error": one.error}
            for one in state.stages.values()
        ),
        since=history[0] if history else None,
        meanwhile=tuple(history[1:]),
        found=(*found, *_others(state, findings)),
        contradictions=(*denied, *contradictions_of(items)),
        repaired=(*repaired, *(Repair((id_,), _DIED) for id_ in died)),
        waiting=tuple(waiting_of(items)),
        actions=tuple(_actions(state, around)),
        judged=tuple(judged_of(state)),
        decided=decision_of(state),
    )


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


def _of_findings(
    findings: Sequence[AttemptFinding],
) -> tuple[Iterable[BriefVerdict], Iterable[Contradiction], Iterable[Repair]]:
    from reconciler.briefing.contradictions import of_evidence
    from reconciler.briefing.findings_told import found_of, repairs

    denied = (one for each in findings for one in of_evidence(each.stage, each.evidence))
    return map(found_of, findings), denied, repairs(findings)


def _died(state: Workflow, id_: str) -> bool:
    stage = state.stages[id_]
    return stage.status is Status.PREPARING and stage.open_attempt is None


def _others(state: Workflow, findings: Iterable[AttemptFinding]) -> Iterator[BriefVerdict]:
    """Yield attempts under way that were not looked at: started or settled by others meanwhile."""
    seen = {(finding.stage, finding.attempt) for finding in findings}
    for stage in state.stages.values():
        found = under_way(stage)
        if found is not None and (stage.id, found.attempt) not in seen:
            yield found


def _actions(state: Workflow, around: Surroundings) -> list[NextAction]:
    """Return what leads on; the loop first, where it would do something and nobody runs it."""
    known = next_actions(state, around)
    open_ = [action for action in known if not (action.needs or action.person)]
    held = around.driven or around.paused or session_bar(state, around) is not None
    if state.workflow_status == "completed" or held or not open_:
        return known
    others = [action for action in known if action.command != GO_ON]
    return [NextAction(GO_ON, "goes on with whatever needs nobody"), *others]
