"""Check changes of the fields of a phase machine.

The rules decide which names and values may be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from extensions.machines.rules import payload as p
from extensions.machines.rules.definition import MOST_ROUNDS, Definition
from extensions.machines.rules.errors import (
    InvalidInput,
    ReservedField,
)
from extensions.machines.rules.field_shapes import Shape, find_shape_at, list_misfits, nearest_name
from extensions.machines.rules.machine import CommandContext, Machine
from extensions.machines.rules.path import (
    PAST_THE_END,
    Steps,
    format_path,
    get_value,
    is_inside_written_path,
    iterate_written_paths,
    list_key_paths,
    parse_path,
    parse_writable_path,
    remove_field,
    set_value,
)
from lifecycle.payload.base import Payload
from lifecycle.words.document import record_key_order
from wording import FirstReasons


def decide_update(state: Machine, command: p.MachineUpdated, now: CommandContext) -> list[Payload]:
    """Return the event that sets new values, or no event if all fields have their values.

    Raises an error if a field is reserved or a value has the wrong structure.
    """
    trial = state.draft()
    for change in command.changes:
        steps = parse_writable_path(change.path)
        for path in (steps, *list_key_paths(change.value, steps)):
            refuse_reserved(state.definition, path, state.id)
        set_value(trial.document, steps, change.value)
    for steps in map(parse_writable_path, command.removed):
        refuse_reserved(state.definition, steps, state.id)
        remove_field(trial.document, steps)
    _check_reserved_unchanged(state, trial)
    _check_shape(state.definition, trial.document, state.document)
    _check_names(state, command)
    _check_added_task_ids(state, trial)
    same = trial.document == state.document and command.digests.items() <= state.digests.items()
    same = same and record_key_order(trial.document) == record_key_order(state.document)
    paths = [
        one
        for change in command.changes
        for one in iterate_written_paths(parse_path(change.path), change.value)
    ]
    is_said = all(is_inside_written_path(state.visit.written, one) for one in paths)
    return [] if same and is_said else [command]


def _check_reserved_unchanged(state: Machine, trial: Machine) -> None:
    """Raise `ReservedField` if an update removes reserved fields with their parent object.

    ``trial`` is the state after the update.
    """
    for name, instead in state.definition.reserved_field_commands().items():
        steps = parse_path(name)
        if get_value(trial.document, steps) != get_value(state.document, steps):
            raise _build_reserved_error(name, name, instead, state.id)
    tasks = state.definition.tasks
    counted = tasks.attempts_field if tasks is not None else None
    for task in state.tasks if counted else ():
        id_: Any = task.get("id")
        now = trial.task(id_) or {}
        used = task.get(counted or "")
        lost = used and used != now.get(counted or "")
        moved = now and now.get("status") != task.get("status")
        if tasks and state.task(id_) is task and (lost or moved):
            rule = f"wfctl counts the attempts of {id_}"
            way = f"wfctl machine task {state.id} {id_} --status …"
            raise ReservedField(f"{tasks.path}.status", rule, way)


def _build_reserved_error(path: str, name: str, instead: str, machine: str) -> ReservedField:
    return ReservedField(path, f"only wfctl writes {name}", instead.replace("{id}", machine))


#: Reserved fields of the published protocols that hold a handoff, and the command that writes a
#: handoff.
_HAND_OFFS: dict[str | int, str] = dict.fromkeys(
    ("_checkpoint", "_eventHints"), "wfctl machine checkpoint {id} --summary TEXT --next TEXT"
)


def refuse_reserved(definition: Definition, path: Steps, machine: str) -> None:
    """Raise `ReservedField` if only wfctl may write the field at a path."""
    for name, instead in definition.reserved_field_commands().items():
        parts = parse_path(name)
        if path[: len(parts)] == parts:
            raise _build_reserved_error(format_path(path), name, instead, machine)
    tasks = definition.tasks
    counted = tasks.attempts_field if tasks is not None else None
    if tasks and counted and (path[:1], path[2:]) == ((tasks.path,), (counted,)):
        rule = "wfctl counts the attempts of tasks"
        raise ReservedField(
            format_path(path), rule, f"wfctl machine task {machine} TASK --status …"
        )
    if any(isinstance(step, str) and step.startswith("_") for step in path):
        rule = "names that start with _ are reserved for wfctl"
        way = _HAND_OFFS.get(path[0]) or _build_renamed_field_command(definition, path, machine)
        raise ReservedField(format_path(path), rule, way.replace("{id}", machine))


def refuse_misplaced(definition: Definition, path: Steps, machine: str) -> None:
    """Raise `ReservedField` if a path uses the name of a known field in the wrong place."""
    found = _find_correct_place(definition, path)
    if found is not None:
        place, instead = found
        rule = f"the field {place} has this name, so no other field may use it"
        way = instead or f"wfctl machine update {{id}} {place}=…"
        raise ReservedField(format_path(path), rule, way.replace("{id}", machine))


def _build_renamed_field_command(definition: Definition, path: Steps, machine: str) -> str:
    """Return the command that writes the field under a name without the leading ``_``."""
    plain = tuple(step.lstrip("_") or "x" if isinstance(step, str) else step for step in path)
    try:
        refuse_reserved(definition, plain, machine)
    except ReservedField as refusal:
        return str(refusal.data["alternateWritePath"])
    nearest = nearest_name(definition.fields, plain)
    if nearest is not None:
        return f"`wfctl machine describe {definition.id}` shows the fields, such as {nearest}"
    return f"wfctl machine update {machine} {format_path(plain)}=…"


def _check_shape(definition: Definition, document: dict[str, Any], before: dict[str, Any]) -> None:
    """Raise an error for new values that do not have the expected structure.

    Unchanged values, for example imported ones, are accepted.
    """
    known = list_misfits(definition.fields, before, "")
    found = [one for one in list_misfits(definition.fields, document, "") if one not in known]
    if found:
        found = FirstReasons(found)
        raise InvalidInput(
            (
                f"these values do not match the fields of the machine type {definition.id}: "
                f"{'; '.join(found)}. To see the fields, run `wfctl machine describe "
                f"{definition.id}`."
            ),
            problems=found,
        )


def _check_names(state: Machine, command: p.MachineUpdated) -> None:
    """Raise an error for a new field whose name equals or resembles that of another field."""
    places = [(parse_path(one.path), one.value) for one in command.changes]
    paths = [path for steps, value in places for path in (steps, *list_key_paths(value, steps))]
    near = {path: nearest_name(state.definition.fields, path) for path in paths}
    problems = [
        f"{format_path(path)}: did you mean {near[path]}?"
        for path in paths
        if near[path] is not None and get_value(state.document, path) is None
    ]
    if problems:
        problems = FirstReasons(problems)
        raise InvalidInput(
            (
                f"these fields do not exist: {'; '.join(problems)} To add a new field, "
                "choose a name that differs more from the existing names."
            ),
            problems=problems,
        )
    for path in paths:
        refuse_misplaced(state.definition, path, state.id)


def _check_added_task_ids(state: Machine, trial: Machine) -> None:
    """Raise an error if an update adds tasks without an id, or with an id in use."""
    before, after = _list_invalid_task_ids(state), _list_invalid_task_ids(trial)
    problems = [one for one in after if after.count(one) > before.count(one)]
    if problems:
        problems = FirstReasons(dict.fromkeys(problems))
        raise InvalidInput(
            f"task ids must be unique: {'; '.join(problems)}",
            problems=problems,
        )


def _list_invalid_task_ids(state: Machine) -> list[str]:
    ids = [task.get("id") for task in state.tasks]
    named = [isinstance(id_, str) and bool(id_.strip()) for id_ in ids]
    return [
        f"the id {id_!r} appears {ids.count(id_)} times"
        if is_named
        else f"a task has no id ({task!r:.60})"
        for id_, is_named, task in zip(ids, named, state.tasks, strict=True)
        if not is_named or ids.count(id_) > 1
    ]


def refuse_list_positions(state: Machine, command: Payload) -> None:
    """Raise an error if a command names a list item by its position, such as ``tasks[0]``.

    Another writer may have changed the list in the meantime. The caller skips this check if the
    command states the expected version.
    """
    changes = command.changes if isinstance(command, p.MachineUpdated) else []
    for path in (change.path for change in changes):
        steps = parse_path(path)
        at = (n for n, one in enumerate(steps) if isinstance(one, int) and one != PAST_THE_END)
        whole = next((format_path(steps[:number]) for number in at), None)
        if whole is None:
            continue
        update, tasks = f"wfctl machine update {state.id}", state.definition.tasks
        ways = [f"{update} {whole}[+]=…", f"{update} {path}=… --expected-version N"]
        if tasks is not None and whole == tasks.path:
            ways.insert(0, f"wfctl machine task {state.id} TASK --status …")
        raise InvalidInput(
            (
                f"the path {path} refers to a list item by its index in {whole}, but another "
                "writer may have changed this list. Use "
                f"{'; or '.join((f'`{way}`' for way in ways))}, where N is the version that you "
                "read."
            ),
            path=path,
            ways=ways,
        )


def check_initial_fields(definition: Definition, document: dict[str, Any]) -> None:
    """Raise an error if an initial state has reserved fields or wrong values."""
    limits = [parse_path(one.limit_from) for one in definition.loops.values() if one.limit_from]
    for path in list_key_paths(document):
        if path in limits:
            check_loop_limit(format_path(path), get_value(document, path))
        else:
            refuse_reserved(definition, path, "ID")
            refuse_misplaced(definition, path, "ID")
    _check_shape(definition, document, {})


def check_loop_limit(place: str, value: Any) -> None:
    """Raise `InvalidInput` if the value is not a valid limit of a loop."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_ROUNDS:
        raise InvalidInput(
            (
                f"the limit {place} must be a whole number from 1 to {MOST_ROUNDS}, but the given "
                f"value is {value!r:.40}."
            ),
            path=place,
        )


