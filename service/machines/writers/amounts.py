"""What a change of others to a machine's file amounts to, and what the rules do not allow of it."""

from __future__ import annotations

from collections.abc import Sequence
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
from service.machines.writers import conductor
from service.machines.writers.walk import Path_, Walk, log_time, same


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
    changed = [one for one in differences(base, found) if one.kind != "order"]
    match role:
        case "metadata":
            conductor.take_in(walk)
        case "execution":
            conductor.take_in_tasks(walk)
        case "phase":
            conductor.take_in_phase(walk)
    after = documents(walk.state)[role]
    left = [leaf for one in changed for leaf in leaves(one) if not _holds(leaf, after, walk)]
    rules = [_rule(walk, one) for one in left]
    return Amounts(walk.state, walk.taken, left, rules, dict(walk.refused), walk.asked)


def path_of(one: FieldDifference) -> Path_:
    """Return where a field that differs is in its file, as far as objects lead."""
    return ("stages",) if one.stage is not None else one.path


def _meets(one: Path_, other: Path_) -> bool:
    return one[: len(other)] == other[: len(one)]


def leaves(one: FieldDifference) -> Sequence[FieldDifference]:
    """Return an object that came or went as its fields."""
    value = one.new if one.kind == "added" else one.old
    if one.kind not in ("added", "removed") or not isinstance(value, dict) or not value:
        return [one]
    return [
        leaf
        for key, held in value.items()
        for leaf in leaves(
            one._replace(
                path=(*one.path, key),
                old=None if one.kind == "added" else held,
                new=held if one.kind == "added" else None,
            )
        )
    ]


def _holds(one: FieldDifference, after: Document, walk: Walk) -> bool:
    """Whether the file as it will be written says what its writer wrote there."""
    path = path_of(one)
    now = look(after, path)
    if same(now, one.new) and (one.new is not None or _has(after, path) == (one.kind != "removed")):
        return True
    match path:
        case ("blockers",):
            held = shown.recorded_blockers(walk.state)
            return same(conductor.without(now, held), conductor.without(one.new, held))
        case (conductor.OWN, *_):
            return _same_in_loop(one, path, now, walk)
        case ("tasks",):
            return _same_tasks(after, walk)
        case ("completed_phases" | "user_checkpoints",):
            return _phases(now) == _phases(one.new)
    return path == ("last_updated",)


def _same_in_loop(one: FieldDifference, path: Path_, now: Any, walk: Walk) -> bool:
    match path:
        case (_, "current_step"):
            return bool(conductor.aliased(one.new) == now)
        case (_, "step_started_at"):
            return bool(walk.taken) and log_time(one.new) is not None
        case (_, conductor.CHECKPOINTS, step, name):
            return _same_in_checkpoint(one, step, name, now, walk)
    return False


def _has(document: Any, path: Path_) -> bool:
    for key in path:
        if not isinstance(document, dict) or key not in document:
            return False
        document = document[key]
    return True


def _same_in_checkpoint(one: FieldDifference, step: str, name: str, now: Any, walk: Walk) -> bool:
    if name in conductor.OF_VISIT and one.kind == "removed":
        return True  # the engine writes it anew
    if name == "last_updated":
        return True
    if name in ("started_at", "completed_at"):
        visit = walk.state.visits.get(conductor.aliased(step))
        return visit is not None and visit.has_begun and bool(walk.taken)
    if name == "status" and now is None:
        return bool(one.new == "NOT_STARTED")
    if name == "notes" and isinstance(one.new, str):
        return bool(now == f"ERROR: {one.new}")
    return False


def _same_tasks(after: Document, walk: Walk) -> bool:
    """Whether each task that was written is so now, but for the times that follow."""
    now = {task.get("id"): task for task in conductor.listed(after)}
    written = walk.found.get(conductor.TASKS)
    if not isinstance(written, list) or len(conductor.listed(walk.found)) != len(written):
        return False
    before = {task.get("id"): task for task in conductor.listed(walk.base)}
    gone = set(before) - {task.get("id") for task in written}
    times = ("started_at", "completed_at")
    return not gone and all(
        same(value, now.get(task.get("id"), {}).get(key))
        or same(value, before.get(task.get("id"), {}).get(key))
        or (key in times and log_time(value) is not None)
        for task in written
        for key, value in task.items()
    )


def _phases(value: Any) -> list[Any]:
    found = value if isinstance(value, list) else [value]
    return [one.get("phase") if isinstance(one, dict) else one for one in found]


def _rule(walk: Walk, one: FieldDifference) -> str:
    path = path_of(one)
    own = [refusal for at, refusal in walk.refused.items() if _meets(at, path)]
    if own:
        return "; ".join(dict.fromkeys(str(refusal) for refusal in own))
    for name, instead in walk.state.definition.all_reserved().items():
        steps = parse(name)
        if path[: len(steps)] == steps or path == steps[: len(path)]:
            return f"{name} is written by the engine: {instead.replace('{id}', walk.state.id)}"
    if one.kind == "removed":
        return "what others took away comes back until somebody adopts that"
    return (
        "nobody but wfctl writes this file by its protocol"
        if not walk.refused
        else ("what it goes with was not allowed")
    )
