"""Names that have one place: what a definition or its protocol knows is never free data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lifecycle.machines import guard as g
from lifecycle.machines.definition import Definition
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.path import Steps, parse
from lifecycle.machines.shape import Shape, below, misfits

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
    shapes = (definition.fields, _PUBLISHED[definition.protocol])
    lengths = range(len(path), 0, -1)
    # So many steps lead to a place that the definition or the protocol knows.
    led = next((n for n in lengths if any(below(s, path[:n]) is not None for s in shapes)), 0)
    free = path[led:]
    name = next((step for step in free if isinstance(step, str) and step in known), None)
    return known[name] if name is not None else None


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


def never_met(definition: Definition, condition: g.Guard) -> Iterator[str]:
    """Yield why a condition can never be met, with what would be right."""
    match condition:
        case g.Equals(field=path, equals=value):
            shape = _shape_at(definition, path)
            yield from (f"equals: {one}" for one in misfits(shape, value, path))
        case g.HasCommit(commit=path):
            yield from (f"commit: {one}" for one in misfits(_shape_at(definition, path), "", path))
        case g.Every(every=path, status=statuses) | g.Some(some=path, status=statuses):
            yield from _items(_shape_at(definition, path), path, statuses)
        case g.Counter(counter=name, at_least=least, below=most):
            loop = definition.loops.get(name)
            if most is not None and most <= least:
                yield f"counter: no count is at least {least} and below {most}"
            if loop is not None and loop.limit_from is None and least > loop.limit:
                yield f"counter: {name} is taken at most {loop.limit} times, never {least}"
        case g.HasFile(file=pattern) if "{" in pattern:
            put_in = "nothing is put in for braces here; * stands for any name"
            yield f"file: {put_in}; found {pattern!r}"
        case _:
            return


def _shape_at(definition: Definition, path: str) -> Shape:
    """Return the shape of a field; ``any`` for one that is told to be unknown elsewhere."""
    try:
        shape = below(definition.fields, parse(path))
    except InvalidInput:
        shape = None
    return "any" if shape is None else shape


def _items(shape: Shape, path: str, statuses: list[str]) -> Iterator[str]:
    if not statuses:
        yield f"status: expected at least one status for the items of {path}"
    if isinstance(shape, str) and shape not in ("list", "object", "any"):
        yield f"{path} is {shape}: expected a list or an object, whose items have a status"
        return
    status = _status_of(shape)
    if isinstance(status, str) and "|" in status:
        known = status.split("|")
        wrong = ", ".join(one for one in statuses if one not in known)
        if wrong:
            yield f"status: no item of {path} is ever {wrong}; expected some of {', '.join(known)}"


def _status_of(shape: Any) -> Shape | None:
    """Return the shape of an item's status, None where nothing says it."""
    item = (
        shape[0] if isinstance(shape, list) else shape.get("*") if isinstance(shape, dict) else None
    )
    return item.get("status") if isinstance(item, dict) else item
