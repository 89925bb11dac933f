"""Reading a ``progress.log`` of somebody else's: entries, and what each of them says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo

from lifecycle.status import Status
from service.adoption.typed_time import TypedTime, parse_time

_BRACKET = re.compile(r"\[([^\]]*)\] ?(.*)", re.DOTALL)
_STAGE = re.compile(r"(stage-[1-9][0-9]*)\b(?: \(.*?\))?:?(.*)", re.ASCII | re.DOTALL)
_STATUS = re.compile(r"\bstatus\s*(?:->|→|=>)\s*([A-Za-z_]+)")
_RETRY = re.compile(r" retry #(\d{1,4})\b", re.ASCII)
_SESSION = re.compile(r"Session (\d{1,6}) started\b", re.ASCII)
_WORDS = frozenset(Status)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: where it stands, its bytes, its time, and what it says.

    ``line`` counts from 1. ``raw`` are the lines without their newlines: a blank line belongs to
    the entry before it. ``unknown`` are words that stand where a status should.
    """

    line: int
    raw: tuple[bytes, ...]
    text: str
    time: TypedTime | None = None
    stage: str | None = None
    statuses: tuple[Status, ...] = ()
    unknown: tuple[str, ...] = ()
    retry: int | None = None
    session: int | None = None
    workflow_completed: bool = False
    ended: bool = True

    @property
    def is_polling(self) -> bool:
        """Whether it only says that somebody looked."""
        return self.stage is not None and re.search(r": polling\b", self.text) is not None


def read_entries(content: bytes, zone: tzinfo | None) -> list[Entry]:
    """Return the entries of a log; ``zone`` holds for times without offset (None: local)."""
    lines = content.split(b"\n")
    torn = lines.pop() if lines else b""
    entries: list[Entry] = []
    for number, line in enumerate([*lines, *([torn] if torn else [])], 1):
        if entries and not line.strip():
            entries[-1] = replace(entries[-1], raw=(*entries[-1].raw, line))
        else:
            entries.append(_entry(number, line, zone))
    if torn:
        entries[-1] = replace(entries[-1], ended=False)
    return entries


def _entry(number: int, line: bytes, zone: tzinfo | None) -> Entry:
    text = line.decode("utf-8", "backslashreplace").strip()
    bracket = _BRACKET.fullmatch(text)
    time = parse_time(bracket[1], zone) if bracket else None
    if bracket and time is not None:
        text = bracket[2]
    return _said(Entry(number, (line,), text, time))


def _said(entry: Entry) -> Entry:
    """Return the entry with what its text says."""
    session = _SESSION.match(entry.text)
    if session:
        return replace(entry, session=int(session[1]))
    if entry.text.startswith("Workflow completed"):
        return replace(entry, workflow_completed=True)
    found = _STAGE.match(entry.text)
    if found is None:
        return entry
    words = _STATUS.findall(found[2])
    retry = _RETRY.match(found[2])
    return replace(
        entry,
        stage=found[1],
        statuses=tuple(Status(word) for word in words if word in _WORDS),
        unknown=tuple(word for word in words if word not in _WORDS),
        retry=int(retry[1]) if retry else None,
    )


def runs(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the entries with neighbours joined that say the same of a poll."""
    found: list[list[Entry]] = []
    for entry in entries:
        if found and entry.is_polling and _alike(found[-1][-1], entry):
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def _alike(before: Entry, entry: Entry) -> bool:
    return (before.stage, before.text) == (entry.stage, entry.text)


def common_start(before: Sequence[Entry], now: Sequence[Entry]) -> int:
    """Return how many entries two versions of a log have in common from the first on."""
    count = 0
    for one, other in zip(before, now, strict=False):
        if one.raw != other.raw:
            break
        count += 1
    return count
