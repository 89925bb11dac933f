"""Writing an archive: the log, what it looks like, and the digests of all of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from eventstore.errors import SchemaError
from eventstore.private import opened, read_regular
from eventstore.store import EventStore, Raw
from eventstore.transfer.archive import ArchiveSource, exported, is_archive
from eventstore.transfer.archive import write_archive as write_log
from eventstore.transfer.copy import Copied, CopySource, copy
from lifecycle.words.values import is_id
from service.errors import AlreadyThere, InvalidOption, NotFound
from service.handover.carried import Choice
from service.handover.carried import content as content_of
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
from service.machines.log import PREFIX, ids
from service.reading.log import WorkflowLog
from service.root.disk import replaced, sync_folder
from service.root.root import WORKFLOW, Root

_MODE = 0o644 << 16
#: The first year that a zip file can hold.
_FIRST_YEAR = 1980

Shown = Mapping[str, Callable[[], Iterable[bytes]]]
"""Name of a file in the archive → what yields its content."""


def write_archive(
    path: Path, root: Root, log: WorkflowLog, shown: Shown, upto: int, taken: Choice | None = None
) -> Manifest:
    """Write the archive of a root whole to ``path`` and return its manifest.

    ``upto`` is the version of the workflow that ``shown`` shows, 0 without one; every
    stream ends where it stood at the beginning. ``taken`` are the files that go along. The same log
    and files give the same bytes. Raises `NoWorkflow` if there is no machine either,
    `UnsoundLog` if a stream was altered.
    """
    store = log.store
    machines = ((id_, store.head(f"{PREFIX}{id_}")) for id_ in ids(root, store))
    ends = [_end(store, log.stream, upto)] if upto else []
    ends += [_end(store, f"{PREFIX}{id_}", head.version) for id_, head in machines if head]
    for end in ends:
        for _ in store.read(end.name, upto=end.version):
            pass  # a stream that is not what was recorded raises `UnsoundLog`
    workflow = log.current(upto).id if upto or not ends else None  # raises `NoWorkflow`
    last = (json.loads(_last(store, end.name, end.version).text) for end in ends)
    newest = max(str(event["recorded_at"]) for event in last)
    taken = taken or Choice()
    manifest = Manifest(workflow, newest, streams=ends, left_out=taken.left)
    with replaced(path) as temporary, ZipFile(temporary, "w", ZIP_DEFLATED) as archive:
        writer = _Writer(archive, manifest)
        for end in ends:
            lines = (f"{exported(raw)}\n" for raw in store.raw(end.name, upto=end.version))
            writer.file(end.file, (line.encode("utf-8", "surrogateescape") for line in lines))
        writer.file(CLAIMS, _claims(store, ends))
        refusals = (refusal._asdict() for end in ends for refusal in store.refusals(end.name))
        writer.file(
            REFUSALS, (f"{json.dumps(one, ensure_ascii=False)}\n".encode() for one in refusals)
        )
        for name, content in shown.items():
            writer.file(name, content())
        for kept in sorted(root.drift.glob("*")) if root.drift.is_dir() else ():
            writer.file(f"{DRIFT}{kept.name}", [read_regular(kept)])
        for name in taken.files:
            # Not packed: an archive far smaller than its files is refused.
            mode = _MODE | ((root.path / name).stat().st_mode & 0o100) << 16
            writer.file(f"{FILES}{name}", content_of(root.path, name), ZIP_STORED, mode=mode)
        writer.file(NAME, [manifest.to_bytes()])
    return manifest


def _end(store: EventStore, stream: str, version: int) -> Stream:
    file = f"events/{quote(stream, safe='-._')}.jsonl"
    return Stream(stream, file, version, _last(store, stream, version).hash)


def _last(store: EventStore, stream: str, version: int) -> Raw:
    return next(iter(store.raw(stream, after=version - 1, upto=version)))


class _Writer:
    """Puts files into the archive, and their digests into the manifest."""

    def __init__(self, archive: ZipFile, manifest: Manifest) -> None:
        self._archive, self._manifest = archive, manifest
        at = datetime.fromisoformat(manifest.at)
        year = max(at.year, _FIRST_YEAR)
        self._date = (year, at.month, at.day, at.hour, at.minute, at.second)

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
        for raw in store.raw(end.name, upto=end.version):
            command = str(json.loads(raw.text)["command_id"])
            claim = store.claim(command) if command != last else None
            last = command
            if claim is not None:
                yield json.dumps(claim._asdict()).encode() + b"\n"


_SQLITE = b"SQLite format 3\0"
_PG_DUMP = b"PGDMP"


class Stores(NamedTuple):
    """How stores are opened: the one at an address, for reading or writing, or made anew."""

    reading: Callable[[Path], EventStore]
    made: Callable[[Path], EventStore]


def require_stream(source: CopySource, only: str | None) -> None:
    """Raise `NotFound` for a stream that is not there: an empty copy would look like a good one."""
    if only is not None and only not in source.streams():
        there = ", ".join(source.streams()) or "none"
        raise NotFound(f"no stream {only!r}; there is: {there}", stream=only)


def require_in_place(store: EventStore, only: str | None) -> None:
    """Raise `UnsoundLog` if a log, or one stream of it, is not what was recorded."""
    for stream in [only] if only is not None else list(store.streams()):
        # What a newer program recorded is copied as it is, and its chain is checked on the way.
        with suppress(SchemaError):
            for _ in store.read(stream):
                pass


def back_up(
    store: EventStore, file: Path, form: str, stores: Stores, *, only: str | None = None
) -> Copied:
    """Write the log to a new ``file``, as it is now: an ``archive`` or a ``sqlite`` database.

    It has its name only once it is whole, checked and durable. Raises `AlreadyThere`,
    `InvalidOption` for stdout, `UnsoundLog`, and what reading raises.
    """
    if str(file) == "-":
        raise InvalidOption("expected a FILE: a backup is read again to be checked, unlike stdout")
    if file.exists():
        raise AlreadyThere(file)
    require_in_place(store, only)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder:
        new = Path(folder) / "log"
        if form == "sqlite":
            with closing(stores.made(new)) as target:
                done = copy(store, target, only=only)
        else:
            done = write_log(store, new, only=only)
            for _ in ArchiveSource(new).all_raw():
                pass
        new.rename(file)
    sync_folder(file.parent)
    return done


def workflow_in(source: CopySource, only: str | None = None) -> str | None:
    """Return the workflow that a backup, or one stream of it, is of; None if it has machines.

    Raises `InvalidOption` if there are several: a root has one.
    """
    streams = [only] if only is not None else list(source.streams())
    found = [name.removeprefix(WORKFLOW) for name in streams if name.startswith(WORKFLOW)]
    if len(found) > 1:
        raise InvalidOption(
            f"a root has one workflow, and the backup has {', '.join(found)}: choose one with "
            f"--stream {WORKFLOW}ID",
            workflows=found,
        )
    if found and not is_id(found[0]):
        raise InvalidOption(f"expected the id of a workflow in the backup, found {found[0]!r:.80}")
    return found[0] if found else None


def source_in(file: Path, stores: Stores) -> ArchiveSource | EventStore:
    """Return what a backup holds, to be closed; raises `InvalidOption` for any other file.

    Raises `NotFound` if there is no file.
    """
    try:
        with opened(file) as source:
            start = source.read(len(_SQLITE))
    except FileNotFoundError:
        raise NotFound(f"{file}: expected a backup, found no file", path=str(file)) from None
    if start == _SQLITE:
        return stores.reading(file)
    if is_archive(file):
        return ArchiveSource(file)
    hint = "; pg_restore reads it" if start.startswith(_PG_DUMP) else ""
    raise InvalidOption(f"{file}: expected a backup made by `wfctl db backup`, found none{hint}")
