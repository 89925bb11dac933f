"""A hand edit of a machine's file as an update: through the rules, as if it had been asked for."""

from __future__ import annotations

from typing import Any

from lifecycle.layout import layout_of
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import MachineUpdated, change_of
from lifecycle.payload_base import Payload
from lifecycle.payload_drift import DriftAdopted
from lifecycle.workflow import Drift
from projections.machines.documents import documents, paths
from service.disk import content_of
from service.errors import NotFound
from service.machines.foreign import decoded
from service.machines.service import MachineService


def waiting(state: Machine, file: str | None, detected: int | None) -> Drift:
    """Return the hand edit that is meant, the newest where several wait; raises `NotFound`."""
    for drift in reversed(state.drifts):
        if file in (None, drift.file) and detected in (None, drift.version):
            return drift
    raise NotFound(
        f"no hand edit of {file or 'a file'} of {state.id} waits for a decision",
        machine=state.id,
        file=file,
    )


def changes_of(service: MachineService, state: Machine, drift: Drift) -> dict[str, Any]:
    """Return the fields that the kept version has otherwise than the log had: path → value."""
    kept = content_of(service.root.path / drift.kept_as)
    found = decoded(kept)
    if found is None:
        raise InvalidInput(
            f"{drift.kept_as}: there is nothing in it to adopt (missing, or no JSON object); "
            f"`wfctl machine drift {state.id} --revert` goes on with the file as the log has it.",
            kept_as=drift.kept_as,
        )
    base = service.log.current(drift.base) if drift.base else state
    role = next(role for role, path in paths(state).items() if path == drift.file)
    before = documents(base)[role]
    top = "execution." if role == "execution" else ""
    return {
        key if key == "tasks" else f"{top}{key}": value
        for key, value in found.items()
        if value != before.get(key)
    }


def adoption(service: MachineService, state: Machine, drift: Drift) -> list[Payload]:
    """Return the commands that take a hand edit over; the rules may refuse them."""
    fields = changes_of(service, state, drift)
    changes = [change_of(path, value) for path, value in fields.items()]
    listed = [change.model_dump(mode="json") for change in changes]
    closing = DriftAdopted(file=drift.file, detected=drift.version)
    if not changes:
        return [closing]
    return [MachineUpdated(changes=changes, layout=layout_of(listed)), closing]
