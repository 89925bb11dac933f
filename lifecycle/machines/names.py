"""Names that have one place: what a definition or its protocol knows is never free data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lifecycle.machines.definition import Definition
from lifecycle.machines.path import Steps, parse
from lifecycle.machines.shape import Shape, below

_ANY = "any"
#: The fields of the published state files, whichever of the protocol's types has them.
_PUBLISHED: dict[str, dict[str, Any]] = {
    "exarchos": {
        "artifacts": dict.fromkeys(("design", "plan", "pr", "report", "rca", "fixDesign"), _ANY),
        "tasks": [{}],
        "worktrees": {"*": {}},
        "planReview": dict.fromkeys(("approved", "gapsFound", "gaps"), _ANY),
        "reviews": {"*": {}},
        "synthesis": dict.fromkeys(("prUrl", "requested", "prFeedback", "lastError"), _ANY),
        "validation": dict.fromkeys(("testsPass", "docsUpdated"), _ANY),
        "triage": {"symptom": _ANY},
        "investigation": _ANY,
        "resolution": dict.fromkeys(("directPush", "commitSha"), _ANY),
        "track": _ANY,
        "explore": {"scopeAssessment": _ANY},
        "brief": _ANY,
        "oneshot": dict.fromkeys(("planSummary", "synthesisPolicy"), _ANY),
    },
    "dotagent": {"tasks": [{}]},
    "conductor": {"blockers": _ANY, "business_sync_required": _ANY, "loop_state": {"*": _ANY}},
}
#: Words that any object may have of its own.
_COMMON = frozenset(
    {
        *("id", "name", "title", "type", "status", "version"),
        *("started_at", "completed_at", "last_updated", "createdAt", "updatedAt"),
    }
)


def misplaced(definition: Definition, path: Steps) -> tuple[str, str | None] | None:
    """Return the place of a known name that stands in free data, and what is done instead.

    The latter is None where the name is written at its place; the whole is None where a path
    leads to a place of the definition or of its protocol, or to names that neither knows.
    """
    known = _known(definition)
    free = path[_declared(definition, path) :]
    name = next((step for step in free if isinstance(step, str) and step in known), None)
    return known[name] if name is not None else None


def _declared(definition: Definition, path: Steps) -> int:
    """Return how many steps of a path lead to a place that the definition or protocol knows."""
    shapes = (definition.fields, _PUBLISHED[definition.protocol])
    lengths = range(len(path), 0, -1)
    return next((n for n in lengths if any(below(s, path[:n]) is not None for s in shapes)), 0)


def _known(definition: Definition) -> dict[str, tuple[str, str | None]]:
    """Return each known name with its place, and what is done where the engine writes it."""
    shapes = (_PUBLISHED[definition.protocol], definition.fields)
    fields = {name: (place, None) for shape in shapes for name, place in _named(shape, "")}
    engine = {str(parse(p)[-1]): (p, instead) for p, instead in definition.all_reserved().items()}
    every: dict[str, tuple[str, str | None]] = {**fields, **engine}
    return {name: found for name, found in every.items() if name not in _COMMON}


def _named(shape: Shape, above: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a shape with their places, but not those of items."""
    if not isinstance(shape, dict) or "*" in shape:
        return
    for name, child in shape.items():
        place = f"{above}.{name}" if above else name
        yield name, place
        yield from _named(child, place)
