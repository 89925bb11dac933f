"""After a lost session: what is so now, what was repaired, what comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lifecycle import payload as p
from lifecycle.status import Status
from lifecycle.workflow import Workflow
from projections.next_actions import NextAction, next_actions
from reconciler.briefing import (
    Briefing,
    Found,
    Repair,
    counts,
    found_of,
    session_of,
    under_way,
    waiting_of,
)
from reconciler.contradictions import Contradiction, of_evidence, of_state
from reconciler.finding import Finding
from reconciler.jobs import Jobs
from reconciler.reconcile import reconcile
from reconciler.verdict import Action
from service.meanwhile import Happened, happened_since

_DIED = "record that its preparation died with its session"


def rehydrate(jobs: Jobs, *, dry_run: bool = False) -> Briefing:
    """Fold the log, look at everything in flight, repair what can be repaired."""
    known = jobs.service.state().head
    if not dry_run:
        jobs.service.files.take_in()
    before = jobs.service.state()
    findings = reconcile(jobs, dry_run=dry_run)
    died = [stage.id for stage in before.stages.values() if _died(before, stage.id)]
    if not dry_run:
        _end_preparations(jobs.acting_as("reconciler"), died)
        jobs.service.files.bring_up_to_date()
    history = happened_since(jobs.service.log, known, before.head)
    return briefing_of(before, jobs.service.state(), findings, died, history)


def briefing_of(
    before: Workflow,
    state: Workflow,
    findings: Sequence[Finding],
    died: Sequence[str],
    history: Sequence[Happened],
) -> Briefing:
    """Return what there is to be told.

    ``before`` and ``state`` are those around the repairs, ``died`` the stages whose preparation
    died, ``history`` the last act before and what followed it.
    """
    return Briefing(
        workflow=state.id,
        status=state.workflow_status or "active",
        version=state.head,
        last_recorded=before.updated,
        counts=counts(state),
        session=session_of(state),
        stages=tuple(_stage(state, id_) for id_ in state.stages),
        since=history[0] if history else None,
        meanwhile=tuple(history[1:]),
        found=(*map(found_of, findings), *_others(state, findings)),
        contradictions=tuple(_contradictions(state, findings)),
        repaired=(*_repairs(findings), *(Repair((id_,), _DIED) for id_ in died)),
        waiting=tuple(waiting_of(state)),
        actions=tuple(_actions(state)),
    )


def _died(state: Workflow, id_: str) -> bool:
    stage = state.stages[id_]
    return stage.status is Status.PREPARING and stage.open_attempt is None


def _end_preparations(jobs: Jobs, stages: Iterable[str]) -> None:
    for id_ in stages:
        with jobs.sole(id_):
            if _died(jobs.service.state(), id_):
                jobs.record(p.StageFailed(stage=id_, error="died while preparing"))


def _stage(state: Workflow, id_: str) -> dict[str, str | None]:
    stage = state.stages[id_]
    return {
        "id": id_,
        "name": stage.name,
        "status": stage.status.value,
        "last_error": stage.last_error,
    }


def _others(state: Workflow, findings: Iterable[Finding]) -> Iterator[Found]:
    """Yield attempts under way that were not looked at: started or settled by others meanwhile."""
    seen = {(finding.stage, finding.attempt) for finding in findings}
    for stage in state.stages.values():
        found = under_way(stage)
        if found is not None and (stage.id, found.attempt) not in seen:
            yield found


def _contradictions(state: Workflow, findings: Iterable[Finding]) -> Iterator[Contradiction]:
    yield from of_state(state)
    for finding in findings:
        yield from of_evidence(finding.stage, finding.evidence)


def _repairs(findings: Iterable[Finding]) -> Iterator[Repair]:
    """Yield what was done about the findings; to wait and to ask again is nothing."""
    for finding in findings:
        idle = finding.verdict.action in (Action.WAIT, Action.UNKNOWN)
        for step in finding.steps[:-1] if idle else finding.steps:
            yield Repair((finding.stage,), step)


def _actions(state: Workflow) -> list[NextAction]:
    known = next_actions(state)
    if state.workflow_status == "completed" or not known:
        return known
    return [NextAction("wfctl run", "goes on with whatever needs nobody"), *known]
