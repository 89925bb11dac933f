"""The history of machines, for the commands that workflows have too."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any

from cli.frame.workspace import Reading, shown
from eventstore.event import RecordedEvent
from lifecycle.machines.guard import unmet
from lifecycle.machines.machine import Machine
from projections.machines.documents import documents
from projections.machines.history import message
from projections.machines.next_actions import blockers
from projections.words.text import utc_seconds
from service.errors import InvalidOption
from service.machines import evidence
from service.machines.log import MachineLog, machines_in
from service.reading.log import Selection
from service.reading.moment import Moment
from service.root.disk import system_clock, utc_text

Entry = dict[str, Any]


def entries_of(
    root: Reading, machine: str, view: Moment | None, wanted: Selection
) -> Iterator[Entry]:
    """Yield what the log of a machine says, as people read it; raises `StateNotFound`."""
    log = root.machine(machine)
    log.current(view)
    return told(log, log.steps(upto=view), wanted)


def told(log: MachineLog, steps: Iterator[tuple[Any, Any]], wanted: Selection) -> Iterator[Entry]:
    """Yield an entry for each event that is wanted."""
    for event, _ in steps:
        if wanted.fits(event):
            found = shown(event, message(event.type, event.data))
            yield {**found, "machine": log.machine, "position": event.position}


def entries_of_all(root: Reading, view: Moment | None, wanted: Selection) -> Iterator[Entry]:
    """Yield what all machines' logs say, in the order of the records; raises `InvalidOption`."""
    if view is not None and view.version is not None:
        raise InvalidOption("a version is one machine's: name it with --machine ID")
    logs = map(root.machine, machines_in(root.log.store))
    each = [told(log, log.steps(upto=view), wanted) for log in logs]
    return merge(*each, key=lambda entry: entry["position"])


def document_of(root: Reading, machine: str, view: Moment | None) -> tuple[int, Entry]:
    """Return a machine's version and state as one document, now or as it was."""
    state = root.machine(machine).current(view)
    return state.head, whole(state)


def whole(state: Machine) -> Entry:
    """Return a machine's state as one document, whatever files show it."""
    found: Entry = {}
    for document in documents(state).values():
        found |= document
    return found


#: What brings a machine into its phase.
_LEADS = ("machine.created", "machine.imported", "machine.transitioned", "machine.cancelled")


def why_of(root: Reading, machine: str, view: Moment | None) -> Entry:
    """Return where a machine stands, the event that led there, and what each way out lacks.

    Of a moment that is past the ways are left out: what files there were then is not known.
    Raises `StateNotFound`.
    """
    log = root.machine(machine)
    state = log.current(view)
    since: RecordedEvent | None = None
    for event, after in log.steps(upto=view):
        # A step that the fold set aside led nowhere.
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
            "at": utc_seconds(since.occurred_at),
            "actor": f"{since.actor.kind}:{since.actor.name}",
            "message": message(since.type, since.data),
        },
        **(_on(root, state) if view is None else {}),
    }


def _on(root: Reading, state: Machine) -> Entry:
    if state.is_final:
        return {"ways": [], "blockers": []}
    files = evidence.evidence(root.root.path, state)
    now = utc_text(system_clock())
    facts = state.facts(files)
    ways = [
        {"to": way.to, "lacks": [one["condition"] for one in unmet(way.guard, facts)]}
        for way in state.ways
    ]
    return {"ways": ways, "blockers": [one["says"] for one in blockers(state, files, now)]}


def lines(found: Entry) -> Iterator[str]:
    """Yield the answer as people read it."""
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
