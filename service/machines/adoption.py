"""A hand edit of a machine's file as an update: through the rules, as if it had been asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Document, Machine
from lifecycle.machines.path import look
from lifecycle.machines.payload import MachineUpdated, change_of
from lifecycle.payload.base import Payload
from lifecycle.payload.workflow import DriftAdopted
from lifecycle.state.workflow import Drift
from lifecycle.words.document import layout_of
from projections.files.document_diff import FieldDifference, applied, differences
from projections.machines.documents import documents, paths
from service.errors import NotFound
from service.machines.news import decoded
from service.machines.service import MachineService
from service.machines.writers.amounts import Amounts, amounts, leaves, path_of
from service.machines.writers.walk import is_field
from service.root.disk import utc_text
from service.root.safe_open import content_within

#: A difference as an event lists it: path, kind, old and new.
Json = dict[str, Any]


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


def adoption(
    service: MachineService, state: Machine, drift: Drift, only: Sequence[str] = ()
) -> list[Payload]:
    """Return the commands that take a hand edit over, or ``only`` some fields: the others wait on.

    The rules may refuse them. Raises `InvalidInput` for a field that was not edited, and what the
    rules say to a change that only an event of the protocol could make.
    """
    role = next(role for role, path in paths(state).items() if path == drift.file)
    found = _kept(service, state, drift)
    base = documents(service.log.current(drift.base) if drift.base else state)[role]
    current = documents(state)[role]
    edits = [
        leaf
        for one in differences(base, found)
        if one.kind != "order"
        for leaf in leaves(one)
        # A field that was taken over before is an edit no longer.
        if look(current, path_of(leaf)) != look(found, path_of(leaf))
    ]
    chosen = _chosen({_named(role, path_of(one)): one for one in edits}, only)
    wanted = applied(base, found, chosen)
    now = utc_text(service.clock())
    known = amounts(service.root.path, state, drift.file, base, wanted, now)
    commands = [*known.asked, *_updates(role, known, wanted)]
    if len(chosen) < len(edits):
        return commands  # the other fields wait on
    return [*commands, DriftAdopted(file=drift.file, detected=drift.version)]


def undecided(state: Machine, file: str, found: Sequence[Json]) -> list[Json]:
    """Return those differences of a recorded edit that were not taken over since."""
    role = next((role for role, path in paths(state).items() if path == file), None)
    if role is None:
        return list(found)
    now = documents(state)[role]
    return [one for one in found if look(now, tuple(one["path"])) != one["new"]]


def _kept(service: MachineService, state: Machine, drift: Drift) -> Document:
    found = decoded(content_within(service.root.path, drift.kept_as))
    if found is None:
        raise InvalidInput(
            f"{drift.kept_as}: there is nothing in it to adopt (missing, or no JSON object); "
            f"`wfctl machine drift {state.id} --revert` goes on with the file as the log has it.",
            kept_as=drift.kept_as,
        )
    return found


def _chosen(edits: dict[str, FieldDifference], only: Sequence[str]) -> list[FieldDifference]:
    for name in only:
        if not any(_is_below(path, name) for path in edits):
            raise InvalidInput(
                f"{name} is no field that was edited; these were: {', '.join(edits) or 'none'}",
                field=name,
                edited=list(edits),
            )
    return [one for path, one in edits.items() if not only or any(_is_below(path, n) for n in only)]


def _is_below(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.")


def _updates(role: str, known: Amounts, found: Document) -> list[Payload]:
    """Return one update for what no event of the protocol says; raises what the rules said."""
    changes: dict[str, Any] = {}
    removed: list[str] = []
    for one in known.left:
        refusal = known.refusal(one)
        if refusal is not None:
            raise refusal
        whole = path_of(one)
        path = tuple(takewhile(is_field, whole)) or whole[:1]
        if one.kind == "removed" and path == path_of(one):
            removed.append(_named(role, path))
        else:
            changes[_named(role, path)] = look(found, path)
    if not (changes or removed):
        return []
    listed = [change_of(path, value) for path, value in changes.items()]
    layout = layout_of([change.model_dump(mode="json") for change in listed])
    return [MachineUpdated(changes=listed, layout=layout, removed=removed)]


def _named(role: str, path: tuple[str, ...]) -> str:
    is_apart = role == "execution" and path[0] != "tasks"
    return ".".join(("execution", *path) if is_apart else path)
