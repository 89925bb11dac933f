"""Attempts that were begun before the root was moved: judged by what is so here.

Their files name places that are gone, so no monitor is started for them and nothing is computed
again: what they wrote down themselves counts, and the rest is left to a person.
"""

from __future__ import annotations

from dataclasses import replace

from reconciler.evidence import Evidence
from reconciler.verdict import Action, Verdict, verdict

#: What needs nothing of the former place.
_DECIDED = frozenset({"MONITORED", "SUCCEEDED", "COLLECTED_UNMARKED", "TASK_FAILED"})


def judged(evidence: Evidence) -> tuple[Evidence, Verdict]:
    """Return the evidence as of an attempt of this place, and what follows where it decides."""
    here = replace(evidence, root_recorded=evidence.root_now, host_recorded=evidence.host_now)
    found = verdict(here)
    if found.name in _DECIDED and found.action is not Action.UNKNOWN:
        return here, found
    return evidence, verdict(evidence)
