"""The rules of fields and of recorded events: what may be written, and in which shape."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lifecycle.machines import payload as p
from lifecycle.machines.definition import MOST_ROUNDS, Definition, EventKind
from lifecycle.machines.errors import GuardFailed, InvalidInput, InvalidTransition, ReservedField
from lifecycle.machines.guard import FileFact, HasFile, unmet
from lifecycle.machines.machine import Asked, Machine
from lifecycle.machines.path import (
    PAST_THE_END,
    Steps,
    covers,
    leaves,
    look,
    parse,
    put,
    said,
    take_away,
    writable,
    written,
)
from lifecycle.machines.shape import Shape, below, misfits, nearest_name
from lifecycle.payload.base import Payload
from lifecycle.words.document import layout_of

#: Event types that clients know by other names, and the command that records each.
ELSEWHERE = {
    "workflow.transition": "transition",
    "state.patched": "update",
    "checkpoint": "checkpoint",
    **dict.fromkeys(("task.added", "task.started", "task.completed", "task.failed"), "task"),
}


def update(state: Machine, command: p.MachineUpdated, now: Asked) -> list[Payload]:
    """Accept new values for fields; nothing if each field has its value already."""
    trial = state.draft()
    for change in command.changes:
        steps = writable(change.path)
        for path in (steps, *leaves(change.value, steps)):
            refuse_reserved(state.definition, path, state.id)
        put(trial.document, steps, change.value)
    for steps in map(writable, command.removed):
        refuse_reserved(state.definition, steps, state.id)
        take_away(trial.document, steps)
    _check_kept(state, trial)
    _check_shape(state.definition, trial.document, state.document)
    _check_names(state, command)
    _check_tasks(state, trial)
    same = trial.document == state.document and command.digests.items() <= state.digests.items()
    same = same and layout_of(trial.document) == layout_of(state.document)
    paths = [one for change in command.changes for one in said(parse(change.path), change.value)]
    is_said = all(covers(state.visit.written, one) for one in paths)
    return [] if same and is_said else [command]


def _check_kept(state: Machine, trial: Machine) -> None:
    """Refuse what takes reserved fields away with the object that holds them."""
    for name, instead in state.definition.all_reserved().items():
        steps = parse(name)
        if look(trial.document, steps) != look(state.document, steps):
            raise _of_engine(name, name, instead, state.id)
    tasks = state.definition.tasks
    counted = tasks.attempts_field if tasks is not None else None
    for task in state.tasks if counted else ():
        id_: Any = task.get("id")
        now = trial.task(id_) or {}
        used = task.get(counted or "")
        lost = used and used != now.get(counted or "")
        moved = now and now.get("status") != task.get("status")
        if tasks and state.task(id_) is task and (lost or moved):
            rule = f"the attempts of {id_} are counted by the engine"
            way = f"wfctl machine task {state.id} {id_} --status …"
            raise ReservedField(f"{tasks.path}.status", rule, way)


def _of_engine(path: str, name: str, instead: str, machine: str) -> ReservedField:
    return ReservedField(path, f"{name} is written by the engine", instead.replace("{id}", machine))


def refuse_reserved(definition: Definition, path: Steps, machine: str) -> None:
    """Raise `ReservedField` for a path that only the engine writes."""
    for name, instead in definition.all_reserved().items():
        parts = parse(name)
        if path[: len(parts)] == parts:
            raise _of_engine(written(path), name, instead, machine)
    tasks = definition.tasks
    counted = tasks.attempts_field if tasks is not None else None
    if tasks and counted and (path[:1], path[2:]) == ((tasks.path,), (counted,)):
        rule = "attempts are counted by the engine"
        raise ReservedField(written(path), rule, f"wfctl machine task {machine} TASK --status …")
    if any(isinstance(step, str) and step.startswith("_") for step in path):
        rule = "every segment that begins with _ is the engine's"
        raise ReservedField(written(path), rule, _without_dashes(definition, path, machine))


def refuse_misplaced(definition: Definition, path: Steps, machine: str) -> None:
    """Raise `ReservedField` for a known name that is written among free data."""
    found = _place_of(definition, path)
    if found is not None:
        place, instead = found
        rule = f"{place} is its place, and a known name is no free data"
        way = instead or f"wfctl machine update {{id}} {place}=…"
        raise ReservedField(written(path), rule, way.replace("{id}", machine))


def _without_dashes(definition: Definition, path: Steps, machine: str) -> str:
    """Return how to write a field whose name begins with _: by a name that is not refused."""
    plain = tuple(step.lstrip("_") or "x" if isinstance(step, str) else step for step in path)
    try:
        refuse_reserved(definition, plain, machine)
    except ReservedField as refusal:
        return str(refusal.data["alternateWritePath"])
    nearest = nearest_name(definition.fields, plain)
    if nearest is not None:
        return f"`wfctl machine describe {definition.id}` shows the fields, {nearest} among them"
    return f"wfctl machine update {machine} {written(plain)}=…"


def _check_shape(definition: Definition, document: dict[str, Any], before: dict[str, Any]) -> None:
    """Refuse values of another shape; those that an import took over stay as they are."""
    known = misfits(definition.fields, before, "")
    found = [one for one in misfits(definition.fields, document, "") if one not in known]
    if found:
        raise InvalidInput(
            f"the values do not fit the state of {definition.id}: {'; '.join(found)}. "
            f"`wfctl machine describe {definition.id}` shows its fields.",
            problems=found,
        )


def _check_names(state: Machine, command: p.MachineUpdated) -> None:
    """Refuse a new field with a name, or almost the name, of one that has another place."""
    places = [(parse(one.path), one.value) for one in command.changes]
    paths = [path for steps, value in places for path in (steps, *leaves(value, steps))]
    near = {path: nearest_name(state.definition.fields, path) for path in paths}
    problems = [
        f"{written(path)}: is {near[path]} meant?"
        for path in paths
        if near[path] is not None and look(state.document, path) is None
    ]
    if problems:
        raise InvalidInput(
            f"there are no such fields: {'; '.join(problems)}. Fields of your own have names "
            "that differ more.",
            problems=problems,
        )
    for path in paths:
        refuse_misplaced(state.definition, path, state.id)


def _check_tasks(state: Machine, trial: Machine) -> None:
    """Refuse new tasks that nobody could name: without an id, or with one that is taken."""
    before, after = _odd_tasks(state), _odd_tasks(trial)
    problems = [one for one in after if after.count(one) > before.count(one)]
    if problems:
        raise InvalidInput(
            f"each task has an id of its own: {'; '.join(dict.fromkeys(problems))}",
            problems=problems,
        )


def _odd_tasks(state: Machine) -> list[str]:
    ids = [task.get("id") for task in state.tasks]
    named = [isinstance(id_, str) and bool(id_.strip()) for id_ in ids]
    return [
        f"found {id_!r} {ids.count(id_)} times"
        if is_named
        else f"found a task without an id ({task!r:.60})"
        for id_, is_named, task in zip(ids, named, state.tasks, strict=True)
        if not is_named or ids.count(id_) > 1
    ]


def check_places(state: Machine, command: Payload) -> None:
    """Refuse values for items that are named by their place in a list, as in ``tasks[0]``.

    Another writer may have changed the list since its places were looked at: who writes so says
    which version that was, and this is not called.
    """
    changes = command.changes if isinstance(command, p.MachineUpdated) else []
    for path in (change.path for change in changes):
        steps = parse(path)
        at = (n for n, one in enumerate(steps) if isinstance(one, int) and one != PAST_THE_END)
        whole = next((written(steps[:number]) for number in at), None)
        if whole is None:
            continue
        update, tasks = f"wfctl machine update {state.id}", state.definition.tasks
        ways = [f"{update} {whole}[+]=…", f"{update} {path}=… --expected-version N"]
        if tasks is not None and whole == tasks.path:
            ways.insert(0, f"wfctl machine task {state.id} TASK --status …")
        raise InvalidInput(
            f"{path} names an item by its place in {whole}, and somebody else may have changed "
            f"that list since you looked. Expected: {'; or '.join(f'`{way}`' for way in ways)}, "
            "where N is the version that you looked at.",
            path=path,
            ways=ways,
        )


def check_fields(definition: Definition, document: dict[str, Any]) -> None:
    """Raise if a first state holds reserved fields or values that do not fit."""
    limits = [parse(one.limit_from) for one in definition.loops.values() if one.limit_from]
    for path in leaves(document):
        if path in limits:
            check_limit(written(path), look(document, path))
        else:
            refuse_reserved(definition, path, "ID")
            refuse_misplaced(definition, path, "ID")
    _check_shape(definition, document, {})


def check_limit(place: str, value: Any) -> None:
    """Raise `InvalidInput` for what can be no limit of a loop."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_ROUNDS:
        raise InvalidInput(
            f"{place}: a limit is a whole number from 1 to {MOST_ROUNDS}, found {value!r:.40}",
            path=place,
        )


