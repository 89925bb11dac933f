"""Describe the definition of a phase machine as data, as a page, and as a diagram."""

from __future__ import annotations

from typing import Any

from extensions.machines.rules.decide_record import ELSEWHERE
from extensions.machines.rules.definition import CANCELLED, Definition, Phase, Transition
from extensions.machines.rules.field_shapes import schema_of
from extensions.machines.rules.guard import text_of
from extensions.machines.rules.machine import Machine
from projections.drawing import svg

_HEAD = ("id", "version", "title", "protocol", "initial")


def describe_definition(definition: Definition) -> dict[str, Any]:
    """Return a complete description of a machine type.

    It contains phases, transitions, loops, JSON Schemas and a diagram.
    """
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
        "transitions": [_describe_way(definition, way) for way in definition.transitions],
        "loops": {name: loop.model_dump() for name, loop in definition.loops.items()},
        "approvals": {name: one.model_dump() for name, one in definition.approvals.items()},
        "reserved": {
            **definition.reserved_field_commands(),
            "_*": "every segment that begins with _",
        },
        "schema": _state_schema(definition),
        "events": _describe_events(definition),
        "tasks": definition.tasks.model_dump() if definition.tasks is not None else None,
        "files": definition.files,
        "mermaid": render_mermaid(definition),
    }


def outline_definition(definition: Definition) -> dict[str, Any]:
    """Return the parts of a machine's definition that its users need."""
    whole = describe_definition(definition)
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


def summarize_definition(definition: Definition) -> dict[str, Any]:
    """Return a short summary of a machine's definition."""
    names = ("id", "title", "initial")
    return {name: getattr(definition, name) for name in names} | {"phases": len(definition.phases)}


def build_schemas(definition: Definition) -> dict[str, Any]:
    """Return JSON Schemas: ``TYPE.state`` for fields, and ``TYPE.EVENT`` for event data."""
    events = {
        f"{definition.id}.{name}": one["schema"]
        for name, one in _describe_events(definition).items()
        if "schema" in one
    }
    return {f"{definition.id}.state": _state_schema(definition), **events}


def _describe_way(definition: Definition, way: Transition) -> dict[str, Any]:
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


def _describe_events(definition: Definition) -> dict[str, Any]:
    """Return the events that the definition names, and the events that commands record."""
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


def render_mermaid(definition: Definition) -> str:
    """Return the state diagram of a machine type as Mermaid text."""
    lines = ["stateDiagram-v2", f"    [*] --> {_node_name(definition.initial)}"]
    groups: dict[str, list[str]] = {}
    for name, phase in definition.phases.items():
        lines.append(f'    state "{name}" as {_node_name(name)}')
        if phase.track is not None:
            groups.setdefault(phase.track, []).append(name)
    for track, names in groups.items():
        inner = [f"        {_node_name(name)}" for name in names]
        lines += [f'    state "track {track}" as track_{_node_name(track)} {{', *inner, "    }"]
    exits: set[str] = set()
    for way in definition.transitions:
        loop = definition.loops[way.loop] if way.loop is not None else None
        limit = f": {way.loop} (at most {loop.limit})" if loop is not None else ""
        lines.append(f"    {_node_name(way.source)} --> {_node_name(way.to)}{limit}")
        exits |= (
            {f"    {_node_name(way.source)} --> {_node_name(loop.on_limit)}: limit"}
            if loop
            else set()
        )
    lines += sorted(exits)
    lines += [
        f"    {_node_name(name)} --> [*]" for name, one in definition.phases.items() if one.final
    ]
    return "\n".join(lines)


def draw_machine(machine: Machine) -> str:
    """Return the state diagram of a machine with its limits. The current phase is marked."""
    limits = {name: machine.limit_of(name) for name in machine.definition.loops}
    lines = [render_mermaid(machine.definition.with_limits(limits))]
    if machine.phase == CANCELLED:
        left = machine.moves[-1].source
        lines.append(f"    {_node_name(left)} --> {_node_name(CANCELLED)}")
    color = svg.get_light_color("running")
    lines.append(f"    classDef present fill:#ffffff,stroke:{color},color:{color}")
    return "\n".join([*lines, f"    class {_node_name(machine.phase)} present", ""])


def _node_name(name: str) -> str:
    return name.replace("-", "_").replace(".", "_")


def render_page(definition: Definition) -> str:
    """Return the description of a machine type as a Markdown page."""
    files = ", ".join(f"`{path}`" for path in definition.files.values())
    approvals = ", ".join(f"`{n}` in `{a.phase}`" for n, a in definition.approvals.items())
    events = ", ".join(f"`{name}`" for name in definition.events)
    reserved = ", ".join(f"`{name}`" for name in definition.reserved_field_commands())
    return "\n".join(
        [
            f"## {definition.id}\n",
            f"{definition.title}. Starts in `{definition.initial}`; files: {files}.\n",
            f"```mermaid\n{render_mermaid(definition)}\n```\n",
            "| from | to | condition |\n|---|---|---|",
            *(_row_of_way(definition, way) for way in definition.transitions),
            "\n| phase | work |\n|---|---|",
            *(_row_of_phase(name, phase) for name, phase in definition.phases.items()),
            "",
            *([f"Approvals: {approvals}."] if approvals else []),
            f"Events: {events}.",
            f"Reserved: {reserved}, and every field whose name starts with `_`.\n",
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
