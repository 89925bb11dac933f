"""A definition told: as data for programs, as a page for people, as a diagram."""

from __future__ import annotations

from typing import Any

from lifecycle.machines.decide_fields import ELSEWHERE
from lifecycle.machines.definition import CANCELLED, Definition, Transition
from lifecycle.machines.guard import text_of
from lifecycle.machines.machine import Machine
from lifecycle.machines.shape import schema_of
from projections.drawing import svg


def described(definition: Definition) -> dict[str, Any]:
    """Return all that a definition says: phases, ways, loops, schemas, diagram."""
    return {
        "id": definition.id,
        "version": definition.version,
        "title": definition.title,
        "protocol": definition.protocol,
        "initial": definition.initial,
        "phases": {
            **{
                name: phase.model_dump(exclude_none=True)
                | {"to": [way.to for way in definition.ways(name)]}
                for name, phase in definition.phases.items()
            },
            CANCELLED: {"final": True, "asks": "", "to": []},
        },
        "transitions": [_way(definition, way) for way in definition.transitions],
        "loops": {name: loop.model_dump() for name, loop in definition.loops.items()},
        "approvals": {name: one.model_dump() for name, one in definition.approvals.items()},
        "reserved": {**definition.all_reserved(), "_*": "every segment that begins with _"},
        "schema": state_schema(definition),
        "events": _events(definition),
        "tasks": definition.tasks.model_dump() if definition.tasks is not None else None,
        "files": definition.files,
        "mermaid": mermaid(definition),
    }


def outlined(definition: Definition) -> dict[str, Any]:
    """Return what is needed to go through a machine: phases, ways, limits, approvals, events."""
    whole = described(definition)
    kept = ("id", "version", "title", "protocol", "initial", "phases", "loops", "approvals")
    ways = [{key: way[key] for key in ("from", "to", "says")} for way in whole["transitions"]]
    counted = zip(ways, definition.transitions, strict=True)
    phases = {
        name: {
            key: value for key, value in phase.items() if key != "to" and value not in (False, "")
        }
        for name, phase in whole["phases"].items()
    }
    return {
        **{key: whole[key] for key in kept},
        "phases": phases,
        "transitions": [
            {**said, **({"loop": way.loop} if way.loop else {})} for said, way in counted
        ],
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
    return {f"{definition.id}.state": state_schema(definition), **events}


def _way(definition: Definition, way: Transition) -> dict[str, Any]:
    guard = way.guard.model_dump(by_alias=True) if way.guard is not None else None
    return {
        "from": way.source,
        "to": way.to,
        "guard": guard,
        "says": text_of(way.guard),
        "loop": way.loop,
        "limit": definition.loops[way.loop].limit if way.loop is not None else None,
        "on_limit": definition.loops[way.loop].on_limit if way.loop is not None else None,
    }


def state_schema(definition: Definition) -> dict[str, Any]:
    """Return the JSON Schema of a machine's fields."""
    found = schema_of(definition.fields)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": definition.id,
        **found,
        "type": "object",
    }


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
    others = {name: {"recorded_by": command} for name, command in ELSEWHERE.items()}
    if definition.tasks is None:
        others = {name: one for name, one in others.items() if one["recorded_by"] != "task"}
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
    lines += [_arrow(definition, way) for way in definition.transitions]
    lines += [f"    {a} --> {b}: limit" for a, b in sorted(_exits(definition))]
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


def _arrow(definition: Definition, way: Transition) -> str:
    arrow = f"    {_node(way.source)} --> {_node(way.to)}"
    if way.loop is None:
        return arrow
    return f"{arrow}: {way.loop} (at most {definition.loops[way.loop].limit})"


def _exits(definition: Definition) -> set[tuple[str, str]]:
    return {
        (_node(way.source), _node(definition.loops[way.loop].on_limit))
        for way in definition.transitions
        if way.loop is not None
    }


def _node(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def page(definition: Definition) -> str:
    """Return a definition as Markdown."""
    return "\n".join(
        [
            f"## {definition.id}",
            "",
            f"{definition.title}. Begins in `{definition.initial}`; files: "
            + ", ".join(f"`{path}`" for path in definition.files.values())
            + ".",
            "",
            "```mermaid",
            mermaid(definition),
            "```",
            "",
            *_ways_table(definition),
            "",
            *_phases_table(definition),
            "",
            *_lists(definition),
        ]
    )


def _ways_table(definition: Definition) -> list[str]:
    rows = ["| from | to | where |", "|---|---|---|"]
    for way in definition.transitions:
        where = text_of(way.guard) if way.guard is not None else "always"
        if way.loop is not None:
            loop = definition.loops[way.loop]
            where += f"; loop `{way.loop}`, at most {loop.limit}, then to `{loop.on_limit}`"
        rows.append(f"| `{way.source}` | `{way.to}` | {where.replace('|', '/')} |")
    return rows


def _phases_table(definition: Definition) -> list[str]:
    rows = ["| phase | what it asks for |", "|---|---|"]
    for name, phase in definition.phases.items():
        marks = ["final"] if phase.final else []
        if phase.person:
            marks.append("a person" if phase.person is True else f"a person {phase.person}")
        if phase.track is not None:
            marks.append(f"track {phase.track}")
        said = f" ({', '.join(marks)})" if marks else ""
        rows.append(f"| `{name}`{said} | {phase.asks or '-'} |")
    return rows


def _lists(definition: Definition) -> list[str]:
    approvals = ", ".join(f"`{n}` in `{a.phase}`" for n, a in definition.approvals.items())
    events = ", ".join(f"`{name}`" for name in definition.events)
    reserved = ", ".join(f"`{name}`" for name in definition.all_reserved())
    lines = [f"Events: {events}.", f"Reserved: {reserved}, and every segment that begins with `_`."]
    return [f"Approvals: {approvals}.", *lines, ""] if approvals else [*lines, ""]
