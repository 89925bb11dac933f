"""Reading what is to be taken over: which protocol it is of, and where its root would be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eventstore.codec import canonical
from eventstore.private import read_regular
from lifecycle.machines.errors import InvalidInput
from lifecycle.machines.machine import Document
from lifecycle.machines.payload import MachineImported
from lifecycle.words.cause import problem
from lifecycle.words.document import layout_of
from service.errors import NotFound
from service.machines.errors import UnimportableMachine
from service.machines.files import metadata_lock
from service.machines.takeover import protocols
from service.machines.takeover.protocols import Sayings, Takeover

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
    places = {_PHASE: ("memory", "state"), _METADATA: ("conductor", "tracks", path.parent.name)}
    folders = places.get(path.name, ())
    if folders and path.parts[-len(folders) - 1 : -1] == folders:
        return path.parents[len(folders)]
    return path.parent


def contents_of(paths: Sequence[Path], *, locked: bool) -> dict[Path, bytes]:
    """Return what the files hold; ``locked``: under the protocol's own lock, where it has one."""
    first = paths[0]
    if not (locked and is_track(first)):
        return {path: read_regular(path) for path in paths}
    with metadata_lock(first.parent, lambda _: None):
        return {path: read_regular(path) for path in paths}


def is_placed(path: Path) -> bool:
    """Whether a file lies where its protocol has it, below the folder that would be the root."""
    return root_of(path) != path.resolve().parent


def is_track(path: Path) -> bool:
    """Whether a file lies where a conductor track has its own."""
    return path.name == _METADATA and is_placed(path)


def tracks_in(path: Path) -> list[Path]:
    """Return the files of all tracks of a repository, sorted; archived ones stay archived."""
    for folder in (path / "conductor" / "tracks", path / "tracks", path):
        found = sorted(folder.glob(f"*/{_METADATA}")) if folder.name == "tracks" else []
        if found:
            return found
    return []


def read(path: Path, content: bytes) -> Document:
    """Return the JSON object of a file; raises `UnreadablePlan` with the place of the error.

    Raises `UnimportableMachine` for JSON that is no object, `InvalidData` for values that no
    event can hold.
    """
    from service.documents.plan_file import decode_json

    try:
        text = content.decode("utf-8-sig")
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


def take_over(contents: Mapping[Path, bytes], said: Sayings) -> Takeover:
    """Return the machine of the files; raises `UnimportableMachine` for no known protocol."""
    paths = list(contents)
    documents = [read(path, content) for path, content in contents.items()]
    first = documents[0]
    name = paths[0].name.removesuffix(".json").removesuffix(".state")
    if "workflowType" in first or "featureId" in first:
        return protocols.take_over_exarchos(first, name, said)
    if "current_phase" in first or paths[0].name == _PHASE:
        return protocols.take_over_dotagent(
            first, documents[1] if len(documents) > 1 else {}, name, said
        )
    if "loop_state" in first or "track_id" in first or paths[0].name == _METADATA:
        folder = paths[0].resolve().parent.name
        root = root_of(paths[0])
        return protocols.take_over_conductor(first, folder, said, root, is_track=is_track(paths[0]))
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
