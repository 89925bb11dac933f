"""What somebody who knows nothing needs to go on: plain values, without the time of day.

The same log and the same disk give the same briefing: every time in it was recorded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from lifecycle.budget import budget_of
from lifecycle.retry import retry_limit
from lifecycle.status import Status
from lifecycle.workflow import Stage, Workflow
from projections.next_actions import NextAction
from reconciler.contradictions import Contradiction
from reconciler.evidence import Evidence, Presence
from reconciler.finding import Finding
from reconciler.markers import Seen
from reconciler.subjects import shortened
from reconciler.verdict import Action
from service.meanwhile import Happened

#: Characters of a failure's reason that are shown.
_REASON = 400


@dataclass(frozen=True, slots=True)
class Found:
    """A verdict and the stages whose attempts of this id it was said of."""

    stages: tuple[str, ...]
    attempt: str
    verdict: str
    action: str
    row: int | None = None
    reason: str | None = None
    ended_at: str | None = None
    evidence: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "stages": shortened(self.stages),
            "attempt": self.attempt,
            "verdict": self.verdict,
            "action": self.action,
            "row": self.row,
            "reason": self.reason,
            "ended_at": self.ended_at,
            "evidence": list(self.evidence),
            "steps": list(self.steps),
        }


@dataclass(frozen=True, slots=True)
class Repair:
    """What was recorded or started again, and for which stages."""

    stages: tuple[str, ...]
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"stages": shortened(self.stages), "text": self.text}


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a person: ``kind`` is amendment, drift, judgement, stop, failure or launch."""

    kind: str
    subjects: tuple[str, ...]
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"kind": self.kind, "subjects": shortened(self.subjects), "text": self.text}


@dataclass(frozen=True, slots=True)
class Briefing:
    """One screen for a new session. ``since`` is the last act of a person, an agent or a session,
    ``meanwhile`` what followed; ``left_out`` says what was cut for brevity.
    """

    workflow: str
    status: str
    version: int
    last_recorded: str
    counts: dict[str, int]
    session: dict[str, Any]
    stages: tuple[dict[str, Any], ...]
    since: Happened | None
    meanwhile: tuple[Happened, ...]
    found: tuple[Found, ...]
    contradictions: tuple[Contradiction, ...]
    repaired: tuple[Repair, ...]
    waiting: tuple[Waiting, ...]
    actions: tuple[NextAction, ...]
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; the next actions stand beside them."""
        return {
            "workflow": self.workflow,
            "status": self.status,
            "version": self.version,
            "last_recorded": self.last_recorded,
            "counts": self.counts,
            "session": self.session,
            "stages": list(self.stages),
            "since": None if self.since is None else self.since.to_dict(),
            "meanwhile": [happened.to_dict() for happened in self.meanwhile],
            "found": [found.to_dict() for found in self.found],
            "contradictions": [found.to_dict() for found in self.contradictions],
            "repaired": [repair.to_dict() for repair in self.repaired],
            "waiting": [waiting.to_dict() for waiting in self.waiting],
            "left_out": list(self.left_out),
        }


def counts(state: Workflow) -> dict[str, int]:
    """Return how many stages stand where, in the order of the array."""
    return dict(Counter(stage.status.value for stage in state.stages.values()))


def session_of(state: Workflow) -> dict[str, Any]:
    """Return the newest session; open without an end it may have died."""
    session = state.session
    return {
        "number": session.count,
        "started_at": session.id,
        "cost": session.cost,
        "budget": budget_of(state),
        "exit_reason": session.exit_reason,
        "open": session.is_open,
    }


def found_of(finding: Finding) -> Found:
    """Return a finding as the briefing shows it."""
    verdict = finding.verdict
    return Found(
        stages=(finding.stage,),
        attempt=finding.attempt,
        verdict=verdict.name,
        action=verdict.action.value,
        row=verdict.row,
        reason=verdict.reason,
        ended_at=verdict.occurred_at,
        evidence=tuple(in_brief(finding.evidence)),
        steps=finding.steps,
    )


def under_way(stage: Stage) -> Found | None:
    """Return the stage's open attempt as the log alone knows it."""
    attempt = stage.open_attempt
    if attempt is None or stage.status not in (Status.PREPARING, Status.RUNNING):
        return None
    name = attempt.verdict or ("LAUNCHED" if attempt.launched_at else "STARTED")
    action = attempt.action or Action.WAIT.value
    reason = attempt.reason or "as the log has it"
    return Found((stage.id,), attempt.id, name, action, attempt.row, reason)


