"""What makes a definition sound: it is checked whole when it is loaded.

Refused are phases that cannot be reached or left, guards on what the machine does not have, and
loops without an exit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from lifecycle.machines import guard as g
from lifecycle.machines.definition import CANCELLED, DEFINITION, Definition, Transition, trusted
from lifecycle.machines.errors import InvalidDefinition, InvalidInput
from lifecycle.machines.path import parse
from lifecycle.machines.shape import Shape, below, faults, meant, misfits, nearest_name
from lifecycle.state.conditions import downstream, find_cycle

#: The files that a protocol writes.
_ROLES = {
    "exarchos": ("state",),
    "dotagent": ("phase", "execution", "archive"),
    "conductor": ("metadata",),
}


def load(data: Any, name: str = "given") -> Definition:
    """Return the definition that ``data`` (decoded JSON, YAML or TOML) holds.

    Raises `InvalidDefinition` with every problem that was found.
    """
    definition = trusted(data, name)
    found = problems(definition)
    if found:
        raise InvalidDefinition(definition.id, found)
    return definition


def problems(definition: Definition) -> list[str]:
    """Return everything that is wrong with a definition."""
    shapes = faults(definition.fields, "fields")
    for name, kind in definition.events.items():
        shapes += faults(kind.data, f"events.{name}.data")
    shapes = shapes or misfits(definition.fields, definition.defaults, "defaults")
    named = [*_names(definition), *shapes, *_patterns(definition), *misplaced(definition)]
    named += _paths_of_fields(definition)
    guards = [
        problem for place, one in _guards(definition) for problem in _guard(definition, place, one)
    ]
    return [*named, *guards] if named else [*guards, *_reach(definition), *_loops(definition)]


def _missing(definition: Definition, place: str, kind: str, *names: str | None) -> Iterator[str]:
    """Yield which of these names there is not, and which there are."""
    statuses = definition.statuses.values if definition.statuses is not None else []
    known = statuses if kind == "status" else list(getattr(definition, f"{kind}s"))
    for name in names:
        if name not in (None, *known):
            there = f"there is: {', '.join(known) or 'none'}{meant(name, known)}"
            yield f"{place}: no {kind} {name!r}; {there}"


def _names(definition: Definition) -> Iterator[str]:
    yield from _missing(definition, "initial", "phase", definition.initial)
    if CANCELLED in definition.phases:
        yield f"phases.{CANCELLED}: every machine has it by itself"
    if not any(phase.final for phase in definition.phases.values()):
        yield "phases: none is final"
    yield from _persons(definition)
    yield from _statuses(definition)
    yield from _tasks(definition)
    for way in definition.transitions:
        yield from _way(definition, way)
    twice = Counter(map(_arrow, definition.transitions))
    yield from (f"{arrow} appears {n} times" for arrow, n in twice.items() if n > 1)
    for name, loop in definition.loops.items():
        yield from _missing(definition, f"loops.{name}.on_limit", "phase", loop.on_limit)
        if all(way.loop != name for way in definition.transitions):
            yield f"loops.{name}: no transition counts it"
    if DEFINITION in definition.approvals:
        yield f"approvals.{DEFINITION}: the definition is approved by this name; choose another"
    for name, approval in definition.approvals.items():
        yield from _missing(definition, f"approvals.{name}.phase", "phase", approval.phase)


def _arrow(way: Transition) -> str:
    return f"transitions: {way.source} -> {way.to}"


def _persons(definition: Definition) -> Iterator[str]:
    for way in definition.transitions:
        phase = definition.phases.get(way.source)
        waits = phase is not None and phase.person == "decides" and way.loop is None
        if waits and not _is_held(way.guard):
            yield (
                f"{_arrow(way)}: a person decides in {way.source}; add {{approved: NAME}} to the "
                f"guard, with an approval of the phase {way.source}, count the way by a loop, or "
                "say person: advises"
            )


def _statuses(definition: Definition) -> Iterator[str]:
    named = [(f"phases.{name}", phase.status) for name, phase in definition.phases.items()]
    for name, kind in definition.events.items():
        named += [(f"events.{name}", status) for status in (kind.status, *kind.after)]
        yield from (f"events.{name}: no data {r!r}" for r in kind.required if r not in kind.data)
    if definition.statuses is not None:
        named.append(("statuses.initial", definition.statuses.initial))
    for place, status in named:
        yield from _missing(definition, place, "status", status)


def _tasks(definition: Definition) -> Iterator[str]:
    tasks = definition.tasks
    if tasks is None:
        return
    for role in ("running", "done", "failed"):
        status = getattr(tasks, role)
        if status not in tasks.statuses:
            yield f"tasks.{role}: no status {status!r} among tasks.statuses"
    yield from _missing(definition, "tasks.beyond", "approval", tasks.beyond)


def _way(definition: Definition, way: Transition) -> Iterator[str]:
    place = _arrow(way)
    yield from _missing(definition, place, "phase", way.source, way.to)
    if way.source in definition.phases and definition.phases[way.source].final:
        yield f"{place}: nothing leaves a final phase"
    yield from _missing(definition, place, "loop", way.loop, *way.resets)
    for name in [part.approved for part in g.parts(way.guard) if isinstance(part, g.Approved)]:
        known = definition.approvals.get(name)
        if known is not None and known.phase != way.source:
            yield f"{place}: {name} is given in {known.phase}, never here"


def _patterns(definition: Definition) -> Iterator[str]:
    tasks = definition.tasks
    named = [("id_pattern", definition.id_pattern)]
    for place, pattern in [*named, *([("tasks.pattern", tasks.pattern)] if tasks else [])]:
        try:
            re.compile(pattern)
        except re.error as error:
            yield f"{place}: no regular expression: {error}"


def misplaced(definition: Definition) -> Iterator[str]:
    """Yield which files are not where a machine may write or look, and which are not named."""
    for role in _ROLES[definition.protocol]:
        if role not in definition.files:
            yield f"files.{role}: the protocol {definition.protocol} writes this file; name it"
    yield from _named_files(definition)
    listed = [(f"files.{role}", path) for role, path in definition.files.items()]
    for name, phase in definition.phases.items():
        shown = {"output": phase.output, "options": phase.options}
        listed += [(f"phases.{name}.{key}", path) for key, path in shown.items() if path]
    for place, guard in _guards(definition):
        listed += [(place, part.file) for part in g.parts(guard) if isinstance(part, g.HasFile)]
    for place, path in listed:
        if not g.is_inside(path):
            yield f"{place}: expected the path of a file inside the root, found {path!r}"


def _named_files(definition: Definition) -> Iterator[str]:
    """Yield which files nobody writes, and which names hold what nothing is put in for."""
    roles = _ROLES[definition.protocol]
    for role, path in definition.files.items():
        if role not in roles:
            known = ", ".join(roles)
            yield f"files.{role}: nobody writes it; the protocol {definition.protocol} has: {known}"
        for name in re.findall(r"\{[^}]*\}?", path):
            if name != "{id}":
                yield f"files.{role}: only {{id}} is put in, the machine's id; found {name!r}"


def _guards(definition: Definition) -> Iterator[tuple[str, g.Guard | None]]:
    yield from ((_arrow(way), way.guard) for way in definition.transitions)
    yield from ((f"blockers[{n}]", one.when) for n, one in enumerate(definition.blockers))


#: Condition → its field that names something of the definition, and what that is.
_NAMING: dict[type[BaseModel], tuple[str, str]] = {
    g.Counter: ("counter", "loop"),
    g.LimitOf: ("limit_of", "loop"),
    g.Recorded: ("recorded", "event"),
    g.Approved: ("approved", "approval"),
    g.StatusIs: ("phase_status", "status"),
}


def _guard(definition: Definition, place: str, guard: g.Guard | None) -> Iterator[str]:
    for part in g.parts(guard):
        path = g.path_of(part)
        if path is not None:
            yield from _field(definition, place, path)
        if type(part) in _NAMING:
            field, kind = _NAMING[type(part)]
            yield from _missing(definition, place, kind, getattr(part, field))
        yield from (f"{place}: {one}" for one in _never_met(definition, part))


def _field(definition: Definition, place: str, path: str) -> Iterator[str]:
    try:
        if below(definition.fields, parse(path)) is None:
            nearest = nearest_name(definition.fields, parse(path))
            asked = f"; is {nearest} meant?" if nearest is not None else ""
            why = f"which is not among the fields; add its shape there{asked}"
            yield f"{place}: it looks at {path}, {why}"
    except InvalidInput as error:
        yield f"{place}: {error.message}"


def _paths_of_fields(definition: Definition) -> Iterator[str]:
    for name, loop in definition.loops.items():
        if loop.limit_from is not None:
            yield from _field(definition, f"loops.{name}.limit_from", loop.limit_from)
    for path in definition.reserved:
        try:
            parse(path)
        except InvalidInput as error:
            yield f"reserved: {error.message}"


def _arrows(definition: Definition, ways: Iterable[Transition]) -> dict[str, list[str]]:
    """Return for each phase the phases that lead to it."""
    found: dict[str, list[str]] = {phase: [] for phase in definition.phases}
    for way in ways:
        found[way.to].append(way.source)
        if way.loop is not None:
            found[definition.loops[way.loop].on_limit].append(way.source)
    return found


def _reach(definition: Definition) -> Iterator[str]:
    into = _arrows(definition, definition.transitions)
    onward = {
        phase: [to for to, sources in into.items() for one in sources if one == phase]
        for phase in into
    }
    final = [name for name, phase in definition.phases.items() if phase.final]
    for starts, leads, why in (
        ([definition.initial], into, "no way leads here"),
        (final, onward, "no way leads from here to an end"),
    ):
        reached = downstream(leads, starts) | set(starts)
        yield from (f"phases.{name}: {why}" for name in into if name not in reached)


def _loops(definition: Definition) -> Iterator[str]:
    """A cycle ends by being counted, or waits for a person; a limit leads out of its cycle."""
    unattended = [way for way in definition.transitions if not _is_held(way.guard)]
    onward: dict[str, list[str]] = {phase: [] for phase in definition.phases}
    for way in unattended:
        if way.resets:
            yield f"{_arrow(way)}: only where a person agrees does a count begin anew"
        if way.loop is None and not way.unbounded:
            onward[way.source].append(way.to)
    cycle = find_cycle(onward)
    if cycle is not None:
        yield f"transitions: {' -> '.join(cycle)} is a loop without an exit: nothing counts it"
    into = _arrows(definition, unattended)
    for way in definition.transitions:
        out = definition.loops[way.loop].on_limit if way.loop is not None else None
        if out is not None and way.source in downstream(into, [out]) | {out}:
            yield f"loops.{way.loop}.on_limit: {out} leads back into the loop; it is no exit"


def _is_held(guard: g.Guard | None) -> bool:
    """Whether a person must agree, for the guard to be met."""
    if isinstance(guard, g.All):
        return any(map(_is_held, guard.all))
    return isinstance(guard, g.Approved)


def _never_met(definition: Definition, condition: g.Guard) -> Iterator[str]:
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
    item = shape[0] if isinstance(shape, list) else None
    item = shape.get("*") if isinstance(shape, dict) else item
    status = item.get("status") if isinstance(item, dict) else item
    known = status.split("|") if isinstance(status, str) and "|" in status else statuses
    wrong = ", ".join(one for one in statuses if one not in known)
    if wrong:
        yield f"status: no item of {path} is ever {wrong}; expected some of {', '.join(known)}"