_ANY = "any"
_ARTIFACTS = ("design", "plan", "pr", "report", "rca", "fixDesign", "sources")
#: The fields of the published state files, for each protocol.
_PUBLISHED: dict[str, dict[str, Any]] = {
    "exarchos": {
        "artifacts": dict.fromkeys(_ARTIFACTS, _ANY),
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
#: Common names that may be used in any place.
_COMMON = frozenset(
    {"id", "name", "title", "type", "status", "version"}
    | {"started_at", "completed_at", "last_updated", "createdAt", "updatedAt"}
)


def _find_correct_place(definition: Definition, path: Steps) -> tuple[str, str | None] | None:
    """Return the correct place of a misplaced name, and the command to use instead.

    The command is None if an ordinary update can write the field. The result is None if the path
    belongs to the definition or its protocol, or if it contains no known name.
    """
    known = _list_known_names(definition)
    shapes = (definition.fields, _PUBLISHED[definition.protocol])
    lengths = range(len(path), 0, -1)
    # The number of parts at the start of the path that belong to the definition or the protocol.
    led = next(
        (n for n in lengths if any(find_shape_at(s, path[:n]) is not None for s in shapes)), 0
    )
    free = path[led:]
    name = next((step for step in free if isinstance(step, str) and step in known), None)
    return known[name] if name is not None else None


def _list_known_names(definition: Definition) -> dict[str, tuple[str, str | None]]:
    """Return each known name with its place, and the command for a reserved field."""
    shapes = (_PUBLISHED[definition.protocol], definition.fields)
    fields = {
        name: (place, None) for shape in shapes for name, place in _iterate_named_fields(shape, "")
    }
    engine = {
        str(parse_path(p)[-1]): (p, instead)
        for p, instead in definition.reserved_field_commands().items()
    }
    every: dict[str, tuple[str, str | None]] = {**fields, **engine}
    return {name: found for name, found in every.items() if name not in _COMMON}


def _iterate_named_fields(shape: Shape, above: str) -> Iterator[tuple[str, str]]:
    """Yield the names and places of all fields of a shape, except those in lists."""
    for name, child in shape.items() if isinstance(shape, dict) and "*" not in shape else ():
        place = f"{above}.{name}" if above else name
        yield name, place
        yield from _iterate_named_fields(child, place)
