"""Describe the events of a phase machine as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Data = dict[str, Any]
#: Maximum number of changes to list in the text about one event.
_LISTED = 8


def format_event(type_: str, data: Data) -> str:
    """Return a text for people that describes an event."""
    spell = _SPELLED.get(type_)
    if spell is None:
        return f"{type_} {data.get('file', '')}".rstrip()
    return spell.format_map(data) if isinstance(spell, str) else spell(data)


def _format_reason(data: Data) -> str:
    return f": {data['reason']}" if data.get("reason") else ""


def _format_update(data: Data) -> str:
    changes = data["changes"]
    written = [
        f"{change['path']} = {_format_short(change['value'])}" for change in changes[:_LISTED]
    ]
    more = f" and {len(changes) - _LISTED} more" if len(changes) > _LISTED else ""
    gone = data.get("removed") or []
    parts = [f"set {', '.join(written)}{more}"] if changes else []
    return "; ".join([*parts, *([f"took away {', '.join(gone)}"] if gone else [])])


def _format_short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _format_transition(data: Data) -> str:
    text = f"{data['left']} -> {data['to']}"
    if data["asked"] is not None:
        text += (
            f" instead of {data['asked']}: {data['loop']} is used up "
            f"({data['count']} of {data['limit']})"
        )
    elif data["loop"] is not None:
        text += f" ({data['loop']} {data['count']} of {data['limit']})"
    return text + _format_reason(data)


def _format_task(data: Data) -> str:
    changed = ", ".join(f"{key} {_format_short(value)}" for key, value in data["changes"].items())
    return f"{data['task']}: {changed}{_format_reason(data)}"


def _format_claim(data: Data) -> str:
    did = "renewed" if data["renew"] else "claimed"
    until = f" until {data['until'][:19]}Z" if data["until"] else ""
    before = f", after the claim of {data['before']} had run out" if data["before"] else ""
    return f"{data['task']}: {did} by {data['by'] or 'anyone who asks'}{until}{before}"


def _format_release(data: Data) -> str:
    against = f" although {data['by']} held it" if data["despite"] else ""
    return f"{data['task']}: released{against}{_format_reason(data)}"


def _format_approval(data: Data) -> str:
    choice = f", choosing {data['choice']}" if data["choice"] else ""
    return f"{data['approval']} approved by {data['approved_by']}{choice}"


def _format_limit(data: Data) -> str:
    was = f" instead of {data['before']}" if data["before"] is not None else ""
    by = f", by {data['approved_by']}" if data["approved_by"] else ""
    return f"{data['loop']} may go {data['to']} times{was}{by}{_format_reason(data)}"


_SPELLED: dict[str, str | Callable[[Data], str]] = {
    "machine.created": "{machine} begins as {definition[id]}",
    "machine.imported": lambda data: (
        f"{data['machine']} taken over in {data['phase']}, {len(data['findings'])} findings"
    ),
    "machine.updated": _format_update,
    "machine.transitioned": _format_transition,
    "machine.recorded": lambda data: (
        f"{data['name']} {_format_short(data['data'])}" if data["data"] else str(data["name"])
    ),
    "machine.task_changed": _format_task,
    "machine.task_claimed": _format_claim,
    "machine.task_released": _format_release,
    "machine.checkpointed": "hand-off: {summary}",
    "machine.approved": _format_approval,
    "machine.withdrawn": "{approval} withdrawn by {approved_by}",
    "machine.limited": _format_limit,
    "machine.cancelled": lambda data: (
        f"{'given up to begin anew' if data.get('anew') else 'cancelled'} in {data['left']}"
        f"{_format_reason(data)}"
    ),
}
