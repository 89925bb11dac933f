"""Evidence against a log outside the log itself, kept until a person accepts the log.

The anchor is the head of a log when wfctl last wrote it, in ``sync.json`` or in a machine's file.
Each write moves the anchor. Before that, the log is compared with the old anchor, and a
contradiction is kept in ``.wfctl/marks.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from eventstore.private_files import read_regular
from eventstore.store import EventStore, Head, Raw
from projections.words.result_origin import Item
from projections.words.text import utc_seconds
from service.consent.approvals import place_of
from service.root import trust
from service.root.atomic_files import hold_lock, system_clock, utc_text, write_whole
from service.root.root import Root, Sync, read_sync, write_sync

if TYPE_CHECKING:
    from eventstore.verification import Finding

ANCHOR = "anchor"
SALVAGED = "salvaged"
UNCLAIMED = "unclaimed"
ANEW = "anew"
#: Number of events whose claims are read together.
_AT_ONCE = 500
_REMEDY = "if this log is the right one, a person runs `wfctl pin --replace`"
_MACHINE = "machine-"


@dataclass(frozen=True, slots=True)
class TrustMark:
    """A piece of evidence against a log: its kind, its version, and when it was seen.

    ``expected`` and ``found`` are hashes; ``found`` is None if the log ends before. ``events`` is
    the number of events that a salvage dropped or that wfctl did not append.
    """

    kind: str
    stream: str | None
    version: int | None
    at: str | None
    expected: str | None = None
    found: str | None = None
    events: int | None = None

    @property
    def text(self) -> str:
        """Return the evidence as a sentence."""
        if self.kind == SALVAGED:
            number = "1 event" if self.events == 1 else f"{self.events or 'some'} events"
            return (
                f"the log was salvaged at {utc_seconds(self.at)}: {number} from version "
                f"{self.version} on could not be read, or followed an unreadable event, and "
                "were left out"
            )
        if self.kind == UNCLAIMED:
            number = "1 event was" if self.events == 1 else f"{self.events} events were"
            return (
                f"{number} added to the log by a program other than wfctl: no command belongs "
                f"to {'it' if self.events == 1 else 'them'}. `wfctl fsck` lists each; "
                f"{_REMEDY}"
            )
        if self.kind != ANCHOR:
            return "marks.json was not written by wfctl; restore the file"
        found = f"found {self.found}" if self.found else "the log ends before this version"
        seen = f", seen {utc_seconds(self.at)}" if self.at else ""
        return (
            f"the log changed since wfctl last wrote it: expected hash {self.expected}, "
            f"{found}{seen}. {_REMEDY}"
        )

    @property
    def is_finding(self) -> bool:
        """Return whether a check of the log itself would miss the evidence."""
        return self.kind not in (SALVAGED, UNCLAIMED)

    @property
    def subject(self) -> str:
        """Return the version or the file that the evidence is about."""
        return f"version {self.version}" if self.version is not None else "marks.json"

    def to_item(self) -> Item:
        """Return the evidence as an item of the account."""
        return Item("log", self.subject, self.text, person=False)

    def to_finding(self) -> Finding:
        """Return the evidence as a finding of a check."""
        from eventstore.verification import Finding  # needed only for a check

        return Finding(self.stream, self.version, None, self.kind, self.text)


@dataclass(frozen=True, slots=True)
class ReplacedLogMark(TrustMark):
    """Another log was in the root before this one. ``at`` is the start of this one.

    This user account remembers the earlier log outside the root.
    """

    was: trust.KnownLog | None = None

    @property
    def text(self) -> str:
        """Return the evidence as a sentence."""
        if self.was is None:
            return ""
        old = self.was
        return (
            f"this log replaced another one on {utc_seconds(self.at)}: {old.stream}, created "
            f"{utc_seconds(old.began)}, last seen {utc_seconds(old.at)} at version {old.version} "
            f"(hash {old.hash}) with the state: {old.stood}; {_REMEDY}"
        )

    @property
    def subject(self) -> str:
        """Return the earlier log."""
        return str(self.stream)


def find_marks(root: Root, store: EventStore, stream: str) -> list[TrustMark]:
    """Return the evidence against a log: kept marks, replaced logs, and the anchor."""
    anchor = read_sync(anchor_file(root, stream)).head
    against = _find_contradictions(store, stream, anchor)
    return [*read_marks(root, stream), *find_replaced_logs(root, store, stream), *against]


def find_replaced_logs(root: Root, store: EventStore, stream: str) -> Iterator[ReplacedLogMark]:
    """Yield the logs that this user account wrote in the root before this one."""
    first = next(store.raw(stream, upto=1), None)
    if first is None:
        return
    for old in trust.list_earlier_logs(root.path, place_of(stream), first.hash):
        yield ReplacedLogMark(
            ANEW, old.stream, old.version, _recorded_time(first), old.hash, was=old
        )


def _recorded_time(first: Raw) -> str:
    """Return when the first event was recorded, or an empty result if its text is damaged."""
    try:
        return str(orjson.loads(first.text)["recorded_at"])
    except (ValueError, KeyError, TypeError):
        return ""  # every reader of the log finds the damage


def read_marks(root: Root, stream: str) -> list[TrustMark]:
    """Return the kept marks of a log."""
    return [one for one in _read_marks(root) if one.stream in (stream, None)]


def anchor_file(root: Root, stream: str) -> Path:
    """Return the file with the anchor of a log."""
    if stream.startswith(_MACHINE):
        return root.folder / "machines" / f"{stream.removeprefix(_MACHINE)}.json"
    return root.sync_file


def move_anchor(
    root: Root, store: EventStore, stream: str, before: Sync, sync: Sync, stood: str
) -> None:
    """Write the state of the files with the log's head as anchor, which replaces ``before``.

    Keeps contradictions to the old anchor first, and remembers outside the root that the log has
    the state ``stood``. The caller holds the root's lock.
    """
    head = store.head(stream)
    keep_contradiction(root, store, stream, before)
    if head is not None:
        _remember_log(root, store, stream, head, stood)
    new = replace(sync, head=_anchor_of(stream, head))
    if new != before:
        path = anchor_file(root, stream)
        path.parent.mkdir(exist_ok=True)
        write_sync(path, new)


def _anchor_of(stream: str, head: Head | None) -> dict[str, Any]:
    """Return the anchor for a head of a stream."""
    return {"stream": stream, "version": head.version, "hash": head.hash} if head else {}


def _remember_log(root: Root, store: EventStore, stream: str, head: Head, stood: str) -> None:
    """Remember the state of a log outside the root if it changed."""
    first = next(store.raw(stream, upto=1), None)
    if first is None:
        return

    def known() -> trust.KnownLog:
        at, began = utc_text(system_clock()), _recorded_time(first)
        return trust.KnownLog(stream, first.hash, began, head.version, head.hash, at, stood)

    trust.remember_log_state(root.path, place_of(stream), first.hash, stood, known)


def keep_contradiction(root: Root, store: EventStore, stream: str, before: Sync) -> None:
    """Keep the evidence against a log since its anchor, if any. The caller holds the lock."""
    for one in _find_contradictions(store, stream, before.head):
        known = _read_marks(root)
        if all(replace(one, at=old.at) != old for old in known):
            _write_marks(root, [*known, replace(one, at=utc_text(system_clock()))])


def keep_salvage(
    root: Root, store: EventStore, lost: Mapping[str, tuple[int, int | None]], now: datetime
) -> None:
    """Keep, for each stream that a salvage cut, the first lost version and their number.

    Also keeps contradictions to the anchors, then removes the anchors, which belong to the old log.
    Call this before the log is replaced.
    """
    with hold_lock(root.lock):
        for stream in {*store.streams(), *lost}:
            path = anchor_file(root, stream)
            sync = read_sync(path)
            keep_contradiction(root, store, stream, sync)
            if sync.head.get("stream") == stream:
                write_sync(path, replace(sync, head={}))
        at = utc_text(now)
        new = [TrustMark(SALVAGED, s, v, at, events=number) for s, (v, number) in lost.items()]
        if new:
            _write_marks(root, [*_read_marks(root), *new])


def accept_log(root: Root, store: EventStore, stream: str) -> None:
    """Accept a log on a person's request: remove its marks, and anchor its head."""
    with hold_lock(root.lock):
        marks = _read_marks(root)
        left = [one for one in marks if one.kind == SALVAGED or one.stream not in (stream, None)]
        if left != marks:
            _write_marks(root, left)
        first = next(store.raw(stream, upto=1), None)
        trust.forget_earlier(root.path, place_of(stream), first.hash if first else "")
        path, head = anchor_file(root, stream), store.head(stream)
        sync = read_sync(path)
        if sync.head and head is not None:
            write_sync(path, replace(sync, head=_anchor_of(stream, head)))


