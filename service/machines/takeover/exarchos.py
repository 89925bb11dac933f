"""A ``<featureId>.state.json`` taken over."""

from __future__ import annotations

from lifecycle.machines.definition import CANCELLED
from service.machines.definitions import shipped
from service.machines.takeover.found import Document, Takeover, visit

TYPES = ("feature", "debug", "refactor", "oneshot")
_OWN = frozenset({"version", "featureId", "workflowType", "createdAt", "updatedAt", "phase"})


def take_over(source: Document, id_: str) -> Takeover:
    """Return the machine of a state file; unknown phases, statuses and fields are reported."""
    type_ = source.get("workflowType")
    known = shipped(type_ if type_ in TYPES else TYPES[0])
    found = Takeover(str(source.get("featureId") or id_), known, known.initial)
    if type_ not in TYPES:
        found.say("unknown_type", "workflowType", type_, f"taken for a {known.id}")
    phase = source.get("phase")
    if phase in (*known.phases, CANCELLED):
        found.phase = str(phase)
    else:
        found.say("unknown_phase", "phase", phase, f"taken for {known.initial}")
    found.document = {key: value for key, value in source.items() if key not in _OWN}
    found.created = found.time("createdAt", source.get("createdAt"))
    found.see_fields({key for key in found.document if key.startswith("_")})
    entered = found.time("updatedAt", source.get("updatedAt")) or found.created or ""
    found.visits = [visit(found.phase, entered, None)]
    return found