def record(state: Machine, command: p.MachineRecorded, now: Asked) -> list[Payload]:
    """Accept an event that the definition names, with data of its shape.

    One that says that the phase's work is done needs the phase's output.
    """
    kind = _kind_of(state, command.name)
    problems = misfits(kind.data, command.data, "")
    unknown = [key for key in command.data if not state.definition.data_that_fits(kind, key)]
    problems += [f"{key}: {command.name} has no such data" for key in unknown]
    problems += [f"{key}: this is missing" for key in kind.required if not command.data.get(key)]
    if problems:
        raise InvalidInput(
            f"the data does not fit {command.name}: {'; '.join(problems)}. Expected: {kind.data}",
            name=command.name,
            problems=problems,
        )
    _check_moment(state, command.name, kind)
    if kind.completes:
        _check_output(state, command.name, now.files)
    return [command.model_copy(update={"phase": state.phase})]


def _check_output(state: Machine, name: str, files: Mapping[str, FileFact]) -> None:
    """Raise `GuardFailed` if the output that a way out of the phase asks for is not there."""
    output = state.definition.phases[state.phase].output
    facts = state.facts(files)
    missing = [
        one
        for part in state.definition.conditions(state.phase)
        if isinstance(part, HasFile) and part.file == output
        for one in unmet(part, facts)
    ]
    if missing:
        raise GuardFailed(state.phase, name, missing, [], {})


