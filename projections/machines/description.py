"""A definition told: as data for programs, as a page for people, as a diagram."""

from __future__ import annotations

from typing import Any

from lifecycle.machines.decide_fields import ELSEWHERE
from lifecycle.machines.definition import CANCELLED, Definition, Phase, Transition
from lifecycle.machines.guard import text_of
from lifecycle.machines.machine import Machine
from lifecycle.machines.shape import schema_of
from projections.drawing import svg

_HEAD = ("id", "version", "title", "protocol", "initial")


def described(definition: Definition) -> dict[str, Any]:
    """Return all that a definition says: phases, ways, loops, schemas, diagram."""
    ended = {"final": True, "asks": "", "to": []}
    phases = {
        name: {
            **phase.model_dump(exclude_none=True),
            "to": [way.to for way in definition.ways(name)],
        }
        for name, phase in definition.phases.items()
    }
    return {
        **{name: getattr(definition, name) for name in _HEAD},
        "phases": {**phases, CANCELLED: ended},
        "transitions": [_way(definition, way) for way in definition.transitions],
        "loops": {name: loop.model_dump() for name, loop in definition.loops.items()},
        "approvals": {name: one.model_dump() for name, one in definition.approvals.items()},
        "reserved": {**definition.all_reserved(), "_*": "every segment that begins with _"},
        "schema": _state_schema(definition),
        "events": _events(definition),
        "tasks": definition.tasks.model_dump() if definition.tasks is not None else None,
        "files": definition.files,
        "mermaid": mermaid(definition),
    }


def outlined(definition: Definition) -> dict[str, Any]:
    """Return what is needed to go through a machine: phases, ways, limits, approvals, events."""
    whole = described(definition)
    phases = {
        name: {
            key: value for key, value in phase.items() if key != "to" and value not in (False, "")
        }
        for name, phase in whole["phases"].items()
    }
    ways = [
        {key: way[key] for key in ("from", "to", "says", "loop") if key != "loop" or way["loop"]}
        for way in whole["transitions"]
    ]
    return {
        **{key: whole[key] for key in (*_HEAD, "phases", "loops", "approvals")},
        "phases": phases,
        "transitions": ways,
        "events": {name: kind.says for name, kind in definition.events.items()},
        "tasks": definition.tasks.statuses if definition.tasks is not None else None,
        "files": definition.files,
    }


def listed(definition: Definition) -> dict[str, Any]:
    """Return a definition in a line."""
    names = ("id", "title", "initial")
    return {name: getattr(definition, name) for name in names} | {"phases": len(definition.phases)}


def schemas(definition: Definition) -> dict[str, Any]:
    """Return JSON Schemas: ``TYPE.state`` of the fields, ``TYPE.EVENT`` of the data of an event."""
    events = {
        f"{definition.id}.{name}": one["schema"]
        for name, one in _events(definition).items()
        if "schema" in one
    }
    return {f"{definition.id}.state": _state_schema(definition), **events}


def _way(definition: Definition, way: Transition) -> dict[str, Any]:
    loop = definition.loops[way.loop] if way.loop is not None else None
    return {
        "from": way.source,
        "to": way.to,
        "guard": way.guard.model_dump(by_alias=True) if way.guard is not None else None,
        "says": text_of(way.guard),
        "loop": way.loop,
        "limit": loop and loop.limit,
        "on_limit": loop and loop.on_limit,
    }


def _state_schema(definition: Definition) -> dict[str, Any]:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": definition.id}
    return {**head, **schema_of(definition.fields), "type": "object"}


def _events(definition: Definition) -> dict[str, Any]:
    """Return what may be recorded: the definition's own, and those that a command records."""
    own = {
        name: {
            "says": kind.says,
            "recorded_by": "append",
            "status": kind.status,
            "after": kind.after,
            "schema": {**schema_of(kind.data), "type": "object", "required": kind.required},
        }
        for name, kind in definition.events.items()
    }
    others = {
        name: {"recorded_by": command}
        for name, command in ELSEWHERE.items()
        if command != "task" or definition.tasks is not None
    }
    return {**own, **others}


