"""How findings are told in a briefing; loaded only if something was found."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.attempt.markers import SeenMarker
from reconciler.attempt.observed import ObservedJob
from reconciler.briefing.briefing import BriefItem, BriefVerdict, Repair
from reconciler.control.strangers import AttemptFinding
from reconciler.evidence.evidence import Evidence, Presence
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
        evidence=tuple(_in_brief(finding.evidence)),
        steps=finding.steps,
    )


def repairs(finding: AttemptFinding) -> Iterator[Repair]:
    """Yield what was done about a finding; to wait and to ask again is nothing."""
    idle = finding.verdict.action in (Action.WAIT, Action.UNKNOWN)
    for step in finding.steps[:-1] if idle else finding.steps:
        yield Repair((finding.stage,), step)


def contradictions(finding: AttemptFinding) -> Iterator[BriefItem]:
    """Yield what does not fit together in the evidence on an attempt."""
    seen = finding.evidence
    code, done = seen.exit_marker, seen.done_marker
    states = {code.seen, done.seen}
    own = [marker for marker in (code, done) if marker.seen is SeenMarker.OWN]
    codes = [job.exit_code for job in seen.jobs]
    times = [*(marker.mtime for marker in own), *(job.ended_at for job in seen.jobs)]
    begun = seen.launched_at
    there = [output for output in seen.outputs if output.presence is not Presence.MISSING]
    moved = seen.root_recorded not in (None, seen.root_now)
    kinds = {
        "elsewhere": moved or seen.host_recorded not in (None, seen.host_now),
        "marker_of_another": SeenMarker.OTHER in states,
        "marker_unreadable": SeenMarker.UNREADABLE in states,
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
    "elsewhere": "it was launched in another root or on another host",
    "marker_of_another": "a marker of another attempt lies in its place",
    "marker_unreadable": "a marker is empty or half-written",
    "done_without_code": "it is marked as done without an exit code",
    "marker_disagrees": "its monitor and its job ended differently",
    "clock": "something of it ended before it was launched",
    "output_missing": "it ended well, but an output is missing",
    "output_old": "an output is older than its launch",
}


def _in_brief(evidence: Evidence) -> Iterator[str]:
    """Yield the evidence in a few words a source, without the time it was looked at."""
    monitor = {None: "gives no answer", True: "at work", False: "gone"}[evidence.monitor_locked]
    yield f"monitor {monitor}"
    yield from map(_job, evidence.jobs)
    if evidence.silence is not None:
        yield f"no answer: {' '.join(evidence.silence.split())[:_SILENCE]}"
    else:
        listed = (evidence.queue.listed if evidence.queue is not None else None) or ()
        yield from (f"{evidence.scheduler} lists {one.id} as {one.state}" for one in listed)
        if evidence.far is not None:
            yield f"its files lie on {evidence.far.host}"
    marker = evidence.exit_marker
    if marker.seen is not SeenMarker.NONE:
        code = "" if marker.code is None else f" {marker.code}"
        yield f"exit code marker{code} ({marker.seen.value})"
    if evidence.boot_recorded not in (None, evidence.boot_now):
        yield "the machine was started anew since"
    wanted = evidence.outputs
    missing = [output.path for output in wanted if output.presence is Presence.MISSING]
    if wanted:
        there = f"{len(wanted) - len(missing)} of {len(wanted)} outputs there"
        yield there if not missing else f"{there}, {missing[0]} is missing"


def _job(job: ObservedJob) -> str:
    name = f"job {job.id or 'without an id'}"
    if job.exit_code is not None:
        return f"{name} exited {job.exit_code}"
    if job.lock_held:
        return f"{name} computes"
    return f"{name} {'left no end' if job.started else 'has not begun'}"
