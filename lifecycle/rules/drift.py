"""The rules of foreign changes: what is open may be adopted or reverted, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lifecycle.errors import NoCommand, Refused, undecided
from lifecycle.payload import models as p
from lifecycle.state.workflow import Drift, Workflow
from lifecycle.words.document import STAGE_FIELDS, WORKFLOW_FIELDS

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

Decision: TypeAlias = "list[Payload]"


def note(state: Workflow, command: p.NoteLogged) -> Decision:
    """A line of one's own; an external one is only taken from where it stands."""
    if command.kind != "note" or command.after is not None or command.raw is not None:
        raise NoCommand(
            "a line of somebody else's is recorded where it is found in progress.log, by every "
            "write command; append it there, or record a note.",
            type=command.type,
        )
    if command.stage is not None:
        state.stage(command.stage)
    return [command]


def adopt(state: Workflow, command: p.DriftAdopted) -> Decision:
    """Close a drift that is open; the fields it brings must be nobody's."""
    drift = _waiting(state, command.file, command.detected)
    for change in command.unknown:
        _unspecified(state, change)
    return [command.model_copy(update={"detected": drift.version})]


def revert(state: Workflow, command: p.DriftReverted) -> Decision:
    """Close a drift that is open."""
    drift = _waiting(state, command.file, command.detected)
    if not command.proof:
        raise undecided(command.type, f"wfctl drift revert {command.file}")
    return [command.model_copy(update={"detected": drift.version, "kept_as": drift.kept_as})]


def _waiting(state: Workflow, file: str, detected: int | None) -> Drift:
    """Return the drift of a file that was detected at a version, else the newest."""
    for drift in reversed(state.drifts):
        if drift.file == file and detected in (drift.version, None):
            return drift
    raise NoCommand(
        f"no change of {file}{f' detected at version {detected}' if detected else ''} waits for "
        "a decision. `wfctl drift show` lists those that do.",
        file=file,
        detected=detected,
        waiting={str(drift.version): drift.file for drift in state.drifts},
    )


def _unspecified(state: Workflow, change: p.UnknownField) -> None:
    known = STAGE_FIELDS if change.stage is not None else WORKFLOW_FIELDS
    if change.stage is not None:
        state.stage(change.stage)
    if change.field in known:
        raise Refused(
            f"{change.field} is a field of the protocol: it changes by its own events or by an "
            "amendment.",
            field=change.field,
        )
