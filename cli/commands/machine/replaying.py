"""The part of ``wfctl replay`` that is about machines."""

from __future__ import annotations

import json

import typer

from cli.commands.machine.workspace import acting, looking
from eventstore.store import EventStore
from projections.machines.documents import documents
from service.machines import place
from service.machines.inspection import FileDifference, differences
from service.machines.log import MachineLog
from service.root.root import Root


def differences_of(root: Root, store: EventStore, only: str | None) -> list[FileDifference]:
    """Return the files of a machine, or of all, that are not what the log says."""
    found: list[FileDifference] = []
    for id_ in place.ids(root, store) if only is None else [only]:
        log = MachineLog(store, id_, root.path)
        found += differences(root, log, log.current())
    return found


def rebuilt(context: typer.Context, only: str | None) -> list[str]:
    """Write the files of a machine, or of all, anew; return those that changed."""
    with looking(context) as machines:
        known = [only] if only is not None else place.ids(machines.root, machines.store)
    return [path for id_ in known for path in _rebuilt(context, id_)]


def _rebuilt(context: typer.Context, machine: str) -> list[str]:
    with acting(context, machine, dry_run=False) as (service, _):
        return service.files.rebuild()


def show(context: typer.Context, machine: str, at: str | None, known_at: str | None) -> None:
    """Print a machine's documents, folded from its first event."""
    with looking(context, machine) as machines:
        state = machines.state(machine, at, known_at)
        data = documents(state)
        machines.output.result(data, lambda: json.dumps(data, indent=2), state)
