"""The streams of phase machines in a root, without the rules of machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from service.root.root import MACHINE, Root


def list_machines_in_store(store: EventStore) -> Iterator[str]:
    """Yield the ids of all machines in a store, sorted."""
    for stream in store.streams():
        if stream.startswith(MACHINE):
            yield stream.removeprefix(MACHINE)


def list_machines(root: Root, store: EventStore) -> list[str]:
    """Return the ids of the machines of this root, sorted.

    Other roots may share the database.
    """
    found = list(list_machines_in_store(store))
    return [id_ for id_ in found if root.url is None or _is_here(root, store, id_)]


def machine_folder(root: Root) -> Path:
    """Return the folder with the records of the machines' files."""
    return root.folder / "machines"


def find_first_event(store: EventStore, id_: str) -> RecordedEvent | None:
    """Return the first event of a machine, None if the machine does not exist."""
    return next(iter(store.read(MACHINE + id_, upto=1)), None)


def _is_here(root: Root, store: EventStore, id_: str) -> bool:
    if (machine_folder(root) / f"{id_}.json").exists():
        return True
    first = find_first_event(store, id_)
    known = (first.data.get("root") or {}) if first is not None else {}
    return known.get("path") in (None, str(root.path.resolve()))
