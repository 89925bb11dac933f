"""``phase.json`` and ``execution.json`` taken over."""

from __future__ import annotations

from typing import Any

from lifecycle.machines.machine import Document
from service.machines.definitions import shipped
from service.machines.takeover.found import Sayings, Takeover, visit

_OWN = frozenset(
    {
        "workflow_id",
        "started_at",
        "last_updated",
        "current_phase",
        "phase_status",
        "completed_phases",
        "user_checkpoints",
        "interruption_safe",
    }
)


def take_over(source: Document, execution: Document, id_: str, said: Sayings) -> Takeover:
    """Return the machine of the two files; ``execution`` is empty where there is none."""
    known = said.definition or shipped("dotagent")
    found = Takeover(str(source.get("workflow_id") or id_), known, known.initial, said)
    found.place("current_phase", source.get("current_phase"), {})
    found.status = _status(found, source.get("phase_status"))
    if source.get("interruption_safe") is not True:
        value = source.get("interruption_safe")
        found.say("not_whole", "interruption_safe", value, "the file says that it was not whole")
    found.created = found.time("started_at", source.get("started_at"))
    found.document = _document(source, execution)
    found.see_fields({"execution"})
    _visits(found, source)
    return found


def _status(found: Takeover, status: Any) -> str:
    known = found.definition.statuses
    initial = known.initial if known is not None else "pending"
    if status is None:
        found.say("missing", "phase_status", status, f"taken for {initial}")
        return initial
    return found.name("phase_status", status, known.values if known is not None else [], initial)


def _document(source: Document, execution: Document) -> Document:
    document = {key: value for key, value in source.items() if key not in _OWN}
    rest = {key: value for key, value in execution.items() if key != "tasks"}
    if rest:
        document["execution"] = rest
    return {**document, "tasks": execution.get("tasks") or []}


def _visits(found: Takeover, source: Document) -> None:
    order = list(found.definition.phases)
    entered = found.created or ""
    for index, done in enumerate(_objects(found, source, "completed_phases")):
        place = f"completed_phases[{index}]"
        if done.get("phase") not in order or done.get("phase") == found.phase:
            found.say("unknown_phase", place, done.get("phase"), "left out of the phases done")
            continue
        at = found.time(f"{place}.completed_at", done.get("completed_at")) or entered
        found.in_order(f"{place}.completed_at", entered, at)
        data = {"output": done["output"]} if isinstance(done.get("output"), str) else {}
        times = {"started_at": entered, "completed_at": at, "left_at": at}
        found.visits.append(visit(done["phase"], entered, "complete", **times, data=data))
        entered = at
    last = found.time("last_updated", source.get("last_updated"))
    started = entered if found.status != "pending" else None
    now = visit(found.phase, entered, found.status, started_at=started, updated_at=last)
    found.visits.append(now)
    found.given = [
        {"phase": str(one.get("phase")), "at": str(one.get("approved_at") or "")}
        for one in _objects(found, source, "user_checkpoints")
    ]


def _objects(found: Takeover, source: Document, key: str) -> list[Document]:
    listed = source.get(key) or []
    items = listed if isinstance(listed, list) else [listed]
    for item in items:
        if not isinstance(item, dict):
            found.say("unexpected_value", key, item, "expected an object; left out")
    return [item for item in items if isinstance(item, dict)]