def in_brief(evidence: Evidence) -> list[str]:
    """Return the evidence in a few words a source, without the time it was looked at."""
    lines = [f"monitor {_answer(evidence.monitor_locked, 'at work', 'gone')}"]
    lines += [_job(job.id, job.exit_code, job.lock_held, job.started) for job in evidence.jobs]
    lines += _away(evidence)
    if evidence.exit_marker.seen is not Seen.NONE:
        marker = evidence.exit_marker
        code = "" if marker.code is None else f" {marker.code}"
        lines.append(f"exit code marker{code} ({marker.seen.value})")
    if evidence.boot_recorded not in (None, evidence.boot_now):
        lines.append("the machine was started anew since")
    return lines + _outputs(evidence)


def _away(evidence: Evidence) -> list[str]:
    """Say what a scheduler and another machine tell, or why they do not."""
    if evidence.silence is not None:
        return [f"no answer: {' '.join(evidence.silence.split())[:_REASON]}"]
    listed = (evidence.queue.listed if evidence.queue is not None else None) or ()
    lines = [f"{evidence.scheduler} lists {one.id} as {one.state}" for one in listed]
    if evidence.far is not None:
        lines.append(f"its files lie on {evidence.far.host}")
    return lines


def _answer(held: bool | None, yes: str, no: str) -> str:
    return "gives no answer" if held is None else (yes if held else no)


def _job(id_: str | None, code: int | None, held: bool | None, started: bool) -> str:
    name = f"job {id_ or 'without an id'}"
    if code is not None:
        return f"{name} exited {code}"
    if held:
        return f"{name} computes"
    return f"{name} {'left no end' if started else 'has not begun'}"


def _outputs(evidence: Evidence) -> list[str]:
    wanted = evidence.outputs
    missing = [output.path for output in wanted if output.presence is Presence.MISSING]
    if not wanted:
        return []
    there = f"{len(wanted) - len(missing)} of {len(wanted)} outputs there"
    return [there if not missing else f"{there}, {missing[0]} is missing"]


def waiting_of(state: Workflow) -> list[Waiting]:
    """Return what waits for a person, decisions first."""
    found = [
        Waiting("amendment", (a.id,), f"{a.kind}: {a.description}")
        for a in state.pending_amendments
    ]
    found += [
        Waiting("drift", (drift.file,), f"{drift.kind}; adopt or revert it")
        for drift in state.drifts
    ]
    stages = state.stages.values()
    found += [Waiting("judgement", (s.id,), s.success_criteria) for s in stages if _is_to_judge(s)]
    found += [
        Waiting("stop", (s.id,), f"{s.attempts[-1].id} is over and not seen to be stopped")
        for s in stages
        if s.attempts and s.attempts[-1].is_to_stop
    ]
    found += [_failure(state, stage) for stage in stages if stage.status is Status.FAILED]
    return found


def _is_to_judge(stage: Stage) -> bool:
    checked = bool(stage.parameters.get("verify"))
    return stage.status is Status.POST_PROCESSING and bool(stage.success_criteria) and not checked


def _failure(state: Workflow, stage: Stage) -> Waiting:
    limit = retry_limit(state.backend_type(stage))
    text = " ".join((stage.last_error or "no reason is known").split())[:_REASON]
    return Waiting("failure", (stage.id,), f"{text} ({stage.retry_count} of {limit} retries used)")