def _kind_of(state: Machine, name: str) -> EventKind:
    if name in ELSEWHERE and name not in state.definition.events:
        way = f"wfctl machine {ELSEWHERE[name]} {state.id} …"
        raise InvalidInput(f"{name} is recorded by `{way}`", name=name)
    if name not in state.definition.events:
        raise no_such(state, "event", "name", name, state.definition.events)
    return state.definition.events[name]


def no_such(state: Machine, kind: str, key: str, name: str, known: Collection[str]) -> InvalidInput:
    """Return why a name of this kind means nothing here; ``key`` is its key in the data."""
    there = ", ".join(known) or "none"
    return InvalidInput(
        f"no {kind} {name!r}; {state.definition.id} has: {there}",
        **{key: name, "known": list(known)},
    )


def _check_moment(state: Machine, name: str, kind: EventKind) -> None:
    stands = None if state.is_final else state.definition.phases[state.phase].status
    if kind.status is not None and stands is not None:
        why = f"the phase stands at {stands} until a way leads out of it"
        ways = [way.to for way in state.definition.ways(state.phase)]
        raise InvalidTransition(state.phase, name, why, ways)
    if kind.after and (state.is_final or state.status not in kind.after):
        now = [
            other
            for other, one in state.definition.events.items()
            if state.status in one.after and not state.is_final
        ]
        where = f"it is recorded where the phase is {' or '.join(kind.after)}"
        raise InvalidTransition(state.phase, name, f"{where}, here it is {state.status}", now)


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
    {"id", "name", "title", "type", "status", "version"}
    | {"started_at", "completed_at", "last_updated", "createdAt", "updatedAt"}
)


def _place_of(definition: Definition, path: Steps) -> tuple[str, str | None] | None:
    """Return the place of a known name that stands in free data, and what is done instead.

    The latter is None if the name is written at its place; the whole is None if a path
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
    for name, child in shape.items() if isinstance(shape, dict) and "*" not in shape else ():
        place = f"{above}.{name}" if above else name
        yield name, place
        yield from _named(child, place)
