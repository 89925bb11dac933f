"""Convert findings about attempts into parts of a briefing.

This module is imported only if there are findings, because its imports are slow.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.attempt.markers import MarkerState
from reconciler.attempt.observations import ObservedJob
from reconciler.briefing.briefing import BriefItem, BriefVerdict, Repair
from reconciler.control.judge_attempts import AttemptFinding
from reconciler.evidence.evidence import Evidence, Presence
from reconciler.verdict.table import Action

#: Maximum number of characters that are printed of the reason why a machine did not answer.
_SILENCE = 400


def build_brief_verdict(finding: AttemptFinding) -> BriefVerdict:
    """Return the finding on an attempt as a verdict of the briefing."""
    verdict = finding.verdict
    return BriefVerdict(
        stages=(finding.stage,),
        attempt=finding.attempt,
        verdict=verdict.name,
        action=verdict.action.value,
        row=verdict.row,
        reason=verdict.reason,
        ended_at=verdict.occurred_at,
        evidence=tuple(_describe_evidence_briefly(finding.evidence)),
        steps=finding.steps,
    )


def list_repairs(finding: AttemptFinding) -> Iterator[Repair]:
    """Yield the repairs that were made because of a finding on an attempt.

    If the result is to wait or to ask again, the last step is not a repair and is omitted.
    """
    idle = finding.verdict.action in (Action.WAIT, Action.UNKNOWN)
    for step in finding.steps[:-1] if idle else finding.steps:
        yield Repair((finding.stage,), step)


def find_contradictions(finding: AttemptFinding) -> Iterator[BriefItem]:
    """Yield each contradiction in the evidence on an attempt, such as a missing output."""
    seen = finding.evidence
    code, done = seen.exit_marker, seen.done_marker
    states = {code.seen, done.seen}
    own = [marker for marker in (code, done) if marker.seen is MarkerState.OWN]
    codes = [job.exit_code for job in seen.jobs]
    times = [*(marker.mtime for marker in own), *(job.ended_at for job in seen.jobs)]
    begun = seen.launched_at
    there = [output for output in seen.outputs if output.presence is not Presence.MISSING]
    moved = seen.root_recorded not in (None, seen.root_now)
    kinds = {
        "elsewhere": moved or seen.host_recorded not in (None, seen.host_now),
        "marker_of_another": MarkerState.OTHER in states,
        "marker_unreadable": MarkerState.UNREADABLE in states,
        "done_without_code": own == [done],
        "marker_disagrees": code in own
        and codes != []
        and None not in codes
        and (code.code == 0) is any(codes),
        "clock": begun is not None and any(time is not None and time < begun for time in times),
        "output_missing": code in own and code.code == 0 and len(there) < len(seen.outputs),
        "output_old": any(output.new is False for output in there),
    }
    for kind in [kind for kind, holds in kinds.items() if holds]:
        yield BriefItem(kind, (finding.stage,), _WORDS[kind])


_WORDS = {
    "elsewhere": "the attempt was launched in another root folder or on another host",
    "marker_of_another": "a marker file of another attempt is in the stage's folder",
    "marker_unreadable": "a marker file of the attempt is empty or incomplete",
    "done_without_code": "the attempt is marked as done, but its exit code is missing",
    "marker_disagrees": "the monitor and the job of the attempt recorded different exit codes",
    "clock": "a recorded end of the attempt is earlier than its launch",
    "output_missing": "the attempt ended with exit code 0, but an output is missing",
    "output_old": "an output of the attempt is older than its launch",
}


def _describe_evidence_briefly(evidence: Evidence) -> Iterator[str]:
    """Yield a short text for each piece of evidence on an attempt."""
    monitor = {None: "does not answer", True: "is running", False: "gone"}[evidence.monitor_locked]
    yield f"monitor {monitor}"
    yield from map(_describe_job, evidence.jobs)
    if evidence.missing_answer_reason is not None:
        reason = " ".join(evidence.missing_answer_reason.split())
        yield f"the machine does not answer: {reason[:_SILENCE]}"
    else:
        listed = (evidence.queue.listed if evidence.queue is not None else None) or ()
        yield from (f"{evidence.scheduler} lists {one.id} as {one.state}" for one in listed)
        if evidence.far is not None:
            yield f"the files of the attempt are on {evidence.far.host}"
    marker = evidence.exit_marker
    if marker.seen is not MarkerState.NONE:
        code = "" if marker.code is None else f" {marker.code}"
        yield f"exit code marker{code} ({marker.seen.value})"
    if evidence.boot_recorded not in (None, evidence.boot_now):
        yield "the machine was restarted since the launch"
    wanted = evidence.outputs
    missing = [output.path for output in wanted if output.presence is Presence.MISSING]
    if wanted:
        there = f"{len(wanted) - len(missing)} of {len(wanted)} outputs exist"
        yield there if not missing else f"{there}, {missing[0]} is missing"


def _describe_job(job: ObservedJob) -> str:
    name = f"job {job.id or 'without an id'}"
    if job.exit_code is not None:
        return f"{name} exited {job.exit_code}"
    if job.lock_held:
        return f"{name} computes"
    return f"{name} {'ended without an exit code' if job.started else 'has not started'}"
