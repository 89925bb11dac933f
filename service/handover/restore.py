"""Making a root from an archive: the very commands once more, with the clock of then.

Each append is made anew from what was recorded, so that the chain is computed and not copied; a
hash that comes out different ends it. What an interrupted import left is taken up.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import orjson

from eventstore.codec import Schema
from eventstore.event import Actor, Clock, Instant, NewEvent, RecordedEvent, instant
from eventstore.store import Claim, EventStore, Refusal
from service.errors import RootExists
from service.handover.contents import Archive
from service.handover.manifest import CLAIMS, DRIFT, REFUSALS, Manifest, Stream, UnusableArchive
from service.root.disk import write_streamed
from service.root.root import Root, read_config
from service.writing.initialise import configure, prepare_folder

_CHUNK = 1 << 16

Connect = Callable[[Root, Schema, Clock], EventStore]
"""Opens the log of a root for writing, made first where it is not there."""


class Verbatim(Schema):
    """Events of every type and version, written again as they were and lifted by nobody."""

    def check_new(self, event: NewEvent) -> None:
        """Take everything: it was checked when it was recorded."""

    def decode(self, position: int, hash_: str, text: str | bytes) -> RecordedEvent:
        """Return the event as it stands."""
        return RecordedEvent(position, hash_, orjson.loads(text))

    def event(self, position: int, hash_: str, body: dict[str, Any]) -> RecordedEvent:
        """Return the event as it stands."""
        return RecordedEvent(position, hash_, body)


class Then:
    """A clock that shows when the events at hand were recorded."""

    def __init__(self) -> None:
        self.now = instant(datetime.min.replace(tzinfo=UTC))

    def __call__(self) -> Instant:
        """Return that time at the offset of that place."""
        return self.now

    def turn(self, body: dict[str, Any]) -> None:
        """Set it to an event's time."""
        self.now = body["recorded_at"], body["utc_offset"]


def restore(root: Root, archive: Archive, connect: Connect) -> None:
    """Make the root's log what the archive holds; its files are the caller's to write.

    Raises `RootExists` where another workflow is here, `UnusableArchive` where a hash comes out
    different, and what an append raises where the log here goes another way.
    """
    manifest = archive.manifest
    if root.config_file.exists():
        here = read_config(root).workflow
        if here != manifest.workflow:
            raise RootExists(root.path, here)
    prepare_folder(root)
    then = Then()
    store = connect(root, Verbatim({}), then)
    try:
        with ZipFile(archive.path) as file:
            claims = _claims(file)
            for stream in manifest.streams:
                _append_all(archive, file, stream, store, then, claims)
            _record_refusals(file, store)
            _keep_drift(file, manifest, root)
    finally:
        store.close()
    configure(root, manifest.workflow)


def _append_all(
    archive: Archive,
    file: ZipFile,
    stream: Stream,
    store: EventStore,
    then: Then,
    claims: dict[str, str],
) -> None:
    hash_ = ""
    with file.open(stream.file) as lines:
        for command, group in groupby(
            (orjson.loads(line) for line in lines), lambda body: str(body["command_id"])
        ):
            bodies = list(group)
            then.turn(bodies[0])
            appended = store.append(
                stream.name,
                [new_event(body) for body in bodies],
                expected=bodies[0]["version"] - 1,
                claim=Claim(command, claims[command]),
            )
            hash_ = appended.events[-1].hash
            if hash_ != bodies[-1]["hash"]:
                why = f"version {bodies[-1]['version']} hashes to {hash_}, not to what it says"
                raise UnusableArchive(str(archive.path), stream.file, why)
    if hash_ != stream.head:
        raise UnusableArchive(
            str(archive.path), stream.file, "it does not end as the manifest says"
        )


def new_event(body: dict[str, Any]) -> NewEvent:
    """Return an exported event as it was before it was recorded."""
    return NewEvent(
        event_id=body["event_id"],
        type=body["type"],
        schema_version=body["schema_version"],
        data=body["data"],
        actor=Actor(**body["actor"]),
        session=body["session"],
        causation_id=body["causation_id"],
        correlation_id=body["correlation_id"],
        occurred_at=body["occurred_at"],
    )


def _claims(file: ZipFile) -> dict[str, str]:
    with file.open(CLAIMS) as lines:
        return {found["command_id"]: found["digest"] for found in map(orjson.loads, lines)}


def _record_refusals(file: ZipFile, store: EventStore) -> None:
    """Record those that are not there yet: they carry no id."""
    known = {str(refusal) for refusal in store.refusals()}
    with file.open(REFUSALS) as lines:
        for line in lines:
            refusal = Refusal(**orjson.loads(line))
            if str(refusal) not in known:
                store.record_refusal(refusal)


def _keep_drift(file: ZipFile, manifest: Manifest, root: Root) -> None:
    for name in manifest.files:
        if name.startswith(DRIFT):
            root.drift.mkdir(exist_ok=True)
            # Only its last part: a name must not lead out of the folder.
            with file.open(name) as content:
                chunks = iter(partial(content.read, _CHUNK), b"")
                write_streamed(root.drift / Path(name).name, chunks)
