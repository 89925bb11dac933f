"""Results on another machine, brought into their place."""

from __future__ import annotations

import hashlib
import os
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from reconciler.attempt.markers import digest_of, is_as
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import MachineUnreachable
from reconciler.far import ask

#: Bytes that come in one answer.
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
) -> list[BroughtFile]:
    """Bring what an attempt left into its folder here, its logs and the smallest first.

    Returns what is not brought, since it would pass ``limit`` bytes in all and fits none of the
    ``wanted`` patterns (of paths in the stage's folder), and stays there. What is
    in place already is left alone. Raises MachineUnreachable.
    """
    ask.keep(attempt)
    total, coming, stays = 0, list[tuple[str, BroughtFile]](), list[BroughtFile]()
    known = (
        (there, one) for there, one in _listed(ask.left(attempt)) if not _is_here(attempt, one)
    )
    for there, left in sorted(known, key=lambda of: (of[1].path not in attempt.logs, of[1].size)):
        total += left.size
        own = left.path.removeprefix(f"{attempt.stage}/")
        needed = left.path in attempt.logs or any(fnmatchcase(own, one) for one in wanted)
        if limit is None or total <= limit or needed:
            coming.append((there, left))
        else:
            stays.append(replace(left, at=f"{ask.left_at(attempt)}/{left.path}"))
    _fetch(attempt, attempt.kept, coming)
    return stays


def _is_here(attempt: AttemptPaths, left: BroughtFile) -> bool:
    place, recorded = attempt.root / left.path, {"size": left.size, "sha256": left.sha256}
    return left.link is None and not place.is_symlink() and is_as(place, recorded)


def bring(attempt: AttemptPaths, base: Path) -> None:
    """Bring the results of an attempt below ``base``, each whole or not at all.

    May be done again after it was cut off at any point. Raises MachineUnreachable, OSError.
    """
    found = [of for of in _listed(ask.results(attempt)) if not (base / of[1].path).is_dir()]
    _fetch(attempt, base, found)


def _listed(rows: Sequence[list[str]]) -> Iterator[tuple[str, BroughtFile]]:
    """Yield each file, behind where it lies below the attempt's folder there."""
    folder = "left"
    for kind, name, *values in rows:
        if kind == "copy":
            folder = name
            continue
        path = os.fsdecode(b64decode(name))
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            continue  # a name that leads elsewhere
        if kind == "link":
            target = b64decode(values[0])
            sha256, link = hashlib.sha256(target).hexdigest(), os.fsdecode(target)
            yield "", BroughtFile(path, 0, sha256, link=link)
        else:
            yield f"{folder}/{path}", BroughtFile(path, int(values[0]), values[1])


def _fetch(attempt: AttemptPaths, base: Path, found: Sequence[tuple[str, BroughtFile]]) -> None:
    """Bring files below ``base``; each grows beside its place until it is whole."""
    partial = dict[str, Path]()
    for there, one in found:
        place = base / one.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if one.link is None:
            partial[there] = place.with_name(f".{place.name}.{attempt.id}.part")
            partial[there].write_bytes(b"")
        elif not os.path.lexists(place):
            place.symlink_to(one.link)
    for batch in _batches(found):
        for (there, _, _), content in zip(batch, ask.parts(attempt, batch), strict=True):
            with partial[there].open("ab") as stream:
                stream.write(content)
    for there, one in found:
        if one.link is None:
            _put(partial[there], base / one.path, one)


def _put(partial: Path, target: Path, known: BroughtFile) -> None:
    if digest_of(partial) != known.sha256:
        partial.unlink()
        raise MachineUnreachable(f"{known.path} came otherwise than it lies there")
    partial.replace(target)


def _batches(found: Sequence[tuple[str, BroughtFile]]) -> Iterator[list[tuple[str, int, int]]]:
    """Yield what to ask for at once: where it lies, the first byte and the number of bytes."""
    batch: list[tuple[str, int, int]] = []
    room = _AT_ONCE
    for there, one in found:
        for start in range(0, one.size, _AT_ONCE):
            size = min(_AT_ONCE, one.size - start)
            if size > room:
                yield batch
                batch, room = [], _AT_ONCE
            batch.append((there, start, size))
            room -= size
    if batch:
        yield batch