def mermaid(definition: Definition) -> str:
    """Return the state diagram in Mermaid's language."""
    lines = ["stateDiagram-v2", f"    [*] --> {_node(definition.initial)}"]
    groups: dict[str, list[str]] = {}
    for name, phase in definition.phases.items():
        lines.append(f'    state "{name}" as {_node(name)}')
        if phase.track is not None:
            groups.setdefault(phase.track, []).append(name)
    for track, names in groups.items():
        inner = [f"        {_node(name)}" for name in names]
        lines += [f'    state "track {track}" as track_{_node(track)} {{', *inner, "    }"]
    exits: set[str] = set()
    for way in definition.transitions:
        loop = definition.loops[way.loop] if way.loop is not None else None
        limit = f": {way.loop} (at most {loop.limit})" if loop is not None else ""
        lines.append(f"    {_node(way.source)} --> {_node(way.to)}{limit}")
        exits |= {f"    {_node(way.source)} --> {_node(loop.on_limit)}: limit"} if loop else set()
    lines += sorted(exits)
    lines += [f"    {_node(name)} --> [*]" for name, one in definition.phases.items() if one.final]
    return "\n".join(lines)


def drawn(machine: Machine) -> str:
    """Return the state diagram of a machine, with its limits and the phase that it is in."""
    limits = {name: machine.limit_of(name) for name in machine.definition.loops}
    lines = [mermaid(machine.definition.with_limits(limits))]
    if machine.phase == CANCELLED:
        left = machine.moves[-1].source
        lines.append(f"    {_node(left)} --> {_node(CANCELLED)}")
    color = svg.light("running")
    lines.append(f"    classDef present fill:#ffffff,stroke:{color},color:{color}")
    return "\n".join([*lines, f"    class {_node(machine.phase)} present", ""])


def _node(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def page(definition: Definition) -> str:
    """Return a definition as Markdown."""
    files = ", ".join(f"`{path}`" for path in definition.files.values())
    approvals = ", ".join(f"`{n}` in `{a.phase}`" for n, a in definition.approvals.items())
    events = ", ".join(f"`{name}`" for name in definition.events)
    reserved = ", ".join(f"`{name}`" for name in definition.all_reserved())
    return "\n".join(
        [
            f"## {definition.id}\n",
            f"{definition.title}. Begins in `{definition.initial}`; files: {files}.\n",
            f"```mermaid\n{mermaid(definition)}\n```\n",
            "| from | to | where |\n|---|---|---|",
            *(_row_of_way(definition, way) for way in definition.transitions),
            "\n| phase | what it asks for |\n|---|---|",
            *(_row_of_phase(name, phase) for name, phase in definition.phases.items()),
            "",
            *([f"Approvals: {approvals}."] if approvals else []),
            f"Events: {events}.",
            f"Reserved: {reserved}, and every segment that begins with `_`.\n",
        ]
    )


def _row_of_way(definition: Definition, way: Transition) -> str:
    where = text_of(way.guard) if way.guard is not None else "always"
    if way.loop is not None:
        loop = definition.loops[way.loop]
        where += f"; loop `{way.loop}`, at most {loop.limit}, then to `{loop.on_limit}`"
    return f"| `{way.source}` | `{way.to}` | {where.replace('|', '/')} |"


def _row_of_phase(name: str, phase: Phase) -> str:
    marks = ["final"] if phase.final else []
    if phase.person:
        marks.append("a person" if phase.person is True else f"a person {phase.person}")
    marks += [f"track {phase.track}"] if phase.track is not None else []
    said = f" ({', '.join(marks)})" if marks else ""
    return f"| `{name}`{said} | {phase.asks or '-'} |"
