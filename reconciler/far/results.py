"""Results on another machine, brought into their place."""

from __future__ import annotations

import hashlib
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from reconciler.attempt import execution_host as machine
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import MachineUnreachable
from reconciler.far import ask
from service.root.disk import write_whole

#: Bytes that come in one answer, unless one file alone has more.
_AT_ONCE = 16 * 10**6


@dataclass(frozen=True, slots=True)
class BroughtFile:
    """A file that was left.

    ``path`` is where the job wrote it, ``at`` where it lies if that is elsewhere; both relative to
    the root, ``at`` absolute on another machine. ``link`` is what a symbolic link points to.
    """

    path: str
    size: int
    sha256: str
    at: str | None = None
    link: str | None = None


def brought(
    attempt: AttemptPaths, limit: int | None, wanted: Sequence[str] = ()
) -> Iterator[BroughtFile]:
    """Bring what an attempt left into its folder here, its logs and the smallest first.

    Yields what is not brought, since it would pass ``limit`` bytes in all and fits none of the
    ``wanted`` patterns (of paths in the stage's folder), and stays there. What is
    in place already is left alone. Raises MachineUnreachable.
    """
    ask.keep(attempt)
    place = ask.kept_at(machine.of(attempt).scratch)[1]
    total, batch = 0, list[BroughtFile]()
    for left in sorted(_left(attempt), key=lambda one: (one.path not in attempt.logs, one.size)):
        total += left.size
        needed = left.path in attempt.logs or _is_wanted(attempt, left, wanted)
        if limit is not None and total > limit and not needed:
            yield replace(left, at=f"{place}/{left.path}")
            continue
        if batch and sum(one.size for one in batch) + left.size > _AT_ONCE:
            _bring(attempt, batch)
            batch = []
        batch.append(left)
    _bring(attempt, batch)


def _is_wanted(attempt: AttemptPaths, left: BroughtFile, wanted: Sequence[str]) -> bool:
    own = left.path.removeprefix(f"{attempt.stage}/")
    return any(fnmatchcase(own, pattern) for pattern in wanted)


def _left(attempt: AttemptPaths) -> Iterator[BroughtFile]:
    """Yield what was left there and is neither here already nor a name that leads elsewhere."""
    for kind, name, *values in ask.left(attempt):
        path = os.fsdecode(b64decode(name))
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            continue
        if kind == "link":
            target = b64decode(values[0])
            yield BroughtFile(path, 0, hashlib.sha256(target).hexdigest(), link=os.fsdecode(target))
        elif not _is_here(attempt.root / path, int(values[0]), values[1]):
            yield BroughtFile(path, int(values[0]), values[1])


def _is_here(place: Path, size: int, sha256: str) -> bool:
    if place.is_symlink() or not place.is_file() or place.stat().st_size != size:
        return False
    return digest_of(place) == sha256


def _bring(attempt: AttemptPaths, batch: Sequence[BroughtFile]) -> None:
    names = {b64encode(os.fsencode(one.path)).decode(): one for one in batch if one.link is None}
    size = sum(one.size for one in batch)
    contents = ask.fetched(attempt, list(names), size) if names else {}
    for name, left in names.items():
        _put(attempt.kept / left.path, contents[name], left)
    for left in batch:
        place = attempt.kept / left.path
        if left.link is not None and not os.path.lexists(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(left.link)


def _put(place: Path, content: bytes, left: BroughtFile) -> None:
    if hashlib.sha256(content).hexdigest() != left.sha256:
        raise MachineUnreachable(f"{left.path} came otherwise than it was left there")
    place.parent.mkdir(parents=True, exist_ok=True)
    write_whole(place, content)


def digest_of(file: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class RemoteResult:
    """A file to bring back: its path from where jobs of the attempt work, and in its own folder."""

    there: str
    path: str
    size: int
    sha256: str


def bring(attempt: AttemptPaths, base: Path) -> None:
    """Bring the results of an attempt below ``base``, each whole or not at all.

    May be done again after it was cut off at any point. Raises MachineUnreachable, OSError.
    """
    found = [one for one in _listed(attempt) if not (base / one.path).is_dir()]
    partial = {one: _partial(attempt, base / one.path) for one in found}
    for place in partial.values():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"")
    for batch in _batches(found):
        asked = [(one.there, start, size) for one, start, size in batch]
        for (one, _, _), content in zip(batch, ask.parts(attempt, asked), strict=True):
            with partial[one].open("ab") as stream:
                stream.write(content)
    for one, place in partial.items():
        _results_put(place, base / one.path, one)


def _listed(attempt: AttemptPaths) -> Iterator[RemoteResult]:
    copy = ""
    for kind, name, *values in ask.results(attempt):
        if kind == "copy":
            copy = name
            continue
        path = os.fsdecode(b64decode(name))
        if not PurePosixPath(path).is_absolute() and ".." not in PurePosixPath(path).parts:
            yield RemoteResult(f"{copy}/{path}", path, int(values[0]), values[1])


def _batches(results: Sequence[RemoteResult]) -> Iterator[list[tuple[RemoteResult, int, int]]]:
    """Yield what to ask for at once: results with the first byte and the number of bytes."""
    batch: list[tuple[RemoteResult, int, int]] = []
    room = _AT_ONCE
    for one in results:
        for start in range(0, one.size, _AT_ONCE):
            size = min(_AT_ONCE, one.size - start)
            if size > room:
                yield batch
                batch, room = [], _AT_ONCE
            batch.append((one, start, size))
            room -= size
    if batch:
        yield batch


def _partial(attempt: AttemptPaths, target: Path) -> Path:
    """Return where a file grows until it is whole: beside its place, so that it can be moved."""
    return target.with_name(f".{target.name}.{attempt.id}.part")


def _results_put(partial: Path, target: Path, result: RemoteResult) -> None:
    if digest_of(partial) != result.sha256:
        partial.unlink()
        raise MachineUnreachable(f"{result.path} came otherwise than it lies there")
    partial.replace(target)
