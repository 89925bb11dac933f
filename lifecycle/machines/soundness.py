"""What makes a definition sound: it is checked whole when it is loaded.

Refused are phases that cannot be reached or left, guards on what the machine does not have, and
loops without an exit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from lifecycle.machines import guard as g
from lifecycle.machines.definition import CANCELLED, DEFINITION, Definition, Transition, trusted
from lifecycle.machines.errors import InvalidDefinition, InvalidInput
from lifecycle.machines.names import never_met
from lifecycle.machines.path import parse
from lifecycle.machines.shape import below, faults, meant, misfits, nearest_name
from lifecycle.state.dependencies import downstream, find_cycle

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
    named = [*_names(definition), *shapes, *_patterns(definition)]
    named += _paths_of_fields(definition)
    guards = [
        problem for place, one in _guards(definition) for problem in _guard(definition, place, one)
    ]
    if named:
        return [*named, *guards]
    return [*guards, *_reach(definition), *_loops(definition)]


def _names(definition: Definition) -> Iterator[str]:
    yield from _phases(definition)
    yield from _persons(definition)
    yield from _statuses(definition)
    yield from _tasks(definition)
    for way in definition.transitions:
        yield from _way(definition, way)
    twice = Counter((way.source, way.to) for way in definition.transitions)
    yield from (
        f"transitions: {a} -> {b} appears {n} times" for (a, b), n in twice.items() if n > 1
    )
    for name, loop in definition.loops.items():
        if loop.on_limit not in definition.phases:
            yield f"loops.{name}.on_limit: {_none(definition, 'phase', loop.on_limit)}"
        if all(way.loop != name for way in definition.transitions):
            yield f"loops.{name}: no transition counts it"
    if DEFINITION in definition.approvals:
        yield f"approvals.{DEFINITION}: the definition is approved by this name; choose another"
    for name, approval in definition.approvals.items():
        if approval.phase not in definition.phases:
            yield f"approvals.{name}.phase: {_none(definition, 'phase', approval.phase)}"


def _phases(definition: Definition) -> Iterator[str]:
    if definition.initial not in definition.phases:
        yield f"initial: {_none(definition, 'phase', definition.initial)}"
    if CANCELLED in definition.phases:
        yield f"phases.{CANCELLED}: every machine has it by itself"
    if not any(phase.final for phase in definition.phases.values()):
        yield "phases: none is final"


def _persons(definition: Definition) -> Iterator[str]:
    """Where a person decides, no way leads on without an approval."""
    for way in definition.transitions:
        phase = definition.phases.get(way.source)
        if (
            phase is None
            or phase.person != "decides"
            or way.loop is not None
            or _is_held(way.guard)
        ):
            continue
        yield (
            f"transitions: {way.source} -> {way.to}: a person decides in {way.source}; add "
            f"{{approved: NAME}} to the guard, with an approval of the phase {way.source}, count "
            "the way by a loop, or say person: advises"
        )


def _known(definition: Definition, kind: str) -> list[str]:
    if kind == "status":
        return definition.statuses.values if definition.statuses is not None else []
    return list(getattr(definition, f"{kind}s"))


def _none(definition: Definition, kind: str, name: object) -> str:
    """Say that there is none of this name, and which there are."""
    known = _known(definition, kind)
    return f"no {kind} {name!r}; there is: {', '.join(known) or 'none'}{meant(name, known)}"


def _statuses(definition: Definition) -> Iterator[str]:
    known = _known(definition, "status")
    named = [(f"phases.{name}", phase.status) for name, phase in definition.phases.items()]
    for name, kind in definition.events.items():
        named += [(f"events.{name}", status) for status in (kind.status, *kind.after)]
        yield from (f"events.{name}: no data {r!r}" for r in kind.required if r not in kind.data)
    if definition.statuses is not None:
        named.append(("statuses.initial", definition.statuses.initial))
    yield from (
        f"{place}: {_none(definition, 'status', status)}"
        for place, status in named
        if status not in (None, *known)
    )


def _tasks(definition: Definition) -> Iterator[str]:
    tasks = definition.tasks
    if tasks is None:
        return
    for role in ("running", "done", "failed"):
        status = getattr(tasks, role)
        if status not in tasks.statuses:
            yield f"tasks.{role}: no status {status!r} among tasks.statuses"
    if tasks.beyond is not None and tasks.beyond not in definition.approvals:
        yield f"tasks.beyond: {_none(definition, 'approval', tasks.beyond)}"


def _way(definition: Definition, way: Transition) -> Iterator[str]:
    place = f"transitions: {way.source} -> {way.to}"
    for phase in (way.source, way.to):
        if phase not in definition.phases:
            yield f"{place}: {_none(definition, 'phase', phase)}"
    if way.source in definition.phases and definition.phases[way.source].final:
        yield f"{place}: nothing leaves a final phase"
    for loop in filter(None, (way.loop, *way.resets)):
        if loop not in definition.loops:
            yield f"{place}: {_none(definition, 'loop', loop)}"
    for name in [part.approved for part in g.parts(way.guard) if isinstance(part, g.Approved)]:
        known = definition.approvals.get(name)
        if known is not None and known.phase != way.source:
            yield f"{place}: {name} is given in {known.phase}, never here"


def _patterns(definition: Definition) -> Iterator[str]:
    named = {"id_pattern": definition.id_pattern}
    if definition.tasks is not None:
        named["tasks.pattern"] = definition.tasks.pattern
    for place, pattern in named.items():
        try:
            re.compile(pattern)
        except re.error as error:
            yield f"{place}: no regular expression: {error}"
    yield from misplaced(definition)


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
    for way in definition.transitions:
        yield f"transitions: {way.source} -> {way.to}", way.guard
    for index, blocker in enumerate(definition.blockers):
        yield f"blockers[{index}]", blocker.when


def _guard(definition: Definition, place: str, guard: g.Guard | None) -> Iterator[str]:
    for part in g.parts(guard):
        path = g.path_of(part)
        if path is not None:
            yield from _field(definition, place, path)
        why = _unknown(definition, part)
        if why is not None:
            yield f"{place}: {why}"
        yield from (f"{place}: {one}" for one in never_met(definition, part))


def _field(definition: Definition, place: str, path: str) -> Iterator[str]:
    try:
        if below(definition.fields, parse(path)) is None:
            why = "which is not among the fields; add its shape there"
            nearest = nearest_name(definition.fields, parse(path))
            asked = f"; is {nearest} meant?" if nearest is not None else ""
            yield f"{place}: it looks at {path}, {why}{asked}"
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


def _unknown(definition: Definition, part: g.Guard) -> str | None:
    match part:
        case g.Counter(counter=name) | g.LimitOf(limit_of=name):
            kind = "loop"
        case g.Recorded(recorded=name):
            kind = "event"
        case g.Approved(approved=name):
            kind = "approval"
        case g.StatusIs(phase_status=name):
            kind = "status"
        case _:
            return None
    return None if name in _known(definition, kind) else _none(definition, kind, name)


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
    reached = downstream(into, [definition.initial]) | {definition.initial}
    yield from (f"phases.{name}: no way leads here" for name in into if name not in reached)
    onward: dict[str, list[str]] = {phase: [] for phase in into}
    for phase, sources in into.items():
        for source in sources:
            onward[source].append(phase)
    final = [name for name, phase in definition.phases.items() if phase.final]
    ends = downstream(onward, final) | set(final)
    yield from (
        f"phases.{name}: no way leads from here to an end" for name in into if name not in ends
    )


def _loops(definition: Definition) -> Iterator[str]:
    """A cycle ends by being counted, or waits for a person; a limit leads out of its cycle."""
    free = [way for way in definition.transitions if not _is_held(way.guard) and way.loop is None]
    for way in definition.transitions:
        if way.resets and not _is_held(way.guard):
            place = f"transitions: {way.source} -> {way.to}"
            yield f"{place}: only where a person agrees does a count begin anew"
    onward: dict[str, list[str]] = {phase: [] for phase in definition.phases}
    for way in free:
        onward[way.source] += [way.to] if not way.unbounded else []
    cycle = find_cycle(onward)
    if cycle is not None:
        yield f"transitions: {' -> '.join(cycle)} is a loop without an exit: nothing counts it"
    unattended = [way for way in definition.transitions if not _is_held(way.guard)]
    into = _arrows(definition, unattended)
    for way in definition.transitions:
        if way.loop is None:
            continue
        out = definition.loops[way.loop].on_limit
        if way.source in downstream(into, [out]) | {out}:
            yield f"loops.{way.loop}.on_limit: {out} leads back into the loop; it is no exit"


def _is_held(guard: g.Guard | None) -> bool:
    """Whether a person must agree, for the guard to be met."""
    if isinstance(guard, g.All):
        return any(map(_is_held, guard.all))
    return isinstance(guard, g.Approved)
