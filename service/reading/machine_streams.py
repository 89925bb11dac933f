"""Find the event streams of phase machines, without loading the code for machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from service.root.root import MACHINE, Root


def list_machines_in_store(store: EventStore) -> Iterator[str]:
    """Yield the ids of all phase machines in an event store, sorted."""
    for stream in store.streams():
        if stream.startswith(MACHINE):
            yield stream.removeprefix(MACHINE)


def list_machines(root: Root, store: EventStore) -> list[str]:
    """Return the ids of the phase machines of this workflow folder, sorted.

    Machines of other folders that share the database are omitted.
    """
    found = list(list_machines_in_store(store))
    return [id_ for id_ in found if root.url is None or _is_machine_of_root(root, store, id_)]


def machine_folder(root: Root) -> Path:
    """Return the folder in which wfctl remembers the state of the machines' files."""
    return root.folder / "machines"


def find_first_event(store: EventStore, id_: str) -> RecordedEvent | None:
    """Return the first event of a machine, or None if the machine does not exist."""
    return next(iter(store.read(MACHINE + id_, upto=1)), None)


def _is_machine_of_root(root: Root, store: EventStore, id_: str) -> bool:
    if (machine_folder(root) / f"{id_}.json").exists():
        return True
    first = find_first_event(store, id_)
    known = (first.data.get("root") or {}) if first is not None else {}
    return known.get("path") in (None, str(root.path.resolve()))
