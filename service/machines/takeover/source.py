"""Reading what is to be taken over: which protocol it is of, and where its root would be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eventstore.codec import canonical
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.payload import MachineImported
from lifecycle.words.layout import layout_of
from lifecycle.words.misfit import problem
from service.errors import NotFound
from service.machines.errors import UnimportableMachine
from service.machines.takeover import conductor, dotagent, exarchos
from service.machines.takeover.found import Document, Takeover

_PHASE, _EXECUTION, _METADATA = "phase.json", "execution.json", "metadata.json"
_STATE = ".state.json"


def files_of(path: Path) -> list[Path]:
    """Return the files to be read: of a folder those that it holds, with their siblings.

    Raises `NotFound` where there is none.
    """
    if path.is_dir():
        for name in (_PHASE, f"memory/state/{_PHASE}", _METADATA):
            if (path / name).is_file():
                return files_of(path / name)
        states = sorted(path.glob(f"*{_STATE}"))
        if len(states) == 1:
            return states
        raise NotFound(f"{path}: expected {_PHASE}, {_METADATA} or one *{_STATE}; name the file")
    if not path.is_file():
        raise NotFound(f"no file {path}")
    sibling = path.with_name(_EXECUTION)
    return [path, sibling] if path.name == _PHASE and sibling.is_file() else [path]


def root_of(path: Path) -> Path:
    """Return the folder that would be the root, by where the protocols keep their files."""
    path = path.resolve()
    places = {
        _PHASE: ("memory", "state"),
        _METADATA: ("conductor", "tracks", path.parent.name),
    }
    folders = places.get(path.name, ())
    if folders and path.parts[-len(folders) - 1 : -1] == folders:
        return path.parents[len(folders)]
    return path.parent


def read(path: Path) -> Document:
    """Return the JSON object of a file; raises `UnreadablePlan` with the place of the error.

    Raises `UnimportableMachine` for JSON that is no object, `InvalidData` for values that no
    event can hold.
    """
    from service.documents.plan_file import decode_json

    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnimportableMachine(
            f"{path}: expected UTF-8, found other bytes at byte {error.start}", path=str(path)
        ) from error
    value: Any = decode_json(str(path), text)
    if not isinstance(value, dict):
        raise UnimportableMachine(
            f"{path}: expected a JSON object, found {json.dumps(value):.60}", path=str(path)
        )
    canonical(value, str(path))
    return value


def take_over(paths: list[Path]) -> Takeover:
    """Return the machine of the files; raises `UnimportableMachine` for no known protocol."""
    documents = [read(path) for path in paths]
    first = documents[0]
    name = paths[0].name.removesuffix(".json").removesuffix(".state")
    if "workflowType" in first or "featureId" in first:
        return exarchos.take_over(first, name)
    if "current_phase" in first or paths[0].name == _PHASE:
        return dotagent.take_over(first, documents[1] if len(documents) > 1 else {}, name)
    if "loop_state" in first or "track_id" in first or paths[0].name == _METADATA:
        return conductor.take_over(first, paths[0].resolve().parent.name)
    raise UnimportableMachine(
        f"{paths[0]}: expected the state of a known protocol (workflowType, current_phase or "
        f"loop_state), found the fields {', '.join(list(first)[:8]) or '(none)'}",
        path=str(paths[0]),
    )


def command_of(found: Takeover, root: Document, **policy: Any) -> MachineImported:
    """Return the event that begins the machine; raises `InvalidInput` for an unusable id."""
    from pydantic import ValidationError

    try:
        return MachineImported(
            machine=found.id,
            definition=found.definition.dumped(),
            phase=found.phase,
            status=found.status,
            document=found.document,
            layout=layout_of(found.document),
            counts=found.counts,
            visits=found.visits,
            given=found.given,
            findings=found.findings,
            created=found.created,
            root=root,
            **policy,
        )
    except ValidationError as error:
        problems = [problem(e) for e in error.errors()]
        raise InvalidInput(
            f"{found.id!r} cannot be taken over: {'; '.join(problems)}. Correct it and import "
            "again; nothing was written.",
            id=found.id,
            problems=problems,
        ) from error
