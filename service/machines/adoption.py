"""A hand edit of a machine's file as an update: through the rules, as if it had been asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Machine
from lifecycle.machines.path import look
from lifecycle.machines.payload import MachineUpdated, change_of
from lifecycle.payload.base import Payload
from lifecycle.payload.drift import DriftAdopted
from lifecycle.state.workflow import Drift
from lifecycle.words.layout import layout_of
from projections.files.document_diff import FieldDifference, differences
from projections.machines.documents import documents, paths
from service.errors import NotFound
from service.machines.foreign import decoded, is_field
from service.machines.service import MachineService
from service.root.within import content_within


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
    """Return the fields that the kept version has otherwise than the log had: path → value.

    One that was taken away is null.
    """
    kept = content_within(service.root.path, drift.kept_as)
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
    changed = [one for one in differences(before, found) if one.kind != "order"]
    reached = dict.fromkeys(_reach(one) for one in changed)
    return {_name(role, path): look(found, path) for path in reached}


def _reach(difference: FieldDifference) -> tuple[str, ...]:
    """Return the path of a field that differs, as far as dot paths lead."""
    whole = difference.path if difference.stage is None else ("stages",)
    return tuple(takewhile(is_field, whole)) or whole[:1]


def _name(role: str, path: tuple[str, ...]) -> str:
    is_apart = role == "execution" and path[0] != "tasks"
    return ".".join(("execution", *path) if is_apart else path)


def _chosen(fields: dict[str, Any], only: Sequence[str]) -> dict[str, Any]:
    """Return the fields that are named, and those below them; all where none is named."""
    for name in only:
        if not any(_is_below(path, name) for path in fields):
            raise InvalidInput(
                f"{name} is no field that was edited; these were: {', '.join(fields) or 'none'}",
                field=name,
                edited=list(fields),
            )
    return {k: v for k, v in fields.items() if not only or any(_is_below(k, n) for n in only)}


def _is_below(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.")


def adoption(
    service: MachineService, state: Machine, drift: Drift, only: Sequence[str] = ()
) -> list[Payload]:
    """Return the commands that take a hand edit over, or ``only`` some fields of it.

    The rules may refuse them. Raises `InvalidInput` for a field that was not edited.
    """
    fields = _chosen(changes_of(service, state, drift), only)
    changes = [change_of(path, value) for path, value in fields.items()]
    listed = [change.model_dump(mode="json") for change in changes]
    closing = DriftAdopted(file=drift.file, detected=drift.version)
    if not changes:
        return [closing]
    return [MachineUpdated(changes=changes, layout=layout_of(listed)), closing]
