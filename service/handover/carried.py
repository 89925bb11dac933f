"""The files that an archive takes along beside the log: which, from where, and to where.

The log knows them by path and digest. What is not as the log says is never taken along under its
name, and what an archive brings is never put over a file that is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath
from stat import S_ISLNK
from zipfile import ZipFile

from eventstore.private import NotRegular
from lifecycle.machines.machine import Machine
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE, is_sweep
from lifecycle.words.values import is_below
from projections.files import progress_log, state_document
from projections.files.summary import is_figure
from service.consent.scripts import scripts_of
from service.handover.manifest import FILES, LeftOut, Manifest, UnusableArchive, lines_of
from service.root.disk import OutsideRoot, open_within, place_within, write_streamed

INPUTS, OUTPUTS, FIGURES, SCRIPTS = KINDS = ("inputs", "outputs", "figures", "scripts")
#: Bytes of all files together that go along if nobody names the kinds, and files at the most.
MOST_BYTES, MOST_FILES = 100_000_000, 20_000
_CHUNK = 1 << 16
_TOO_MUCH = "all together would have more than {} MB"
_OWN = frozenset({state_document.FILE_NAME, progress_log.FILE_NAME})
Digest = Callable[[str], str | None]
"""Returns the digest of a file or folder of the root, as the log would have it; None of none."""


@dataclass(slots=True)
class Choice:
    """The files that go along, path → bytes, and those that do not."""

    files: dict[str, int] = field(default_factory=dict)
    left: list[LeftOut] = field(default_factory=list)


def chosen(
    root: Path,
    state: Workflow | None,
    machines: Iterable[Machine],
    kinds: Iterable[str],
    digest: Digest,
    most: int | None = MOST_BYTES,
) -> Choice:
    """Choose the files of some kinds, the smallest first, up to ``most`` bytes; None: all."""
    choice, sizes = Choice(), dict[str, int]()
    for path, recorded in sorted(_named(root, state, machines, frozenset(kinds)).items()):
        whole = _size(root, path)
        if most is not None and whole > most:
            # It is not read for its digest either: it may be as large as a disk.
            choice.left.append(LeftOut(path, whole, _TOO_MUCH.format(most // 10**6)))
            continue
        now = digest(path)
        if now is None or recorded not in (None, now):
            why = "it is not there" if now is None else "it is not as the log says"
            choice.left.append(LeftOut(path, 0, why))
            continue
        for own in _below(root, path):
            size, unfitting = _fitting(root, own)
            if unfitting is None:
                sizes[own] = size
            else:
                choice.left.append(LeftOut(own, size, unfitting))
    _limit(choice, sizes, most)
    return choice


def _limit(choice: Choice, sizes: dict[str, int], most: int | None) -> None:
    total = 0
    for path, size in sorted(sizes.items(), key=lambda one: (one[1], one[0])):
        total += size
        if len(choice.files) == MOST_FILES:
            choice.left.append(LeftOut(path, size, f"{MOST_FILES:,} files go along at most"))
        elif most is not None and total > most:
            choice.left.append(LeftOut(path, size, _TOO_MUCH.format(most // 10**6)))
        else:
            choice.files[path] = size


def _named(
    root: Path, state: Workflow | None, machines: Iterable[Machine], kinds: frozenset[str]
) -> dict[str, str | None]:
    """Return the files that the logs name, each with the digest that is recorded of it."""
    found: dict[str, str | None] = {}
    for machine in machines if OUTPUTS in kinds else ():
        found |= machine.digests
    stages = list(state.stages.values()) if state is not None else []
    if SCRIPTS in kinds and state is not None:
        # But no machine file: it may hold what lets one in.
        given = (one.get("config_path") for one in state.backend_profiles.values())
        closed = {os.path.normpath(path) for path in given if isinstance(path, str)}
        named = (path for path in scripts_of(root, state) if path not in closed)
        found |= {path: state.scripts.get(path) for path in named}
    made = {path for stage in stages for path in stage.outputs}
    for stage in stages if INPUTS in kinds else ():
        read: dict[str, str | None] = dict.fromkeys(stage.inputs)
        if stage.status is Status.COMPLETED and stage.source is not None:
            read |= {one["path"]: one["sha256"] for one in stage.source.inputs}
        found |= {path: one for path, one in read.items() if path not in made}
    for stage in stages:
        found |= _results(stage, kinds)
    return found


def _results(stage: Stage, kinds: frozenset[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {one["path"]: one["sha256"] for one in stage.results}
    if found and is_sweep(stage.parameters):
        found[f"{stage.id}/{DONE}"] = None
    if OUTPUTS in kinds:
        return found
    beside = {**found, **dict.fromkeys(stage.left_in_place)}
    return {k: v for k, v in beside.items() if FIGURES in kinds and is_figure(k)}


def _below(root: Path, path: str) -> Iterator[str]:
    place = root / path
    if not place.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(place):
        folders.sort()
        for name in sorted(names):
            yield str(Path(folder, name).relative_to(root))


def _size(root: Path, path: str) -> int:
    """Return the bytes of a file or of all in a folder; 0 if they cannot be told."""
    total = 0
    for one in _below(root, path):
        with suppress(OSError, ValueError):
            total += (root / one).lstat().st_size
    return total


def _fitting(root: Path, path: str) -> tuple[int, str | None]:
    """Return the bytes of a file, and why it cannot go along; None if it can."""
    why = unfit(path)
    if why is not None:
        return 0, why
    try:
        with os.fdopen(open_within(root, path), "rb") as file:
            return os.fstat(file.fileno()).st_size, None
    except (OSError, OutsideRoot, NotRegular) as error:
        return 0, f"it cannot be read: {error}"


def unfit(path: str) -> str | None:
    """Return why no archive may bring a file of this name, None if one may."""
    if not is_below(path):
        return "its name leads out of the root, or holds a control character"
    if any(step.startswith(".") for step in path.split("/")):
        return "it is hidden, or in a hidden folder"
    return "wfctl writes a file of this name itself" if path in _OWN else None


def content(root: Path, path: str) -> Iterator[bytes]:
    """Yield the bytes of a file that goes along."""
    with os.fdopen(open_within(root, path), "rb") as file:
        yield from iter(partial(file.read, _CHUNK), b"")


def brought(manifest: Manifest) -> list[str]:
    """Return the paths of the files that an archive brings."""
    return [name.removeprefix(FILES) for name in manifest.files if name.startswith(FILES)]


def check_brought(path: Path, file: ZipFile, manifest: Manifest) -> None:
    """Raise `UnusableArchive` for a file that may not be put anywhere, the first one found."""
    names = brought(manifest)
    if len(names) > MOST_FILES:
        many = f"expected {MOST_FILES:,} files beside the log at most, found {len(names):,}"
        raise UnusableArchive(path, None, many)
    recorded = _recorded(path, file, manifest) if names else {}
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    for name in names:
        entry, why = f"{FILES}{name}", unfit(name)
        if name in folders:
            why = "it is a folder of others"
        elif S_ISLNK(file.getinfo(entry).external_attr >> 16):
            why = "it is a link"
        elif name in recorded and manifest.files[entry].sha256 not in recorded[name]:
            why = "it is not the result that the log tells of"
        if why is not None:
            raise UnusableArchive(path, entry[:200], why)


def _recorded(path: Path, file: ZipFile, manifest: Manifest) -> dict[str, set[str]]:
    """Return the digests that a log ever recorded of each result."""
    found: dict[str, set[str]] = {}
    for stream in manifest.streams:
        for event in lines_of(path, file, stream.file):
            outputs = event["data"].get("outputs")
            for one in outputs if isinstance(outputs, list) else ():
                if isinstance(one, dict) and {"path", "sha256"} <= set(one):
                    found.setdefault(str(one["path"]), set()).add(str(one["sha256"]))
    return found


def put_in_place(root: Path, archive: Path, manifest: Manifest) -> list[str]:
    """Write the files that an archive brings; return those in whose place another one lies."""
    kept: list[str] = []
    with ZipFile(archive) as file:
        for path in brought(manifest):
            if os.path.lexists(root / path):
                if not _is_there(root, path, manifest.files[f"{FILES}{path}"].sha256):
                    kept.append(path)
                continue
            mode = file.getinfo(f"{FILES}{path}").external_attr >> 16
            with place_within(root, path, make=True) as place:
                write_streamed(place, _checked(archive, file, manifest, path))
                if mode & 0o100:
                    place.chmod(place.stat().st_mode | 0o111)
    return kept


def _is_there(root: Path, path: str, digest: str) -> bool:
    try:
        with os.fdopen(open_within(root, path), "rb") as file:
            return file_digest(file, "sha256").hexdigest() == digest
    except (OSError, OutsideRoot, NotRegular):
        return False


def _checked(archive: Path, file: ZipFile, manifest: Manifest, path: str) -> Iterator[bytes]:
    """Yield a file's bytes; it gets its name only if they are those that were looked at."""
    name, found = f"{FILES}{path}", sha256()
    with file.open(name) as source:
        for chunk in iter(partial(source.read, _CHUNK), b""):
            found.update(chunk)
            yield chunk
    if found.hexdigest() != manifest.files[name].sha256:
        raise UnusableArchive(archive, name, "it was changed while it was read")
