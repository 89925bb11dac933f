"""The journals of an attempt's workers: which tasks were begun and how each ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from lifecycle.payload import models as p
from reconciler.attempt.paths import AttemptPaths
from reconciler.host import small_files as plain
from reconciler.sweep.marks import micros
from reconciler.sweep.place import place_of


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a task; times in microseconds since the epoch.

    ``state`` is done, failed, lost, or running where nothing was written of its end. ``job`` is the
    hash of the job whose worker began it.
    """

    started: int
    state: str = "running"
    exit_code: int | None = None
    ended: int | None = None
    why: str = ""
    job: str | None = None


def of(attempt: AttemptPaths) -> dict[int, Ran]:
    """Return the runs by the task's number; a line that was cut off says nothing."""
    found = dict[int, Ran]()
    for journal in _journals(attempt):
        job = None
        for cells in _lines(journal):
            job = cells[1] if cells[0] == "j" else job
            _fold(found, cells, job)
    return found


def told(attempt: AttemptPaths) -> list[p.FileDigest]:
    """Return what the journals are now."""
    return [_told(attempt, path, plain.content(path) or b"") for path in _journals(attempt)]


def _told(attempt: AttemptPaths, path: Path, text: bytes) -> p.FileDigest:
    own = str(path.relative_to(attempt.root))
    return p.FileDigest(path=own, size=len(text), sha256=sha256(text).hexdigest())


def edited(attempt: AttemptPaths, seen: Mapping[str, Any]) -> list[str]:
    """Return the journals that do not begin as an earlier look at the tasks saw them.

    A worker writes behind the end alone.
    """
    known = set(seen.get("edited", []))
    for one in seen.get("journals", []):
        text = plain.content(attempt.root / one["path"]) or b""
        if sha256(text[: one["size"]]).hexdigest() != one["sha256"]:
            known.add(one["path"])
    return sorted(known)


def _journals(attempt: AttemptPaths) -> list[Path]:
    return sorted(place_of(attempt).folder.glob("journal.*"))


def listed(attempt: AttemptPaths) -> Iterator[tuple[str, str, str]]:
    """Yield number, folder and assignments of each task that the attempt was given."""
    for line in plain.text(place_of(attempt).list).splitlines():
        number, folder, assignments = line.split("\t", 2)
        yield number, folder, assignments


def _lines(journal: Path) -> Iterator[list[str]]:
    whole, _, _ = plain.text(journal).rpartition("\n")
    yield from (line.split("\t") for line in whole.split("\n"))


def _fold(found: dict[int, Ran], cells: list[str], job: str | None) -> None:
    match cells:
        case ["s", number, at] if number.isdigit():
            found[int(number)] = Ran(micros(at), job=job)
        case ["e", number, state, code, at, why] if number.isdigit():
            begun = found.get(int(number), Ran(micros(at)))
            found[int(number)] = replace(
                begun, state=state, exit_code=plain.number(code), ended=micros(at), why=why
            )
