"""A ``<featureId>.state.json`` taken over."""

from __future__ import annotations

from typing import Any

from lifecycle.machines.definition import CANCELLED
from lifecycle.machines.machine import Document
from service.machines.definitions import shipped
from service.machines.takeover.found import Sayings, Takeover, visit

TYPES = ("feature", "debug", "refactor", "oneshot")
_OWN = frozenset({"version", "featureId", "workflowType", "createdAt", "updatedAt", "phase"})


def _usual(type_: Any) -> str:
    return type_ if type_ in TYPES else TYPES[0]


def take_over(source: Document, id_: str, said: Sayings) -> Takeover:
    """Return the machine of a state file; unknown fields are kept and reported."""
    type_ = source.get("workflowType")
    known = said.definition or shipped(said.meant.get(str(type_), _usual(type_)))
    found = Takeover(str(source.get("featureId") or id_), known, known.initial, said)
    if said.definition is None:
        found.name("workflowType", type_, TYPES, TYPES[0])
    found.place("phase", source.get("phase"), {CANCELLED: CANCELLED})
    found.document = {key: value for key, value in source.items() if key not in _OWN}
    found.created = found.time("createdAt", source.get("createdAt"))
    found.see_fields({key for key in found.document if key.startswith("_")})
    entered = found.time("updatedAt", source.get("updatedAt")) or found.created or ""
    found.visits = [visit(found.phase, entered, None)]
    return found
