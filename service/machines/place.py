"""The machines of a root, and which of them writes a file that several name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from lifecycle.machines.machine import Machine
from service.machines.log import PREFIX, MachineLog, machines_in
from service.root.root import Root


def folder_of(root: Root) -> Path:
    """Return where it is remembered what was written for each machine."""
    return root.folder / "machines"


def ids(root: Root, store: EventStore) -> list[str]:
    """Return the machines of this root, sorted; others may share the database."""
    found = list(machines_in(store))
    if root.url is None:
        return found
    return [id_ for id_ in found if _is_here(root, first_event(store, id_), id_)]


def _is_here(root: Root, first: RecordedEvent | None, id_: str) -> bool:
    if (folder_of(root) / f"{id_}.json").exists():
        return True
    known = (first.data.get("root") or {}) if first is not None else {}
    return known.get("path") in (None, str(root.path.resolve()))


def first_event(store: EventStore, id_: str) -> RecordedEvent | None:
    """Return the event a machine begins with."""
    return next(iter(store.read(PREFIX + id_, upto=1)), None)


def rivals(root: Root, store: EventStore, machine: Machine) -> Iterator[Machine]:
    """Yield the other machines of the root that write the same files, in the order they began.

    A protocol that names its files without an id has room for one machine at a time.
    """
    shared = {path for path in machine.definition.files.values() if "{id}" not in path}
    if not shared:
        return
    firsts = [(first_event(store, id_), id_) for id_ in ids(root, store) if id_ != machine.id]
    begun = sorted((first.position, id_) for first, id_ in firsts if first is not None)
    for _, id_ in begun:
        state = MachineLog(store, id_, root.path).state()
        if state is not None and shared & set(state.definition.files.values()):
            yield state


def is_writer(root: Root, store: EventStore, machine: Machine) -> bool:
    """Whether the machine is the one that writes its files: the last that began."""
    own = first_event(store, machine.id)
    for rival in rivals(root, store, machine):
        other = first_event(store, rival.id)
        if own is not None and other is not None and other.position > own.position:
            return False
    return True
