"""Results that wait on another machine, brought into their place without DPDispatcher."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import MachineUnreachable
from reconciler.far import ask
from reconciler.far.brought import digest_of

#: Bytes that come in one answer.
_AT_ONCE = 16 * 10**6


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
        _put(place, base / one.path, one)


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


def _put(partial: Path, target: Path, result: RemoteResult) -> None:
    if digest_of(partial) != result.sha256:
        partial.unlink()
        raise MachineUnreachable(f"{result.path} came otherwise than it lies there")
    partial.replace(target)
