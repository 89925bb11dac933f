"""Check the definition of a phase machine when it is loaded.

A definition is refused if a phase cannot be reached or left, if a guard names a missing part of the
machine, or if a cycle has no exit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from extensions.machines.rules import guard as g
from extensions.machines.rules.definition import (
    CANCELLED,
    DEFINITION,
    Definition,
    Transition,
    load_trusted_definition,
)
from extensions.machines.rules.errors import InvalidDefinition, InvalidInput
from extensions.machines.rules.field_shapes import (
    Shape,
    find_shape_at,
    list_misfits,
    list_shape_faults,
    nearest_name,
    suggest_name,
)
from extensions.machines.rules.path import parse_path
from lifecycle.state.conditions import downstream, find_cycle

#: Protocol → keys of the files that wfctl writes for it.
_ROLES = {
    "exarchos": ("state",),
    "dotagent": ("phase", "execution", "archive"),
    "conductor": ("metadata",),
}


def load_definition(data: Any, name: str = "given") -> Definition:
    """Check a definition and return it. ``data`` is decoded JSON, YAML or TOML.

    Raises `InvalidDefinition` with every problem.
    """
    definition = load_trusted_definition(data, name)
    found = list_problems(definition)
    if found:
        raise InvalidDefinition(definition.id, found)
    return definition


def list_problems(definition: Definition) -> list[str]:
    """Return every problem of a machine's definition.

    An empty list means that the definition is valid.
    """
    shapes = list_shape_faults(definition.fields, "fields")
    for name, kind in definition.events.items():
        shapes += list_shape_faults(kind.data, f"events.{name}.data")
    shapes = shapes or list_misfits(definition.fields, definition.defaults, "defaults")
    named = [
        *_check_declarations(definition),
        *shapes,
        *_check_patterns(definition),
        *list_misplaced_files(definition),
    ]
    named += _paths_of_fields(definition)
    guards = [
        problem
        for place, one in _iterate_guards(definition)
        for problem in _check_guard(definition, place, one)
    ]
    return (
        [*named, *guards]
        if named
        else [*guards, *_check_reachability(definition), *_check_loops(definition)]
    )


def _list_unknown_names(
    definition: Definition, place: str, kind: str, *names: str | None
) -> Iterator[str]:
    """Yield a problem for each name that the definition does not define.

    ``kind`` is the kind of the names, for example phase or loop. The problem lists the known names.
    """
    statuses = definition.statuses.values if definition.statuses is not None else []
    known = statuses if kind == "status" else list(getattr(definition, f"{kind}s"))
    for name in names:
        if name not in (None, *known):
            there = f"available: {', '.join(known) or 'none'}{suggest_name(name, known)}"
            yield f"{place}: no {kind} {name!r}; {there}"


def _check_declarations(definition: Definition) -> Iterator[str]:
    yield from _list_unknown_names(definition, "initial", "phase", definition.initial)
    if CANCELLED in definition.phases:
        yield (f"phases.{CANCELLED}: the name is reserved, because every machine has this phase")
    if not any(phase.final for phase in definition.phases.values()):
        yield "phases: at least one phase must be final"
    yield from _check_person_phases(definition)
    yield from _check_statuses(definition)
    yield from _check_tasks(definition)
    for way in definition.transitions:
        yield from _check_way(definition, way)
    twice = Counter(map(_format_arrow, definition.transitions))
    yield from (
        f"{arrow} is defined {n} times; expected once" for arrow, n in twice.items() if n > 1
    )
    for name, loop in definition.loops.items():
        yield from _list_unknown_names(definition, f"loops.{name}.on_limit", "phase", loop.on_limit)
        if all(way.loop != name for way in definition.transitions):
            yield f"loops.{name}: no transition uses this loop"
    if DEFINITION in definition.approvals:
        yield (
            f"approvals.{DEFINITION}: this name is reserved for the approval of the "
            "definition; choose another name"
        )
    for name, approval in definition.approvals.items():
        yield from _list_unknown_names(
            definition, f"approvals.{name}.phase", "phase", approval.phase
        )


def _format_arrow(way: Transition) -> str:
    return f"transitions: {way.source} -> {way.to}"


def _check_person_phases(definition: Definition) -> Iterator[str]:
    for way in definition.transitions:
        phase = definition.phases.get(way.source)
        waits = phase is not None and phase.person == "decides" and way.loop is None
        if waits and not _is_approval_required(way.guard):
            yield (
                f"{_format_arrow(way)}: a person decides in {way.source}, but the transition needs "
                "no approval; add {approved: NAME} to the guard, with an approval of the "
                f"phase {way.source}, count the transition by a loop, or write person: advises"
            )


def _check_statuses(definition: Definition) -> Iterator[str]:
    named = [(f"phases.{name}", phase.status) for name, phase in definition.phases.items()]
    for name, kind in definition.events.items():
        named += [(f"events.{name}", status) for status in (kind.status, *kind.after)]
        yield from (
            f"events.{name}: the data has no field {r!r}"
            for r in kind.required
            if r not in kind.data
        )
    if definition.statuses is not None:
        named.append(("statuses.initial", definition.statuses.initial))
    for place, status in named:
        yield from _list_unknown_names(definition, place, "status", status)


def _check_tasks(definition: Definition) -> Iterator[str]:
    tasks = definition.tasks
    if tasks is None:
        return
    for role in ("running", "done", "failed"):
        status = getattr(tasks, role)
        if status not in tasks.statuses:
            yield f"tasks.{role}: {status!r} is missing in tasks.statuses"
    yield from _list_unknown_names(definition, "tasks.beyond", "approval", tasks.beyond)


def _check_way(definition: Definition, way: Transition) -> Iterator[str]:
    place = _format_arrow(way)
    yield from _list_unknown_names(definition, place, "phase", way.source, way.to)
    if way.source in definition.phases and definition.phases[way.source].final:
        yield f"{place}: a final phase has no transitions"
    yield from _list_unknown_names(definition, place, "loop", way.loop, *way.resets)
    for name in [
        part.approved for part in g.iterate_conditions(way.guard) if isinstance(part, g.Approved)
    ]:
        known = definition.approvals.get(name)
        if known is not None and known.phase != way.source:
            yield (
                f"{place}: the approval {name} belongs to the phase {known.phase}, so the "
                "condition can never be met"
            )


def _check_patterns(definition: Definition) -> Iterator[str]:
    tasks = definition.tasks
    named = [("id_pattern", definition.id_pattern)]
    for place, pattern in [*named, *([("tasks.pattern", tasks.pattern)] if tasks else [])]:
        try:
            re.compile(pattern)
        except re.error as error:
            yield f"{place}: not a valid regular expression: {error}"


def list_misplaced_files(definition: Definition) -> Iterator[str]:
    """Yield a problem for each file that is misplaced, missing or unknown."""
    for role in _ROLES[definition.protocol]:
        if role not in definition.files:
            yield f"files.{role}: missing; the protocol {definition.protocol} writes this file"
    yield from _named_files(definition)
    listed = [(f"files.{role}", path) for role, path in definition.files.items()]
    for name, phase in definition.phases.items():
        shown = {"output": phase.output, "options": phase.options}
        listed += [(f"phases.{name}.{key}", path) for key, path in shown.items() if path]
    for place, guard in _iterate_guards(definition):
        listed += [
            (place, part.file)
            for part in g.iterate_conditions(guard)
            if isinstance(part, g.HasFile)
        ]
    for place, path in listed:
        if not g.is_permitted_path(path):
            yield f"{place}: expected the path of a file inside the root, found {path!r}"


def _named_files(definition: Definition) -> Iterator[str]:
    """Yield a problem for each unknown file, and for each unknown placeholder in a path."""
    roles = _ROLES[definition.protocol]
    for role, path in definition.files.items():
        if role not in roles:
            known = ", ".join(roles)
            yield (
                f"files.{role}: wfctl cannot write this file; the protocol "
                f"{definition.protocol} has: {known}"
            )
        for name in re.findall(r"\{[^}]*\}?", path):
            if name != "{id}":
                yield (
                    f"files.{role}: only {{id}}, the id of the machine, can be used in the path; "
                    f"found {name!r}"
                )


def _iterate_guards(definition: Definition) -> Iterator[tuple[str, g.Guard | None]]:
    yield from ((_format_arrow(way), way.guard) for way in definition.transitions)
    yield from ((f"blockers[{n}]", one.when) for n, one in enumerate(definition.blockers))


#: Type of a condition → its field with the name of another part of the definition, and the kind of
#: that part.
_NAMING: dict[type[BaseModel], tuple[str, str]] = {
    g.Counter: ("counter", "loop"),
    g.LimitOf: ("limit_of", "loop"),
    g.Recorded: ("recorded", "event"),
    g.Approved: ("approved", "approval"),
    g.StatusIs: ("phase_status", "status"),
}


def _check_guard(definition: Definition, place: str, guard: g.Guard | None) -> Iterator[str]:
    for part in g.iterate_conditions(guard):
        path = g.find_field_path(part)
        if path is not None:
            yield from _check_field(definition, place, path)
        if type(part) in _NAMING:
            field, kind = _NAMING[type(part)]
            yield from _list_unknown_names(definition, place, kind, getattr(part, field))
        yield from (f"{place}: {one}" for one in _explain_impossible_condition(definition, part))


def _check_field(definition: Definition, place: str, path: str) -> Iterator[str]:
    try:
        if find_shape_at(definition.fields, parse_path(path)) is None:
            nearest = nearest_name(definition.fields, parse_path(path))
            asked = f"; did you mean {nearest}?" if nearest is not None else ""
            why = f"which fields does not define; add the field and its type to fields{asked}"
            yield f"{place}: the condition reads {path}, {why}"
    except InvalidInput as error:
        yield f"{place}: {error.message}"


def _check_path(place: str, path: str) -> Iterator[str]:
    try:
        parse_path(path)
    except InvalidInput as error:
        yield f"{place}: {error.message}"


def _paths_of_fields(definition: Definition) -> Iterator[str]:
    for name, loop in definition.loops.items():
        if loop.limit_from is not None:
            yield from _check_field(definition, f"loops.{name}.limit_from", loop.limit_from)
        if loop.count_from is not None:
            yield from _check_path(f"loops.{name}.count_from", loop.count_from)
    for path in definition.reserved:
        yield from _check_path("reserved", path)


def _find_source_phases(definition: Definition, ways: Iterable[Transition]) -> dict[str, list[str]]:
    """Return, for each phase, the phases from which a transition leads to it."""
    found: dict[str, list[str]] = {phase: [] for phase in definition.phases}
    for way in ways:
        found[way.to].append(way.source)
        if way.loop is not None:
            found[definition.loops[way.loop].on_limit].append(way.source)
    return found


def _check_reachability(definition: Definition) -> Iterator[str]:
    into = _find_source_phases(definition, definition.transitions)
    onward = {
        phase: [to for to, sources in into.items() for one in sources if one == phase]
        for phase in into
    }
    final = [name for name, phase in definition.phases.items() if phase.final]
    for starts, leads, why in (
        ([definition.initial], into, "no transition leads to this phase"),
        (final, onward, "no transitions lead from this phase to a final phase"),
    ):
        reached = downstream(leads, starts) | set(starts)
        yield from (f"phases.{name}: {why}" for name in into if name not in reached)


def _check_loops(definition: Definition) -> Iterator[str]:
    """Yield a problem for each cycle that could repeat forever without a person.

    A cycle needs a counted transition, an approval, or an exit after its limit.
    """
    unattended = [way for way in definition.transitions if not _is_approval_required(way.guard)]
    onward: dict[str, list[str]] = {phase: [] for phase in definition.phases}
    for way in unattended:
        if way.resets:
            yield (
                f"{_format_arrow(way)}: a transition that resets a loop needs the approval of a "
                "person"
            )
        if way.loop is None and not way.unbounded:
            onward[way.source].append(way.to)
    cycle = find_cycle(onward)
    if cycle is not None:
        yield (
            f"transitions: {' -> '.join(cycle)} can repeat forever; count one of the "
            "transitions by a loop"
        )
    into = _find_source_phases(definition, unattended)
    for way in definition.transitions:
        out = definition.loops[way.loop].on_limit if way.loop is not None else None
        if out is not None and way.source in downstream(into, [out]) | {out}:
            yield (
                f"loops.{way.loop}.on_limit: {out} leads back into the loop; name a phase "
                "outside the loop"
            )


def _is_approval_required(guard: g.Guard | None) -> bool:
    """Return whether a guard requires the approval of a person."""
    if isinstance(guard, g.All):
        return any(map(_is_approval_required, guard.all))
    return isinstance(guard, g.Approved)


def _explain_impossible_condition(definition: Definition, condition: g.Guard) -> Iterator[str]:
    """Yield the reason why a condition can never be met, with a suggested correction."""
    match condition:
        case g.Equals(field=path, equals=value):
            shape = _shape_at(definition, path)
            yield from (f"equals: {one}" for one in list_misfits(shape, value, path))
        case g.HasCommit(commit=path):
            yield from (
                f"commit: {one}" for one in list_misfits(_shape_at(definition, path), "", path)
            )
        case g.Every(every=path, status=statuses) | g.Some(some=path, status=statuses):
            yield from _check_items(_shape_at(definition, path), path, statuses)
        case g.Counter(counter=name, at_least=least, below=most):
            loop = definition.loops.get(name)
            if most is not None and most <= least:
                yield f"counter: no number is at least {least} and below {most}"
            if loop is not None and loop.limit_from is None and least > loop.limit:
                yield (
                    f"counter: the loop {name} stops at {loop.limit}, so the count never reaches "
                    f"{least}"
                )
        case g.HasFile(file=pattern) if "{" in pattern:
            put_in = "braces are not supported; * matches any name"
            yield f"file: {put_in}; found {pattern!r}"


def _shape_at(definition: Definition, path: str) -> Shape:
    """Return the expected structure of a field.

    For an unknown field, the result is ``any``, because another check reports the field.
    """
    try:
        shape = find_shape_at(definition.fields, parse_path(path))
    except InvalidInput:
        shape = None
    return "any" if shape is None else shape


def _check_items(shape: Shape, path: str, statuses: list[str]) -> Iterator[str]:
    if not statuses:
        yield f"status: expected at least one status for the items of {path}"
    if isinstance(shape, str) and shape not in ("list", "object", "any"):
        yield f"{path} is {shape}: expected a list or an object whose items have a status"
        return
    item = shape[0] if isinstance(shape, list) else None
    item = shape.get("*") if isinstance(shape, dict) else item
    status = item.get("status") if isinstance(item, dict) else item
    known = status.split("|") if isinstance(status, str) and "|" in status else statuses
    wrong = ", ".join(one for one in statuses if one not in known)
    if wrong:
        yield (
            f"status: no item of {path} can have the status {wrong}; expected some of "
            f"{', '.join(known)}"
        )
