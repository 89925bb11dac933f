"""Writing an archive: the log, what it looks like, and the digests of all of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from eventstore.regular import read_regular
from eventstore.store import EventStore, Raw
from eventstore.transfer.lines import exported
from service.handover.carried import Choice, content
from service.handover.manifest import (
    CLAIMS,
    DRIFT,
    FILES,
    NAME,
    REFUSALS,
    Manifest,
    ManifestEntry,
    Stream,
)
from service.machines.log import PREFIX
from service.machines.place import ids
from service.reading.log import WorkflowLog
from service.root.disk import replaced
from service.root.root import Root

_MODE = 0o644 << 16
#: The first year that a zip file can hold.
_FIRST_YEAR = 1980

Shown = Mapping[str, Callable[[], Iterable[bytes]]]
"""Name of a file in the archive → what yields its content."""


def write_archive(
    path: Path,
    root: Root,
    log: WorkflowLog,
    shown: Shown,
    upto: int,
    taken: Choice | None = None,
) -> Manifest:
    """Write the archive of a root whole to ``path`` and return its manifest.

    ``upto`` is the version of the workflow that ``shown`` shows, 0 where there is none; every
    stream ends where it stood at the beginning. ``taken`` are the files that go along. The same log
    and files give the same bytes. Raises `NoWorkflow` where there is no machine either,
    `UnsoundLog` where a stream was altered.
    """
    ends = [*_workflow(log, upto), *_machines(root, log.store)]
    for end in ends:
        _require_sound(log.store, end)
    workflow = log.current(upto).id if upto or not ends else None
    manifest = Manifest(workflow, _newest(log.store, ends), streams=ends)
    taken = taken or Choice()
    manifest.left_out = taken.left
    with replaced(path) as temporary, ZipFile(temporary, "w", ZIP_DEFLATED) as archive:
        writer = _Writer(archive, manifest)
        for end in ends:
            lines = (f"{exported(raw)}\n" for raw in _raws(log.store, end))
            writer.file(end.file, (line.encode("utf-8", "surrogateescape") for line in lines))
        writer.file(CLAIMS, _claims(log.store, ends))
        writer.file(REFUSALS, _refusals(log.store, ends))
        for name, content in shown.items():
            writer.file(name, content())
        for kept in sorted(root.drift.glob("*")) if root.drift.is_dir() else ():
            writer.file(f"{DRIFT}{kept.name}", [read_regular(kept)])
        for name in taken.files:
            writer.carried(root.path, name)
        text = json.dumps(manifest.to_dict(), indent=1).encode() + b"\n"
        writer.file(NAME, [text])
    return manifest


def _require_sound(store: EventStore, end: Stream) -> None:
    """Raise `UnsoundLog` for a stream that is not what was recorded."""
    for _ in store.read(end.name, upto=end.version):
        pass


def _workflow(log: WorkflowLog, upto: int) -> Iterator[Stream]:
    if upto:
        yield _end(log.store, log.stream, upto)


def _machines(root: Root, store: EventStore) -> Iterator[Stream]:
    """Yield the streams of a root's machines as they stand."""
    for machine in ids(root, store):
        head = store.head(f"{PREFIX}{machine}")
        if head is not None:
            yield _end(store, f"{PREFIX}{machine}", head.version)


def _end(store: EventStore, stream: str, version: int) -> Stream:
    last = next(iter(store.raw(stream, after=version - 1, upto=version)))
    return Stream(stream, f"events/{quote(stream, safe='-._')}.jsonl", version, last.hash)


def _raws(store: EventStore, end: Stream) -> Iterator[Raw]:
    return store.raw(end.name, upto=end.version)


def _newest(store: EventStore, ends: Iterable[Stream]) -> str:
    """Return when the newest event was recorded."""
    last = [
        next(iter(store.raw(end.name, after=end.version - 1, upto=end.version))) for end in ends
    ]
    return max(str(json.loads(raw.text)["recorded_at"]) for raw in last)


class _Writer:
    """Puts files into the archive, and their digests into the manifest."""

    def __init__(self, archive: ZipFile, manifest: Manifest) -> None:
        self._archive = archive
        self._manifest = manifest
        at = datetime.fromisoformat(manifest.at)
        year = max(at.year, _FIRST_YEAR)
        self._date = (year, at.month, at.day, at.hour, at.minute, at.second)

    def carried(self, root: Path, path: str) -> None:
        """Put in a file of the root, not packed: an archive far smaller than it is is refused."""
        mode = (root / path).stat().st_mode & 0o100
        self.file(f"{FILES}{path}", content(root, path), ZIP_STORED, mode=_MODE | mode << 16)

    def file(
        self, name: str, content: Iterable[bytes], how: int = ZIP_DEFLATED, *, mode: int = _MODE
    ) -> None:
        """Put in a file, chunk by chunk."""
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


def _claims(store: EventStore, ends: Iterable[Stream]) -> Iterator[bytes]:
    """Yield each command with the digest it is told apart by, so that it stays done."""
    for end in ends:
        last = None
        for raw in _raws(store, end):
            command = str(json.loads(raw.text)["command_id"])
            claim = store.claim(command) if command != last else None
            last = command
            if claim is not None:
                yield json.dumps(claim._asdict()).encode() + b"\n"


def _refusals(store: EventStore, ends: Iterable[Stream]) -> Iterator[bytes]:
    for end in ends:
        for refusal in store.refusals(end.name):
            yield json.dumps(refusal._asdict(), ensure_ascii=False).encode() + b"\n"
