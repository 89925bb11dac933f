"""Reading an archive: it is what its manifest says, and its chains hold, or it is not used."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from errno import EINVAL
from hashlib import sha256
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from eventstore.private import opened
from lifecycle.words.values import is_id
from service.handover.carried import check_brought
from service.handover.chains import LONGEST, check_streams, decoded
from service.handover.manifest import DRIFT, NAME, Manifest, UnusableArchive
from service.machines.log import PREFIX as MACHINE
from service.root.root import Config

_CHUNK = 1 << 16
#: So many bytes of all files together are never too many, and of a larger archive so many times its
#: own. Logs come out ten to thirty times smaller.
_SMALL, _RATIO = 64 << 20, 200


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
            manifest = Manifest.from_dict(decoded(file.read(NAME)))
            _check_names(path, manifest)
            for name in manifest.files:
                _check(path, file, manifest, name)
            check_streams(path, file, manifest)
            check_brought(path, file, manifest)
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        # NotImplementedError: a damaged header names a way to pack that zipfile does not know.
        if isinstance(error, OSError) and error.errno != EINVAL:  # a place before the beginning
            raise
        raise UnusableArchive(
            str(path), None, f"expected a whole zip file, found none ({error})"
        ) from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, RuntimeError) as error:
        # RuntimeError: a file that says it is encrypted.
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
    if file.getinfo(NAME).file_size > LONGEST:
        raise UnusableArchive(str(path), NAME, f"expected {LONGEST >> 20} MiB at most")


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
