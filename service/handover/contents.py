"""Reading an archive: it is what its manifest says, and its chains hold, or it is not used."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass
from errno import EINVAL
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from eventstore.chain import ZERO
from eventstore.regular import opened
from eventstore.store import Refusal
from lifecycle.machines.definition import trusted
from lifecycle.machines.soundness import misplaced
from lifecycle.words.layout import restore
from lifecycle.words.naming import is_id
from service.documents.bounds import bounded_lines
from service.handover.judged import unacceptable
from service.handover.manifest import (
    CLAIMS,
    DRIFT,
    NAME,
    REFUSALS,
    Manifest,
    Stream,
    UnusableArchive,
)
from service.machines.log import PREFIX as MACHINE
from service.root.root import Config

_CHUNK = 1 << 16
#: Bytes of an event, or of the manifest; so many of all files together are never too many, and of a
#: larger archive so many times its own. Logs come out ten to thirty times smaller.
_LONGEST, _SMALL, _RATIO = 32 << 20, 64 << 20, 200
#: What an exported event has before its last brace, beside the text that was hashed.
_END = re.compile(rb',"hash":"([0-9a-f]{64})","position":[0-9]+}$')


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive whose files are what its manifest says."""

    path: Path
    manifest: Manifest


def read_archive(path: Path) -> Archive:
    """Return the archive at ``path``, digests and chains checked; raises `UnusableArchive`."""
    try:
        with opened(path) as source, ZipFile(source) as file:
            _check_sizes(path, file)
            manifest = Manifest.from_dict(json.loads(file.read(NAME)))
            _check_names(path, manifest)
            for name in manifest.files:
                _check(path, file, manifest, name)
            commands = _commands(path, file, manifest)
            for stream in manifest.streams:
                _check_chain(path, file, stream, commands)
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        # NotImplementedError: a damaged header names a way to pack that zipfile does not know.
        if isinstance(error, OSError) and error.errno != EINVAL:  # a place before the beginning
            raise
        raise UnusableArchive(
            str(path), None, f"expected a whole zip file, found none ({error})"
        ) from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UnusableArchive(
            str(path), NAME, f"not what `wfctl export archive` writes: {error}"
        ) from error
    return Archive(path, manifest)


def _check_sizes(path: Path, file: ZipFile) -> None:
    """Refuse what is far larger unpacked than any log would be; no more than it says is read."""
    unpacked = sum(info.file_size for info in file.infolist())
    if unpacked > max(_SMALL, _RATIO * path.stat().st_size):
        why = f"its {path.stat().st_size:,} bytes hold {unpacked:,} once they are unpacked"
        raise UnusableArchive(str(path), None, why)
    if file.getinfo(NAME).file_size > _LONGEST:
        raise UnusableArchive(str(path), NAME, f"expected {_LONGEST >> 20} MiB at most")


def _check_names(path: Path, manifest: Manifest) -> None:
    """Refuse what would make no root, or a file outside of it."""
    names = [stream.name for stream in manifest.streams]
    ids = [manifest.workflow, *(n.removeprefix(MACHINE) for n in names if n.startswith(MACHINE))]
    wrong = next((id_ for id_ in ids if id_ is not None and not is_id(id_)), None)
    if wrong is not None:
        raise UnusableArchive(str(path), NAME, f"expected an id, found {wrong!r:.80}")
    workflows = [] if manifest.workflow is None else [Config(manifest.workflow).stream]
    machines = names[len(workflows) :]
    is_root = names and names == workflows + machines
    if not is_root or any(not name.startswith(MACHINE) for name in machines):
        raise UnusableArchive(
            str(path), NAME, "it does not name one workflow and its machines, or machines alone"
        )
    for name in manifest.files:
        kept = name.removeprefix(DRIFT)
        if name.startswith(DRIFT) and ("/" in kept or kept in ("", ".", "..")):
            raise UnusableArchive(str(path), name, "expected the name of a file, found none")


def _check(path: Path, file: ZipFile, manifest: Manifest, name: str) -> None:
    digest, entry = sha256(), manifest.files[name]
    try:
        size = file.getinfo(name).file_size
    except KeyError:
        why = "the manifest names it, and it is not there"
        raise UnusableArchive(str(path), name, why) from None
    if size != entry.bytes:
        why = f"it has {size} bytes, and the manifest says {entry.bytes}"
        raise UnusableArchive(str(path), name, why)
    with file.open(name) as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != entry.sha256:
        raise UnusableArchive(str(path), name, "its digest is not the manifest's: it was changed")


def _commands(path: Path, file: ZipFile, manifest: Manifest) -> set[str]:
    for name in (CLAIMS, REFUSALS):
        if name not in manifest.files:
            raise UnusableArchive(str(path), name, "the manifest does not name it")
    with file.open(REFUSALS) as lines:
        for line in bounded_lines(lines, _LONGEST):
            Refusal(**json.loads(line))
    with file.open(CLAIMS) as lines:
        found = (json.loads(line) for line in bounded_lines(lines, _LONGEST))
        return {claim["command_id"] for claim in found}


def _check_chain(path: Path, file: ZipFile, stream: Stream, commands: set[str]) -> None:
    """Hash every event of a known command; follow the chain to the head the manifest names."""
    version, previous = 0, ZERO
    with file.open(stream.file) as lines:
        for line in bounded_lines(lines, _LONGEST):
            version += 1
            end = _END.search(line.rstrip())
            text = line[: end.start()] + b"}" if end is not None else b"{}"
            event, found = json.loads(text), sha256(text).hexdigest()
            place = (event.get("stream"), event.get("version"), event.get("prev_hash"))
            said = end[1].decode() if end is not None else None
            if found != said or place != (stream.name, version, previous):
                why = f"version {version} was changed: it hashes to {found}, and says {said}"
                raise UnusableArchive(str(path), stream.file, why)
            wrong = unacceptable(text)
            if wrong is not None:
                why = f"version {version} is none that a command records: {wrong}"
                raise UnusableArchive(str(path), stream.file, why)
            if version == 1 and stream.name.startswith(MACHINE):
                _check_machine(path, stream, event["data"])
            if event["command_id"] not in commands:
                why = f"version {version} is of a command that {CLAIMS} does not know"
                raise UnusableArchive(str(path), stream.file, why)
            previous = found
    if (version, previous) != (stream.version, stream.head or ZERO):
        why = f"it ends at version {version}, not as the manifest says"
        raise UnusableArchive(str(path), stream.file, why)


def _check_machine(path: Path, stream: Stream, data: dict[str, Any]) -> None:
    """Refuse a machine that would write its files elsewhere: its definition came with it."""
    id_ = stream.name.removeprefix(MACHINE)
    definition = trusted(restore(data["definition"], data["definition_layout"]), id_)
    wrong = [*misplaced(definition)]
    if data["machine"] != id_:
        wrong.append(f"expected the id of a machine, found {id_!r}")
    if wrong:
        raise UnusableArchive(str(path), stream.file, "; ".join(wrong))
