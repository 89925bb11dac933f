"""Explain why a phase machine is in its phase, and what the next phases require."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cli.frame.workspace import OpenedWorkflow
from eventstore.event import RecordedEvent
from extensions.machines.rules.guard import list_unmet
from extensions.machines.rules.machine import Machine
from extensions.machines.service import guard_facts
from extensions.machines.service.log import MachineLog
from extensions.machines.views.blockers import list_blockers
from extensions.machines.views.documents import build_documents
from extensions.machines.views.history import format_event
from projections.words.text import truncate_utc_to_seconds
from service.reading.point_in_history import Moment
from service.root.atomic_files import system_clock, utc_text

Entry = dict[str, Any]


def merge_documents(state: Machine) -> Entry:
    """Return the content of all state files of a machine as one document."""
    found: Entry = {}
    for document in build_documents(state).values():
        found |= document
    return found


#: Types of the events that can lead a machine to its current phase.
_LEADS = ("machine.created", "machine.imported", "machine.transitioned", "machine.cancelled")


def explain_phase(root: OpenedWorkflow, machine: str, view: Moment | None) -> Entry:
    """Return the phase of a machine, the event that led to it, and possible transitions.

    Each transition has its unmet conditions. For a past moment, the transitions are left out,
    because the files of that time are unknown. Raises `StateNotFound` if the machine does not
    exist.
    """
    log = MachineLog(root.store, machine, root.root.path)
    state = log.current(view)
    since: RecordedEvent | None = None
    for event, after in log.steps(upto=view):
        # Skip transitions that were invalid, because they did not change the phase.
        aside = {one["version"] for one in after.set_aside}
        if event.type in _LEADS and event.version not in aside:
            since = event
    return {
        "machine": state.id,
        "phase": state.phase,
        "status": state.status,
        "since": since
        and {
            "version": since.version,
            "type": since.type,
            "at": truncate_utc_to_seconds(since.occurred_at),
            "actor": f"{since.actor.kind}:{since.actor.name}",
            "message": format_event(since.type, since.data),
        },
        **(_list_ways_and_blockers(root, state) if view is None else {}),
    }


def _list_ways_and_blockers(root: OpenedWorkflow, state: Machine) -> Entry:
    if state.is_final:
        return {"ways": [], "blockers": []}
    files = guard_facts.collect_guard_facts(root.root.path, state)
    now = utc_text(system_clock())
    facts = state.facts(files)
    ways = [
        {"to": way.to, "lacks": [one["condition"] for one in list_unmet(way.guard, facts)]}
        for way in state.ways
    ]
    return {"ways": ways, "blockers": [one["says"] for one in list_blockers(state, files, now)]}


def format_explanation(found: Entry) -> Iterator[str]:
    """Yield the explanation of a machine's phase as lines for people."""
    status = f", {found['status']}" if found["status"] else ""
    yield f"{found['machine']} is in {found['phase']}{status}"
    since = found["since"]
    if since is not None:
        yield f"  since     v{since['version']} {since['at']} {since['actor']}: {since['message']}"
    for one in found.get("blockers", []):
        yield f"  blocked   {one}"
    for way in found.get("ways", []):
        lacks = "; ".join(way["lacks"])
        yield f"  to {way['to']}: " + (f"not yet: {lacks}" if lacks else "open")