def _find_contradictions(
    store: EventStore, stream: str, anchor: dict[str, Any]
) -> Iterator[TrustMark]:
    """Yield contradictions to the anchor, and events after it that wfctl did not append.

    Events before the anchor were checked when the anchor was moved.
    """
    after = 0
    if anchor.get("stream") == stream:
        after, expected = anchor["version"], anchor["hash"]
        row = next(store.raw(stream, after=after - 1, upto=after), None)
        found = row.hash if row is not None else None
        if found != expected:
            yield TrustMark(ANCHOR, stream, after, None, expected, found)
    versions = list(_find_unclaimed_events(store, stream, after))
    if versions:
        yield TrustMark(UNCLAIMED, stream, versions[0], None, events=len(versions))


def _find_unclaimed_events(store: EventStore, stream: str, after: int) -> Iterator[int]:
    """Yield the versions of events that no command of wfctl appended."""
    rows = store.raw(stream, after=after)
    while some := list(islice(rows, _AT_ONCE)):
        from eventstore.verification import is_covered_by  # usually no events follow the anchor

        commands = [named for named in map(_command_of, some) if named is not None]
        spans = store.spans(sorted({command for command, _ in commands}))
        for command, version in commands:
            if not is_covered_by(spans.get(command), stream, version):
                yield version


def _command_of(row: Raw) -> tuple[str, int] | None:
    """Return the command and the version of an event, or None if its text is damaged."""
    try:
        body = orjson.loads(row.text)
        return str(body["command_id"]), int(body["version"])
    except (ValueError, KeyError, TypeError):
        return None  # every reader of the log finds the damage


def _marks_file(root: Root) -> Path:
    return root.folder / "marks.json"


def _read_marks(root: Root) -> list[TrustMark]:
    try:
        return [_parse_mark(one) for one in orjson.loads(read_regular(_marks_file(root)))["marks"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        return [TrustMark("unreadable_marks", None, None, None)]


def _parse_mark(kept: dict[str, Any]) -> TrustMark:
    """Return the mark of a stored entry. Raises TypeError for malformed entries."""
    found = TrustMark(**kept)
    values = asdict(found)
    numbers = {"version", "events"}
    if not isinstance(values["kind"], str) or not all(
        one is None or type(one) is (int if name in numbers else str)
        for name, one in values.items()
    ):
        raise TypeError
    return found


def _write_marks(root: Root, marks: Iterable[TrustMark]) -> None:
    content = json.dumps({"format": 1, "marks": [asdict(one) for one in marks]}, indent=1)
    write_whole(_marks_file(root), content.encode() + b"\n")
