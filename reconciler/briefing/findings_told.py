"""How findings are told in a briefing; loaded only where something was found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.attempt.markers import ObservedJob, SeenMarker
from reconciler.briefing.briefing import BriefVerdict, Repair
from reconciler.control.strangers import AttemptFinding
from reconciler.evidence.collect import Evidence, Presence
from reconciler.verdict.table import Action

#: Characters of why nothing answered that are shown.
_SILENCE = 400


def found_of(finding: AttemptFinding) -> BriefVerdict:
    """Return a finding as the briefing shows it."""
    verdict = finding.verdict
    return BriefVerdict(
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


def repairs(findings: Iterable[AttemptFinding]) -> Iterator[Repair]:
    """Yield what was done about the findings; to wait and to ask again is nothing."""
    for finding in findings:
        idle = finding.verdict.action in (Action.WAIT, Action.UNKNOWN)
        for step in finding.steps[:-1] if idle else finding.steps:
            yield Repair((finding.stage,), step)


def in_brief(evidence: Evidence) -> list[str]:
    """Return the evidence in a few words a source, without the time it was looked at."""
    monitor = {None: "gives no answer", True: "at work", False: "gone"}[evidence.monitor_locked]
    lines = [f"monitor {monitor}", *map(_job, evidence.jobs)]
    lines += _away(evidence)
    if evidence.exit_marker.seen is not SeenMarker.NONE:
        marker = evidence.exit_marker
        code = "" if marker.code is None else f" {marker.code}"
        lines.append(f"exit code marker{code} ({marker.seen.value})")
    if evidence.boot_recorded not in (None, evidence.boot_now):
        lines.append("the machine was started anew since")
    return lines + _outputs(evidence)


def _away(evidence: Evidence) -> list[str]:
    """Say what a scheduler and another machine tell, or why they do not."""
    if evidence.silence is not None:
        return [f"no answer: {' '.join(evidence.silence.split())[:_SILENCE]}"]
    listed = (evidence.queue.listed if evidence.queue is not None else None) or ()
    lines = [f"{evidence.scheduler} lists {one.id} as {one.state}" for one in listed]
    if evidence.far is not None:
        lines.append(f"its files lie on {evidence.far.host}")
    return lines


def _job(job: ObservedJob) -> str:
    name = f"job {job.id or 'without an id'}"
    if job.exit_code is not None:
        return f"{name} exited {job.exit_code}"
    if job.lock_held:
        return f"{name} computes"
    return f"{name} {'left no end' if job.started else 'has not begun'}"


def _outputs(evidence: Evidence) -> list[str]:
    wanted = evidence.outputs
    missing = [output.path for output in wanted if output.presence is Presence.MISSING]
    if not wanted:
        return []
    there = f"{len(wanted) - len(missing)} of {len(wanted)} outputs there"
    return [there if not missing else f"{there}, {missing[0]} is missing"]
