"""The history of machines, for the commands that workflows have too."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any

from cli.frame.workspace import Reading, shown
from projections.machines.documents import documents
from projections.machines.history import message
from service.errors import InvalidOption
from service.machines.log import MachineLog, machines_in
from service.reading.moment import Moment
from service.reading.selection import Selection

Entry = dict[str, Any]


def log_of(root: Reading, machine: str) -> MachineLog:
    """Return the log of a machine."""
    return MachineLog(root.log.store, machine, root.root.path)


def entries_of(
    root: Reading, machine: str, view: Moment | None, wanted: Selection
) -> Iterator[Entry]:
    """Yield what the log of a machine says, as people read it; raises `StateNotFound`."""
    log = log_of(root, machine)
    log.current(view)
    return told(log, log.steps(upto=view), wanted)


def told(log: MachineLog, steps: Iterator[tuple[Any, Any]], wanted: Selection) -> Iterator[Entry]:
    """Yield an entry for each event that is wanted."""
    for event, _ in steps:
        if wanted.fits(event):
            found = shown(event, message(event.type, event.data))
            yield {**found, "machine": log.machine, "position": event.position}


def entries_of_all(root: Reading, view: Moment | None, wanted: Selection) -> Iterator[Entry]:
    """Yield what the logs of all machines say, in the order in which it was recorded.

    Raises `InvalidOption` for a moment that each machine has of its own.
    """
    if view is not None and view.version is not None:
        raise InvalidOption("a version is one machine's: name it with --machine ID")
    logs = (log_of(root, machine) for machine in machines_in(root.log.store))
    each = [told(log, log.steps(upto=view), wanted) for log in logs]
    return merge(*each, key=lambda entry: entry["position"])


def document_of(root: Reading, machine: str, view: Moment | None) -> tuple[int, Entry]:
    """Return a machine's version and state as one document, now or as it was."""
    state = log_of(root, machine).current(view)
    whole: Entry = {}
    for document in documents(state).values():
        whole |= document
    return state.head, whole
