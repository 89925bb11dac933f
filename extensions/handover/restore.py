"""Read an archive, and create a workflow folder from it.

An archive that differs from its manifest, or has a broken hash chain, is refused. Each event is
appended to the new log with its original time. The hash chain is therefore computed again and not
copied; a different hash stops the import. An interrupted import can be continued.
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

from eventstore.event import Actor, Clock, Instant, NewEvent, RecordedEvent, format_instant
from eventstore.regular_files import open_for_reading
from eventstore.schema import Schema
from eventstore.store import Claim, EventStore, Refusal
from extensions.handover.archive_files import check_brought
from extensions.handover.errors import UnusableArchive
from extensions.handover.manifest import (
    CLAIMS,
    DRIFT,
    LONGEST,
    NAME,
    REFUSALS,
    Manifest,
    Stream,
    check_streams,
    decode_json,
)
from lifecycle.words.values import is_id
from service.errors import RootExists
from service.root.atomic_files import write_streamed
from service.root.root import MACHINE, Config, Root, read_config
from service.writing.initialise import prepare_folder, write_configuration

_CHUNK = 1 << 16
#: Maximum unpacked size in bytes that is always accepted, and maximum unpacking ratio of larger
#: archives. The limits protect against zip bombs; a log is compressed only by a factor of ten to
#: thirty.
_SMALL, _RATIO = 64 << 20, 200


def read_archive(path: Path) -> Manifest:
    """Check an archive completely and return its manifest.

    Raises `UnusableArchive` if the archive is damaged or was not written by wfctl.
    """
    try:
        with open_for_reading(path) as source, ZipFile(source) as file:
            _check_sizes(path, file)
            manifest = Manifest.from_dict(decode_json(file.read(NAME)))
            _check_names(path, manifest)
            for name in manifest.files:
                _check_file(path, file, manifest, name)
            check_streams(path, file, manifest)
            check_brought(path, file, manifest)
            return manifest
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        # Treat these errors as damage: an unknown compression method raises NotImplementedError,
        # and a position before the start of the file raises EINVAL. Other errors of the operating
        # system are raised unchanged.
        if isinstance(error, OSError) and error.errno != EINVAL:
            raise
        raise UnusableArchive(path, None, f"not a complete zip file ({error})") from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, RuntimeError) as error:
        # RuntimeError is raised for an encrypted file.
        raise UnusableArchive(
            path, NAME, f"not written by `wfctl export archive`: {error}"
        ) from error


def _check_sizes(path: Path, file: ZipFile) -> None:
    """Raise `UnusableArchive` if the archive would unpack to more than a plausible size."""
    unpacked = sum(info.file_size for info in file.infolist())
    if unpacked > max(_SMALL, _RATIO * path.stat().st_size):
        why = (
            f"the archive of {path.stat().st_size:,} bytes would be {unpacked:,} bytes unpacked, "
            "which is more than wfctl accepts"
        )
        raise UnusableArchive(path, None, why)
    if file.getinfo(NAME).file_size > LONGEST:
        raise UnusableArchive(path, NAME, f"expected at most {LONGEST >> 20} MiB")


def _check_names(path: Path, manifest: Manifest) -> None:
    """Raise `UnusableArchive` for names that are invalid or lead out of the folder."""
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
            path,
            NAME,
            (
                "the manifest of the archive must list either one workflow and its machines, or "
                "only machines"
            ),
        )
    for name in manifest.files:
        kept = name.removeprefix(DRIFT)
        if name.startswith(DRIFT) and ("/" in kept or kept in ("", ".", "..")):
            raise UnusableArchive(
                path, name, ("the manifest contains an entry with an invalid file name")
            )


def _check_file(path: Path, file: ZipFile, manifest: Manifest, name: str) -> None:
    digest, entry = sha256(), manifest.files[name]
    try:
        size = file.getinfo(name).file_size
    except KeyError:
        why = "the file is missing, but the manifest names it"
        raise UnusableArchive(path, name, why) from None
    if size != entry.bytes:
        why = f"the file has {size} bytes, but the manifest records {entry.bytes}"
        raise UnusableArchive(path, name, why)
    with file.open(name) as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != entry.sha256:
        raise UnusableArchive(
            path,
            name,
            (
                "the file was changed after the export, because its checksum differs from the "
                "manifest"
            ),
        )


Connect = Callable[[Root, Schema, Clock], EventStore]
"""Opens the log of a root for writing, and creates a log that does not exist yet."""


class Verbatim(Schema):
    """A schema that accepts events of every type and version unchanged."""

    def require_readable_event(self, event: NewEvent) -> None:
        """Accept every event, because events were checked when they were recorded."""

    def decode(self, position: int, hash_: str, text: str | bytes) -> RecordedEvent:
        """Return the event without checking or converting its data."""
        return RecordedEvent(position, hash_, orjson.loads(text))

    def event(self, position: int, hash_: str, body: dict[str, Any]) -> RecordedEvent:
        """Return the event without checking or converting its data."""
        return RecordedEvent(position, hash_, body)


class ReplayClock:
    """A clock that returns the original recording time of the event to restore."""

    def __init__(self) -> None:
        self.now = format_instant(datetime.min.replace(tzinfo=UTC))

    def __call__(self) -> Instant:
        """Return the recording time and UTC offset of the current event."""
        return self.now

    def set_to_event(self, body: dict[str, Any]) -> None:
        """Set the clock to the recording time of an event."""
        self.now = body["recorded_at"], body["utc_offset"]


def restore_log(root: Root, archive: Path, manifest: Manifest, connect: Connect) -> None:
    """Append the events of a checked archive to the log of a folder.

    The caller writes the generated files. Raises `RootExists` if the folder has another workflow,
    `UnusableArchive` if a computed hash differs, and any error of an append if the log already has
    different events.
    """
    if root.config_file.exists():
        here = read_config(root).workflow
        if here != manifest.workflow:
            raise RootExists(root.path, here)
    prepare_folder(root)
    then = ReplayClock()
    store = connect(root, Verbatim({}), then)
    try:
        with ZipFile(archive) as file:
            with file.open(CLAIMS) as lines:
                claims = {one["command_id"]: one["digest"] for one in map(orjson.loads, lines)}
            for stream in manifest.streams:
                _append_all(archive, file, stream, store, then, claims)
            _record_refusals(file, store)
            _extract_kept_edits(file, manifest, root)
    finally:
        store.close()
    if not root.config_file.exists():
        write_configuration(root, manifest.workflow, archive.name)


def _append_all(
    archive: Path,
    file: ZipFile,
    stream: Stream,
    store: EventStore,
    then: ReplayClock,
    claims: dict[str, str],
) -> None:
    hash_ = ""
    with file.open(stream.file) as lines:
        bodies_in = map(orjson.loads, lines)
        for command, group in groupby(bodies_in, lambda body: str(body["command_id"])):
            bodies = list(group)
            then.set_to_event(bodies[0])
            appended = store.append(
                stream.name,
                [new_event(body) for body in bodies],
                expected=bodies[0]["version"] - 1,
                claim=Claim(command, claims[command]),
            )
            hash_ = appended.events[-1].hash
            if hash_ != bodies[-1]["hash"]:
                why = (
                    f"version {bodies[-1]['version']} has the hash {hash_}, which differs from "
                    "the recorded one"
                )
                raise UnusableArchive(archive, stream.file, why)
    if hash_ != stream.head:
        raise UnusableArchive(
            archive,
            stream.file,
            ("the hash of the last event differs from the hash in the manifest"),
        )


def new_event(body: dict[str, Any]) -> NewEvent:
    """Return an exported event in the form that it had before it was recorded."""
    told = {name: body[name] for name in NewEvent._fields}
    return NewEvent(**{**told, "actor": Actor(**body["actor"])})


def _record_refusals(file: ZipFile, store: EventStore) -> None:
    """Record the refused commands of the archive that the log does not contain yet.

    Refusals have no id, so they are compared by their whole content.
    """
    known = {str(refusal) for refusal in store.refusals()}
    with file.open(REFUSALS) as lines:
        for line in lines:
            refusal = Refusal(**orjson.loads(line))
            if str(refusal) not in known:
                store.record_refusal(refusal)


def _extract_kept_edits(file: ZipFile, manifest: Manifest, root: Root) -> None:
    for name in manifest.files:
        if name.startswith(DRIFT):
            root.drift.mkdir(exist_ok=True)
            # Use only the last part of the name, so that the file cannot be written outside the
            # folder.
            with file.open(name) as content:
                chunks = iter(partial(content.read, _CHUNK), b"")
                write_streamed(root.drift / Path(name).name, chunks)
