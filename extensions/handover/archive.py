"""Write archives and backups of a log.

An archive contains the log, the files that wfctl generates from it, and the digests of all content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from eventstore.errors import SchemaError, UnsoundLog
from eventstore.regular_files import read_regular
from eventstore.store import EventStore, RawEvent
from eventstore.transfer.archive import export_line
from eventstore.transfer.copy import CopySource
from eventstore.transfer.intact_parts import IntactStreams
from extensions.handover.archive_files import FileSelection
from extensions.handover.archive_files import read_chunks as content_of
from extensions.handover.manifest import (
    CLAIMS,
    DRIFT,
    FILES,
    NAME,
    REFUSALS,
    Manifest,
    ManifestEntry,
    Stream,
)
from lifecycle.words.values import is_id
from service.errors import InvalidOption, NotFound
from service.reading.log import WorkflowLog
from service.reading.machine_streams import list_machines
from service.root.atomic_files import open_replacement
from service.root.root import MACHINE, WORKFLOW, Root

_MODE = 0o644 << 16
#: The earliest year that a zip file can represent.
_FIRST_YEAR = 1980

Shown = Mapping[str, Callable[[], Iterable[bytes]]]
"""Maps the name of a file in the archive to a function that yields its content."""


def write_archive(
    path: Path,
    root: Root,
    log: WorkflowLog,
    shown: Shown,
    upto: int,
    taken: FileSelection | None = None,
) -> Manifest:
    """Write the complete archive of a workflow folder to ``path`` and return its manifest.

    ``shown`` contains the generated files to include; ``upto`` is the version of the workflow that
    they show, or 0 without a workflow. Each event stream ends at its version when the export
    started. ``taken`` are the workflow's own files to include. The same log and files give the same
    bytes. Raises `NoWorkflow` if the folder has neither a workflow nor machines, and `UnsoundLog`
    if a stream was altered.
    """
    store = log.store
    machines = ((id_, store.head(f"{MACHINE}{id_}")) for id_ in list_machines(root, store))
    ends = [_find_stream_end(store, log.stream, upto)] if upto else []
    ends += [
        _find_stream_end(store, f"{MACHINE}{id_}", head.version) for id_, head in machines if head
    ]
    for end in ends:
        for _ in store.read(end.name, upto=end.version):
            pass  # A stream that differs from its record raises `UnsoundLog`.
    workflow = log.current(upto).id if upto or not ends else None  # This call raises `NoWorkflow`.
    last = (json.loads(_read_last_event(store, end.name, end.version).text) for end in ends)
    newest = max(str(event["recorded_at"]) for event in last)
    taken = taken or FileSelection()
    manifest = Manifest(workflow, newest, streams=ends, left_out=taken.left)
    with open_replacement(path) as temporary, ZipFile(temporary, "w", ZIP_DEFLATED) as archive:
        writer = _Writer(archive, manifest)
        for end in ends:
            lines = (f"{export_line(raw)}\n" for raw in store.raw(end.name, upto=end.version))
            writer.file(end.file, (line.encode("utf-8", "surrogateescape") for line in lines))
        writer.file(CLAIMS, _iterate_claims(store, ends))
        refusals = (refusal._asdict() for end in ends for refusal in store.refusals(end.name))
        writer.file(
            REFUSALS, (f"{json.dumps(one, ensure_ascii=False)}\n".encode() for one in refusals)
        )
        for name, content in shown.items():
            writer.file(name, content())
        for kept in sorted(root.drift.glob("*")) if root.drift.is_dir() else ():
            writer.file(f"{DRIFT}{kept.name}", [read_regular(kept)])
        for name in taken.files:
            # An import refuses an archive with a high compression ratio, so do not compress files.
            mode = _MODE | ((root.path / name).stat().st_mode & 0o100) << 16
            writer.file(f"{FILES}{name}", content_of(root.path, name), ZIP_STORED, mode=mode)
        writer.file(NAME, [manifest.to_bytes()])
    return manifest


def _find_stream_end(store: EventStore, stream: str, version: int) -> Stream:
    file = f"events/{quote(stream, safe='-._')}.jsonl"
    return Stream(stream, file, version, _read_last_event(store, stream, version).hash)


def _read_last_event(store: EventStore, stream: str, version: int) -> RawEvent:
    return next(iter(store.raw(stream, after=version - 1, upto=version)))


class _Writer:
    """Writes files to an archive, and records their digests in its manifest."""

    def __init__(self, archive: ZipFile, manifest: Manifest) -> None:
        self._archive, self._manifest = archive, manifest
        at = datetime.fromisoformat(manifest.at)
        year = max(at.year, _FIRST_YEAR)
        self._date = (year, at.month, at.day, at.hour, at.minute, at.second)

    def file(
        self, name: str, content: Iterable[bytes], how: int = ZIP_DEFLATED, *, mode: int = _MODE
    ) -> None:
        """Write a file to the archive in chunks."""
        info = ZipInfo(name, self._date)
        info.compress_type, info.external_attr = how, mode
        digest, size = sha256(), 0
        with self._archive.open(info, "w", force_zip64=True) as file:
            for chunk in content:
                digest.update(chunk)
                size += len(chunk)
                file.write(chunk)
        if name != NAME:
            self._manifest.files[name] = ManifestEntry(size, digest.hexdigest())


def _iterate_claims(store: EventStore, ends: Iterable[Stream]) -> Iterator[bytes]:
    """Yield each command id with its digest, as lines of JSON.

    With them, the imported log recognises a command that is repeated.
    """
    for end in ends:
        last = None
        for raw in store.raw(end.name, upto=end.version):
            command = str(json.loads(raw.text)["command_id"])
            claim = store.claim(command) if command != last else None
            last = command
            if claim is not None:
                yield json.dumps(claim._asdict()).encode() + b"\n"


def require_stream(source: CopySource, only: str | None) -> None:
    """Raise `NotFound` if the log does not have the stream.

    Without this check, an empty copy would look complete.
    """
    if only is not None and only not in source.streams():
        there = ", ".join(source.streams()) or "none"
        raise NotFound(f"the log has no stream {only!r}; it has: {there}", stream=only)


def require_undamaged_log(store: EventStore, only: str | None) -> None:
    """Raise `UnsoundLog` if a log, or the given stream of it, is damaged."""
    for stream in [only] if only is not None else list(store.streams()):
        # Ignore events of a newer program, which this version cannot decode. They are copied
        # unchanged, and their hash chain is checked during the copy.
        with suppress(SchemaError):
            for _ in store.read(stream):
                pass


def damaged_streams(store: EventStore, only: str | None) -> dict[str, UnsoundLog]:
    """Return the damaged streams of the log with their errors.

    If ``only`` names a stream, only this stream is checked.
    """
    found: dict[str, UnsoundLog] = {}
    for stream in [only] if only is not None else list(store.streams()):
        try:
            require_undamaged_log(store, stream)
        except UnsoundLog as error:
            found[stream] = error
    return found


def select_intact_streams(store: EventStore, damaged: Collection[str]) -> CopySource:
    """Return the log without the damaged streams."""
    if not damaged:
        return store
    return IntactStreams(store, [name for name in store.streams() if name not in damaged])


def find_workflow_id(source: CopySource, only: str | None = None) -> str | None:
    """Return the id of the workflow in a backup, or None if it contains only machines.

    If ``only`` names a stream, only this stream is considered. Raises `InvalidOption` if there are
    several workflows, because a folder can have only one.
    """
    streams = [only] if only is not None else list(source.streams())
    found = [name.removeprefix(WORKFLOW) for name in streams if name.startswith(WORKFLOW)]
    if len(found) > 1:
        raise InvalidOption(
            f"a folder can contain only one workflow, but the backup contains {', '.join(found)}. "
            f"Choose one workflow with --stream {WORKFLOW}ID.",
            workflows=found,
        )
    if found and not is_id(found[0]):
        raise InvalidOption(f"the backup contains a workflow with the invalid id {found[0]!r:.80}.")
    return found[0] if found else None
