"""The journals of an attempt's workers: which tasks were begun and how each ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.attempt.paths import Attempt
from reconciler.host import small_files as plain
from reconciler.sweep.marks import micros
from reconciler.sweep.place import place_of


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a task; times in microseconds since the epoch.

    ``state`` is done, failed, lost, or running where nothing was written of its end.
    """

    started: int
    state: str = "running"
    exit_code: int | None = None
    ended: int | None = None
    why: str = ""


def of(attempt: Attempt) -> dict[int, Ran]:
    """Return the runs by the task's number; a line that was cut off says nothing."""
    place, found = place_of(attempt), dict[int, Ran]()
    for journal in sorted(place.folder.glob("journal.*")):
        for cells in _lines(journal):
            _fold(found, cells)
    return found


def _lines(journal: Path) -> Iterator[list[str]]:
    whole, _, _ = plain.text(journal).rpartition("\n")
    yield from (line.split("\t") for line in whole.split("\n"))


def _fold(found: dict[int, Ran], cells: list[str]) -> None:
    match cells:
        case ["s", number, at] if number.isdigit():
            found[int(number)] = Ran(micros(at))
        case ["e", number, state, code, at, why] if number.isdigit():
            begun = found.get(int(number), Ran(micros(at)))
            found[int(number)] = replace(
                begun, state=state, exit_code=plain.number(code), ended=micros(at), why=why
            )
