"""Reading an archive and making a root from it: the very commands once more, as of then.

It is what its manifest says, and its chains hold, or it is not used. Each append is made anew from
what was recorded, so that the chain is computed and not copied; a hash that comes out different
ends it. What an interrupted import left is taken up.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from errno import EINVAL
from functools import partial
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import orjson

from eventstore.chain import Schema
from eventstore.event import Actor, Clock, Instant, NewEvent, RecordedEvent, instant
from eventstore.private import opened
from eventstore.store import Claim, EventStore, Refusal
from lifecycle.words.values import is_id
from service.errors import RootExists
from service.handover.carried import check_brought
from service.handover.manifest import (
    CLAIMS,
    DRIFT,
    LONGEST,
    NAME,
    REFUSALS,
    Manifest,
    Stream,
    UnusableArchive,
    check_streams,
    decoded,
)
from service.machines.log import PREFIX as MACHINE
from service.root.disk import write_streamed
from service.root.root import Config, Root, read_config
from service.writing.initialise import configure, prepare_folder

_CHUNK = 1 << 16
#: So many bytes of all files together are never too many, and of a larger archive so many times its
#: own. Logs come out ten to thirty times smaller.
_SMALL, _RATIO = 64 << 20, 200


def read_archive(path: Path) -> Manifest:
    """Return what the archive at ``path`` holds, all of it checked; raises `UnusableArchive`."""
    try:
        with opened(path) as source, ZipFile(source) as file:
            _check_sizes(path, file)
            manifest = Manifest.from_dict(decoded(file.read(NAME)))
            _check_names(path, manifest)
            for name in manifest.files:
                _check(path, file, manifest, name)
            check_streams(path, file, manifest)
            check_brought(path, file, manifest)
            return manifest
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        # NotImplementedError: a damaged header names a way to pack that zipfile does not know.
        if isinstance(error, OSError) and error.errno != EINVAL:  # a place before the beginning
            raise
        raise UnusableArchive(
            path, None, f"expected a whole zip file, found none ({error})"
        ) from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, RuntimeError) as error:
        # RuntimeError: a file that says it is encrypted.
        raise UnusableArchive(
            path, NAME, f"not what `wfctl export archive` writes: {error}"
        ) from error


def _check_sizes(path: Path, file: ZipFile) -> None:
    """Refuse what is far larger unpacked than any log would be; no more than it says is read."""
    unpacked = sum(info.file_size for info in file.infolist())
    if unpacked > max(_SMALL, _RATIO * path.stat().st_size):
        why = f"its {path.stat().st_size:,} bytes hold {unpacked:,} once they are unpacked"
        raise UnusableArchive(path, None, why)
    if file.getinfo(NAME).file_size > LONGEST:
        raise UnusableArchive(path, NAME, f"expected {LONGEST >> 20} MiB at most")


def _check_names(path: Path, manifest: Manifest) -> None:
    """Refuse what would make no root, or a file outside of it."""
    names = [stream.name for stream in manifest.streams]
    ids = [manifest.workflow, *(n.removeprefix(MACHINE) for n in names if n.startswith(MACHINE))]
    wrong = next((id_ for id_ in ids if id_ is not None and not is_id(id_)), None)
    if wrong is not None:
        raise UnusableArchive(path, NAME, f"expected an id, found {wrong!r:.80}")
    workflows = [] if manifest.workflow is None else [Config(manifest.workflow).stream]
    machines = names[len(workflows) :]
    is_root = names and names == workflows + machines
    if not is_root or any(not name.startswith(MACHINE) for name in machines):
        raise UnusableArchive(
            path, NAME, "it does not name one workflow and its machines, or machines alone"
        )
    for name in manifest.files:
        kept = name.removeprefix(DRIFT)
        if name.startswith(DRIFT) and ("/" in kept or kept in ("", ".", "..")):
            raise UnusableArchive(path, name, "expected the name of a file, found none")


def _check(path: Path, file: ZipFile, manifest: Manifest, name: str) -> None:
    digest, entry = sha256(), manifest.files[name]
    try:
        size = file.getinfo(name).file_size
    except KeyError:
        why = "the manifest names it, and it is not there"
        raise UnusableArchive(path, name, why) from None
    if size != entry.bytes:
        why = f"it has {size} bytes, and the manifest says {entry.bytes}"
        raise UnusableArchive(path, name, why)
    with file.open(name) as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != entry.sha256:
        raise UnusableArchive(path, name, "its digest is not the manifest's: it was changed")


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


def restore(root: Root, archive: Path, manifest: Manifest, connect: Connect) -> None:
    """Make the root's log what a checked archive holds; its files are the caller's to write.

    Raises `RootExists` if another workflow is here, `UnusableArchive` if a hash comes out
    different, and what an append raises if the log here goes another way.
    """
    if root.config_file.exists():
        here = read_config(root).workflow
        if here != manifest.workflow:
            raise RootExists(root.path, here)
    prepare_folder(root)
    then = Then()
    store = connect(root, Verbatim({}), then)
    try:
        with ZipFile(archive) as file:
            with file.open(CLAIMS) as lines:
                claims = {one["command_id"]: one["digest"] for one in map(orjson.loads, lines)}
            for stream in manifest.streams:
                _append_all(archive, file, stream, store, then, claims)
            _record_refusals(file, store)
            _keep_drift(file, manifest, root)
    finally:
        store.close()
    if not root.config_file.exists():
        configure(root, manifest.workflow, archive.name)


def _append_all(
    archive: Path,
    file: ZipFile,
    stream: Stream,
    store: EventStore,
    then: Then,
    claims: dict[str, str],
) -> None:
    hash_ = ""
    with file.open(stream.file) as lines:
        bodies_in = map(orjson.loads, lines)
        for command, group in groupby(bodies_in, lambda body: str(body["command_id"])):
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
                raise UnusableArchive(archive, stream.file, why)
    if hash_ != stream.head:
        raise UnusableArchive(archive, stream.file, "it does not end as the manifest says")


def new_event(body: dict[str, Any]) -> NewEvent:
    """Return an exported event as it was before it was recorded."""
    told = {name: body[name] for name in NewEvent._fields}
    return NewEvent(**{**told, "actor": Actor(**body["actor"])})


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
