"""After a lost session: what is so now, what was repaired, what comes next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from lifecycle import payload as p
from lifecycle.status import Status
from lifecycle.workflow import Workflow
from projections.next_actions import NextAction, next_actions
from reconciler.jobs import Jobs
from reconciler.reconcile import Finding, reconcile


@dataclass(frozen=True, slots=True)
class Briefing:
    """What somebody who knows nothing needs to go on."""

    before: Workflow
    state: Workflow
    findings: tuple[Finding, ...]
    repaired: tuple[str, ...]
    waiting: tuple[str, ...]
    actions: tuple[NextAction, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "workflow": self.state.id,
            "status": self.state.workflow_status or "active",
            "version": self.state.head,
            "last_recorded": self.before.updated,
            "stages": [
                {"id": s.id, "name": s.name, "status": s.status.value, "last_error": s.last_error}
                for s in self.state.stages.values()
            ],
            "found": [finding.to_dict() for finding in self.findings],
            "repaired": list(self.repaired),
            "waiting": list(self.waiting),
        }


def rehydrate(jobs: Jobs, *, dry_run: bool = False) -> Briefing:
    """Fold the log, look at everything in flight, repair what can be repaired."""
    before = jobs.service.state()
    findings = reconcile(jobs, dry_run=dry_run)
    repaired = [f"{f.stage} {f.attempt}: {step}" for f in findings for step in f.steps]
    for stage in before.stages.values():
        if stage.status is Status.PREPARING and stage.open_attempt is None:
            repaired.append(f"{stage.id}: record that its preparation died with its session")
            if not dry_run:
                jobs.record(p.StageFailed(stage=stage.id, error="died while preparing"))
    if not dry_run:
        jobs.service.files.bring_up_to_date()
    state = jobs.service.state()
    return Briefing(
        before=before,
        state=state,
        findings=tuple(findings),
        repaired=tuple(repaired),
        waiting=tuple(_waiting(state)),
        actions=tuple(_actions(state)),
    )


def _waiting(state: Workflow) -> list[str]:
    decisions = [f"{a.id} ({a.kind}): {a.description}" for a in state.pending_amendments]
    failures = [
        f"{stage.id} failed: {stage.last_error}"
        for stage in state.stages.values()
        if stage.status is Status.FAILED
    ]
    return decisions + failures


def _actions(state: Workflow) -> list[NextAction]:
    known = next_actions(state)
    if state.workflow_status == "completed" or not known:
        return known
    return [NextAction("wfctl run", "goes on with whatever needs nobody"), *known]


def summary(state: Workflow) -> str:
    """Return how many stages stand where: ``2 completed, 1 running``."""
    counts = Counter(stage.status.value for stage in state.stages.values())
    return ", ".join(f"{number} {status}" for status, number in counts.items())
