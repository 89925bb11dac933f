"""Attempts that were begun before the root was moved: judged by what is so here.

Their files name places that are gone, so no monitor is started for them. What computes goes on, and
what is seen to be gone counts as lost; results that wait are brought back by the reconciler, from
another machine too. A scheduler lists jobs by the folder from which they were submitted, be it gone
or another root's now: where it answers on the same host, none of them is unseen.
"""

from __future__ import annotations

from dataclasses import replace

from reconciler.evidence.collect import Evidence
from reconciler.verdict.names import Name
from reconciler.verdict.table import Action, Verdict, verdict

#: What needs nothing of the former place, whatever host it was on.
_DECIDED = frozenset(
    {
        Name.MONITORED,
        Name.MONITOR_STOPPED,
        Name.SUCCEEDED,
        Name.COLLECTED_UNMARKED,
        Name.TASK_FAILED,
    }
)


def judged(evidence: Evidence) -> tuple[Evidence, Verdict]:
    """Return the evidence as of an attempt of this place, and what follows where it decides."""
    seen = _shows_all(evidence)
    here = replace(
        evidence, root_recorded=evidence.root_now, host_recorded=evidence.host_now, moved=seen
    )
    found = verdict(here)
    if found.name == Name.FINISHED_NOT_COLLECTED:
        # Its jobs wrote themselves that they are over.
        return replace(here, moved=True), found
    if found.name in _DECIDED or (seen and _is_to_be_done(here, found)):
        return here, found
    return evidence, verdict(evidence)


def _is_to_be_done(here: Evidence, found: Verdict) -> bool:
    # What has vanished is looked for once more, which says whether it is lost.
    known = found.name in (Name.LIMIT_EXCEEDED, Name.VANISHED)
    return known or found.action in (Action.WAIT, Action.LOST)


def _shows_all(evidence: Evidence) -> bool:
    """Whether a job of the attempt that is at work would be seen."""
    if evidence.far is not None:
        return evidence.far.error is None
    here = evidence.host_recorded in (None, evidence.host_now)
    answers = evidence.queue is not None and evidence.queue.listed is not None
    return here and (evidence.scheduler is None or answers)
