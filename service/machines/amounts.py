"""What a change of others to a machine's file amounts to, and what the rules do not allow of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lifecycle.errors import LifecycleError
from lifecycle.machines.machine import Document, Machine
from lifecycle.machines.path import look, parse
from lifecycle.payload.base import Payload
from projections.files.document_diff import FieldDifference, differences
from projections.machines import documents as shown
from projections.machines.documents import documents, paths
from service.files.drift import parts
from service.machines import writers
from service.machines.writers import Path_, Walk, log_time, same


@dataclass(frozen=True, slots=True)
class Amounts:
    """Events, each with when it was so, and where they lead; what is left, with its rule."""

    state: Machine
    taken: list[tuple[Payload, str]] = field(default_factory=list)
    left: list[FieldDifference] = field(default_factory=list)
    #: For each difference that is left, the rule that does not allow it.
    rules: list[str] = field(default_factory=list)
    #: The refusals that the rules are the words of, by field.
    refused: dict[Path_, LifecycleError] = field(default_factory=dict)
    #: The commands behind the events, where rules decided on them.
    asked: list[Payload] = field(default_factory=list)

    def refusal(self, one: FieldDifference) -> LifecycleError | None:
        """Return why a change that is left was refused, None where no rule was asked."""
        path = path_of(one)
        return next((why for at, why in self.refused.items() if _meets(at, path)), None)


def amounts(
    root: Path, state: Machine, file: str, base: Document, found: Document, now: str
) -> Amounts:
    """Return what the change from ``base`` to ``found`` amounts to; ``now`` is UTC."""
    role = next(role for role, path in paths(state).items() if path == file)
    walk = Walk(root, state, file, base, found, now, documents(state)[role], state.updated)
    changed = [leaf for one in differences(base, found) for leaf in leaves(one)]
    if role in writers.TAKE_IN:
        writers.TAKE_IN[role](walk)
    after = documents(walk.state)[role]
    left = [leaf for leaf in changed if not _holds(leaf, after, walk)]
    rules = [_rule(walk, one) for one in left]
    return Amounts(walk.state, walk.taken, left, rules, dict(walk.refused), walk.asked)


def path_of(one: FieldDifference) -> Path_:
    """Return where a field that differs is in its file, as far as objects lead."""
    return ("stages",) if one.stage is not None else one.path


def _meets(one: Path_, other: Path_) -> bool:
    return one[: len(other)] == other[: len(one)]


def leaves(one: FieldDifference) -> list[FieldDifference]:
    """Return an object that came or went as its fields; an order of keys says nothing."""
    if one.kind == "order":
        return []
    return list(parts(one, lambda part: not (part.new or part.old)))


def _holds(one: FieldDifference, after: Document, walk: Walk) -> bool:
    """Whether the file as it will be written says what its writer wrote there."""
    path = path_of(one)
    now = look(after, path)
    if same(now, one.new) and (one.new is not None or _has(after, path) == (one.kind != "removed")):
        return True
    match path:
        case ("blockers",):
            held = shown.recorded_blockers(walk.state)
            return same(writers.without(now, held), writers.without(one.new, held))
        case (writers.OWN, "current_step"):
            return bool(writers.aliased(one.new) == now)
        case (writers.OWN, "step_started_at"):
            return bool(walk.taken) and log_time(one.new) is not None
        case (writers.OWN, writers.CHECKPOINTS, step, name):
            return _same_in_checkpoint(one, step, name, now, walk)
        case ("tasks",):
            return _same_tasks(after, walk)
        case ("completed_phases" | "user_checkpoints",):
            return _phases(now) == _phases(one.new)
    return path == ("last_updated",)


def _has(document: Any, path: Path_) -> bool:
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return False
        document = document[key]
    return True


def _same_in_checkpoint(one: FieldDifference, step: str, name: str, now: Any, walk: Walk) -> bool:
    if name in writers.OF_VISIT and one.kind == "removed":
        return True  # the engine writes it anew
    if name in ("started_at", "completed_at"):
        visit = walk.state.visits.get(writers.aliased(step))
        return visit is not None and visit.has_begun and bool(walk.taken)
    if name == "status" and now is None:
        return bool(one.new == "NOT_STARTED")
    if name == "notes" and isinstance(one.new, str):
        return bool(now == f"ERROR: {one.new}")
    return name == "last_updated"


def _same_tasks(after: Document, walk: Walk) -> bool:
    """Whether each task that was written is so now, but for the times that follow."""
    written = walk.found.get(writers.TASKS)
    if not isinstance(written, list) or len(writers.listed(walk.found)) != len(written):
        return False
    now, before = (
        {task.get("id"): task for task in writers.listed(document)}
        for document in (after, walk.base)
    )
    gone = set(before) - {task.get("id") for task in written}
    times = ("started_at", "completed_at")
    return not gone and all(
        any(same(value, known.get(task.get("id"), {}).get(key)) for known in (now, before))
        or (key in times and log_time(value) is not None)
        for task in written
        for key, value in task.items()
    )


def _phases(value: Any) -> list[Any]:
    found = value if isinstance(value, list) else [value]
    return [one.get("phase") if isinstance(one, dict) else one for one in found]


def _rule(walk: Walk, one: FieldDifference) -> str:
    path = path_of(one)
    own = [str(refusal) for at, refusal in walk.refused.items() if _meets(at, path)]
    if own:
        return "; ".join(dict.fromkeys(own))
    for name, instead in walk.state.definition.all_reserved().items():
        steps = parse(name)
        if path[: len(steps)] == steps or path == steps[: len(path)]:
            return f"{name} is written by the engine: {instead.replace('{id}', walk.state.id)}"
    if one.kind == "removed":
        return "what others took away comes back until somebody adopts that"
    if walk.refused:
        return "what it goes with was not allowed"
    return "nobody but wfctl writes this file by its protocol"
