"""What others did to a machine's files since they were written: looked at, nothing recorded."""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from lifecycle.machines.machine import Document, Machine
from lifecycle.payload.base import Payload
from lifecycle.payload.workflow import DriftDetected
from projections.machines.documents import rendered
from service.files.drift import LISTED, keep, kept_before, recordable
from service.machines.log import MachineLog, folder_of, is_writer
from service.machines.writers.amounts import Amounts, amounts
from service.root.disk import Clock, system_clock, utc_text
from service.root.root import Root
from service.root.safe_open import content_within
from service.root.sync import Synced, digest, read_sync

#: Letters of a rule that a drift says.
_SAID = 300


def found_in(
    root: Root,
    log: MachineLog,
    state: Machine,
    path: str,
    left: Synced | None,
    found: bytes | None,
    now: str,
) -> Amounts | None:
    """Return what a file that somebody else changed amounts to, None where it cannot be read."""
    document, base = decoded(found), decoded(_base(root, log, state, path, left))
    if document is None or base is None or rendered(state)[path].startswith(found or b""):
        return None
    return amounts(root.path, state, path, base, document, now)


def _base(root: Root, log: MachineLog, state: Machine, path: str, left: Synced | None) -> bytes:
    """Return the file as it was left here: as the log had it then, or as an import found it."""
    if left is None:
        return rendered(state)[path]
    # A log that was cut short since then has it at its end at best.
    then = log.state(min(left.version, state.head)) if left.version else None
    shown = rendered(then).get(path, b"") if then is not None else b""
    if digest(shown) == left.sha256:
        return shown
    return kept_before(root, kept_name(state, path), left.sha256) or shown or rendered(state)[path]


def kept_name(state: Machine, path: str) -> str:
    """Return the name under which a foreign version of a file is kept."""
    return f"{state.id}.{path.rpartition('/')[2]}"


def decoded(found: bytes | None) -> Document | None:
    """Return a JSON object, None for anything else."""
    try:
        value = json.loads(found or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def drift(
    root: Root,
    state: Machine,
    path: str,
    base: int,
    found: bytes | None,
    known: Amounts | None,
) -> DriftDetected:
    """Keep the foreign bytes and say what is left of them, field by field, with the rules."""
    if found is None:
        return DriftDetected(file=path, kind="missing", base=base)
    sha = digest(found)
    if rendered(state)[path].startswith(found):
        return DriftDetected(file=path, kind="truncated", base=base, found_sha256=sha)
    listed = told(known) if known is not None else []
    return DriftDetected(
        file=path,
        kind="unreadable" if decoded(found) is None else "changed",
        base=base,
        kept_as=keep(root, kept_name(state, path), found),
        found_sha256=sha,
        differences=listed[:LISTED],
        more=max(len(listed) - LISTED, 0),
    )


def told(known: Amounts) -> list[dict[str, Any]]:
    """Return what is not taken over, field by field, each with the rule that does not allow it."""
    return [
        {**recordable(one), "rule": rule[:_SAID]}
        for one, rule in zip(known.left, known.rules, strict=True)
    ]


@dataclass(slots=True)
class Shown:
    """What the files may have shown since they were last noted, by path: digests."""

    state: Machine | None = None
    written: dict[str, set[str]] = field(default_factory=dict)
    detected: dict[str, set[str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeftForeign:
    """A foreign version of a file that is not taken over, or not all of it."""

    path: str
    found: bytes | None
    base: int
    known: Amounts | None


@dataclass(slots=True)
class News:
    """What others did to the files: by file the events that it amounts to, and what is left."""

    state: Machine
    head: int = 0
    taken: dict[str, list[tuple[Payload, str]]] = field(default_factory=dict)
    left: list[LeftForeign] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many files there is something to record of."""
        return len(self.taken) + len(self.left)

    def add(self, path: str, found: bytes | None, base: int, known: Amounts | None) -> None:
        """Take in what one file amounts to."""
        if known is None or known.left:
            self.left.append(LeftForeign(path, found, base, known))
        if known is not None and known.taken:
            self.taken[path] = known.taken
            self.state = known.state


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The machine as the next write would find it, what that would record, and what is left."""

    state: Machine
    taken: list[Payload] = field(default_factory=list)
    left: list[LeftForeign] = field(default_factory=list)


class FilesLook:
    """Looks at the files of one machine in one root."""

    def __init__(self, root: Root, log: MachineLog, clock: Clock = system_clock) -> None:
        self.root = root
        self.log = log
        self._clock = clock
        self.sync_file = folder_of(root) / f"{log.machine}.json"

    def contents(self, state: Machine) -> dict[str, bytes | None]:
        """Return what each of the files holds now."""
        return {path: content_within(self.root.path, path) for path in rendered(state)}

    def news(
        self, contents: dict[str, bytes | None], taken: Container[bytes | None] = frozenset()
    ) -> News:
        """Return what to record of the files before they are written.

        ``taken`` are versions of files that were taken over already.
        """
        sync = read_sync(self.sync_file)
        shown = self._shown(min((left.version for left in sync.files.values()), default=0))
        news = News(shown.state or self.log.current())
        news.head = news.state.head
        now = utc_text(self._clock())
        # A phase may ask for its tasks, and their file comes last.
        for path, found in reversed(contents.items()):
            left = sync.files.get(path)
            is_news = found not in taken
            if is_news and not _is_ours(shown, path, left, rendered(news.state)[path], found):
                known = found_in(self.root, self.log, news.state, path, left, found, now)
                news.add(path, found, left.version if left is not None else 0, known)
        return news

    def foreseen(self) -> Foreseen:
        """Return what the next write would make of the files, without recording anything."""
        state = self.log.current()
        if not is_writer(self.root, self.log.store, state):
            return Foreseen(state)
        news = self.news(self.contents(state))
        taken = [payload for listed in news.taken.values() for payload, _ in listed]
        # What a caller expects is a version of the log.
        ahead = news.state.draft()
        ahead.head = state.head
        return Foreseen(ahead if taken else state, taken, news.left)

    def _shown(self, after: int) -> Shown:
        shown, head = Shown(), self.log.store.head(self.log.stream)
        if head is None or after >= head.version:
            return shown  # nothing came since, or the log was cut short
        for event, state in self.log.steps(after):
            for path, content in rendered(state).items():
                shown.written.setdefault(path, set()).add(digest(content))
            if event.type == "drift.detected":
                known = shown.detected.setdefault(event.data["file"], set())
                known.add(event.data["found_sha256"])
            shown.state = state
        return shown


def _is_ours(
    shown: Shown, path: str, left: Synced | None, expected: bytes, found: bytes | None
) -> bool:
    if found is None:
        return left is None or None in shown.detected.get(path, set())
    sha = digest(found)
    if left is not None and left.sha256 == sha:
        return True
    known = shown.written.get(path, set()) | shown.detected.get(path, set())
    return found == expected or sha in known


def is_as_imported(state: Machine, left: Synced | None, found: bytes | None) -> bool:
    """Whether a file is as an import found it, and nothing was recorded since: it stays so."""
    is_source = left is not None and left.version == 0 and state.head == 1
    return is_source and found is not None and left is not None and digest(found) == left.sha256
