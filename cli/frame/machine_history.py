"""Read the events of phase machines, for commands that also read workflows."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any

from cli.frame.workspace import OpenedWorkflow, build_entry
from eventstore.event import RecordedEvent
from service.errors import InvalidOption
from service.reading.machine_streams import list_machines_in_store
from service.reading.point_in_history import Moment
from service.reading.selection import Selection
from service.reading.stream_log import StreamLog
from service.root.root import MACHINE
from wfctl_eventstore.extension import require_extension

Entry = dict[str, Any]


def entries_of(
    root: OpenedWorkflow, machine: str, view: Moment | None, wanted: Selection
) -> Iterator[Entry]:
    """Yield the log entries of a machine, formatted for people.

    Raises `StateNotFound` if the machine does not exist.
    """
    log = root.machine(machine)
    log.current(view)
    return list_entries(log, log.steps(upto=view), wanted)


def list_entries(
    log: StreamLog[Any], steps: Iterator[tuple[Any, Any]], wanted: Selection
) -> Iterator[Entry]:
    """Yield a log entry for each selected event."""
    machine = log.stream.removeprefix(MACHINE)
    machines = require_extension("machines", f"the machine {machine}")
    for event, _ in steps:
        if wanted.fits(event):
            found = build_entry(event, machines.describe_machine_event(event.type, event.data))
            yield {**found, "machine": machine, "position": event.position}


def entries_of_all(root: OpenedWorkflow, view: Moment | None, wanted: Selection) -> Iterator[Entry]:
    """Yield the log entries of all machines, in the order in which they were recorded.

    Raises `InvalidOption` if the moment is valid for a single log only.
    """
    logs = _logs_of_all(root, view)
    each = [list_entries(log, log.steps(upto=view), wanted) for log in logs]
    return merge(*each, key=lambda entry: entry["position"])


def events_of_all(root: OpenedWorkflow, view: Moment | None) -> Iterator[RecordedEvent]:
    """Yield the events of all machines, in the order in which they were recorded.

    Raises `InvalidOption` if the moment is valid for a single log only.
    """
    each = [log.events(view) for log in _logs_of_all(root, view)]
    return merge(*each, key=lambda event: event.position)


def check_moment_for_all_machines(view: Moment) -> None:
    """Raise `InvalidOption` if a moment cannot apply to several machines together.

    A session or a version number belongs to a single log. Version 0 is allowed, because it means
    the start of every log.
    """
    if view.version:
        raise InvalidOption(
            "a version number belongs to one machine, but no machine was named. Name the machine "
            "with --machine ID."
        )
    if view.session is not None:
        raise InvalidOption(
            "machines have no sessions, so their history cannot be shown for a session. Give a "
            "time instead."
        )


def _logs_of_all(root: OpenedWorkflow, view: Moment | None) -> list[StreamLog[Any]]:
    if view is not None:
        check_moment_for_all_machines(view)
    return [root.machine(id_) for id_ in list_machines_in_store(root.log.store)]


def document_of(root: OpenedWorkflow, machine: str, view: Moment | None) -> tuple[int, Entry]:
    """Return the version and the state of a machine, now or at an earlier moment.

    The state is one JSON document.
    """
    state = root.machine(machine).current(view)
    machines = require_extension("machines", f"the machine {machine}")
    whole: Entry = {}
    for document in machines.render_machine_documents(state).values():
        whole |= document
    return state.head, whole
