"""Reading a ``progress.log`` of somebody else's: entries, and what each of them says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

from lifecycle.state.status import Status
from service.adoption.state_file import TypedTime, parse_time

_BRACKET = re.compile(r"\[([^\]]*)\] ?(.*)", re.DOTALL)
_STAGE = re.compile(r"(stage-[1-9][0-9]*)\b(?: \(.*?\))?:?(.*)", re.ASCII | re.DOTALL)
#: What stands behind the name of a stage: without it the line only begins with the same words.
_BEHIND = re.compile(r"(?: \(.*?\))?(?::|(?= retry #))(.*)", re.ASCII | re.DOTALL)
_STATUS = re.compile(r"\bstatus\s*(?:->|→|=>)\s*([A-Za-z_]+)")
_RETRY = re.compile(r" retry #(\d{1,4})\b", re.ASCII)
_SESSION = re.compile(r"Session (\d{1,6}) started\b", re.ASCII)
_WORDS = frozenset(Status)


@dataclass(frozen=True, slots=True)
class LogEntry:
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


def read_entries(
    content: bytes, zone: tzinfo | None, stages: Sequence[dict[str, Any]] = ()
) -> list[LogEntry]:
    """Return the entries of a log; ``zone`` holds for times without offset (None: local).

    ``stages`` are those of the state: a line may begin with the id of one, or with its name.
    """
    known = _known(stages)
    lines = content.split(b"\n")
    torn = lines.pop() if lines else b""
    entries: list[LogEntry] = []
    for number, line in enumerate([*lines, *([torn] if torn else [])], 1):
        if entries and not line.strip():
            entries[-1] = replace(entries[-1], raw=(*entries[-1].raw, line))
        else:
            entries.append(_entry(number, line, zone, known))
    if torn:
        entries[-1] = replace(entries[-1], ended=False)
    return entries


def _known(stages: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return by what a line may call a stage its id, longest first: ids, and names of one alone."""
    names = [str(stage.get("name") or "") for stage in stages]
    alone = {n: str(s["id"]) for n, s in zip(names, stages, strict=True) if names.count(n) == 1}
    known = alone | {str(stage["id"]): str(stage["id"]) for stage in stages}
    return {word: known[word] for word in sorted(known, key=len, reverse=True) if word}


def _entry(number: int, line: bytes, zone: tzinfo | None, known: Mapping[str, str]) -> LogEntry:
    text = line.decode("utf-8", "backslashreplace").strip()
    bracket = _BRACKET.fullmatch(text)
    time = parse_time(bracket[1], zone) if bracket else None
    if bracket and time is not None:
        text = bracket[2]
    return _said(LogEntry(number, (line,), text, time), known)


def _said(entry: LogEntry, known: Mapping[str, str]) -> LogEntry:
    session = _SESSION.match(entry.text)
    if session:
        return replace(entry, session=int(session[1]))
    if entry.text.startswith("Workflow completed"):
        return replace(entry, workflow_completed=True)
    found = _of_stage(entry.text, known)
    if found is None:
        return entry
    stage, said = found
    words = _STATUS.findall(said)
    retry = _RETRY.match(said)
    return replace(
        entry,
        stage=stage,
        statuses=tuple(Status(word) for word in words if word in _WORDS),
        unknown=tuple(word for word in words if word not in _WORDS),
        retry=int(retry[1]) if retry else None,
    )


def _of_stage(text: str, known: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the stage that a line is about, and what the line says of it; None for no stage."""
    numbered = _STAGE.match(text)
    if numbered is not None and (numbered[1] in known or not known):
        return numbered[1], numbered[2]
    for word, stage in known.items():
        said = _BEHIND.match(text, len(word)) if text.startswith(word) else None
        if said is not None:
            return stage, said[1]
    return (numbered[1], numbered[2]) if numbered is not None else None


def runs(entries: Sequence[LogEntry]) -> list[list[LogEntry]]:
    """Return the entries with neighbours joined that say the same of a poll."""
    found: list[list[LogEntry]] = []
    for entry in entries:
        if found and entry.is_polling and _alike(found[-1][-1], entry):
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def _alike(before: LogEntry, entry: LogEntry) -> bool:
    return (before.stage, before.text) == (entry.stage, entry.text)


def common_start(before: Sequence[LogEntry], now: Sequence[LogEntry]) -> int:
    """Return how many entries two versions of a log have in common from the first on."""
    count = 0
    for one, other in zip(before, now, strict=False):
        if one.raw != other.raw:
            break
        count += 1
    return count
