"""What is known against a log beside the log itself, kept until a person says that it is well.

The anchor is the head of a log as wfctl left it, in ``sync.json`` or in a machine's file. Each
write moves it on. Before that the log is held to the old one, and a contradiction is kept in
``.wfctl/marks.json``.
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

from eventstore.private import read_regular
from eventstore.store import EventStore, Head, Raw
from projections.words.came_about import Item
from projections.words.text import utc_seconds
from service.consent.approvals import place_of
from service.root import trust
from service.root.disk import locked, system_clock, utc_text, write_whole
from service.root.root import Root, Sync, read_sync, write_sync

if TYPE_CHECKING:
    from eventstore.verification import Finding

ANCHOR = "anchor"
SALVAGED = "salvaged"
UNCLAIMED = "unclaimed"
ANEW = "anew"
#: Events whose claims are looked for at once.
_AT_ONCE = 500
_REMEDY = "where it is as it should be, a person runs `wfctl pin --replace`"
_MACHINE = "machine-"


@dataclass(frozen=True, slots=True)
class TrustMark:
    """One thing that speaks against a log: its kind, which version it is about, when it was seen.

    ``expected`` and ``found`` are hashes; ``found`` is None if the log ends before. ``events``:
    so many were dropped by a salvage, or were not appended by wfctl.
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
        """What is said of it."""
        if self.kind == SALVAGED:
            number = "1 event" if self.events == 1 else f"{self.events or 'some'} events"
            return (
                f"the log was salvaged at {utc_seconds(self.at)}: {number} from version "
                f"{self.version} on could not be read, or stood behind one that could not, and "
                "did not come over"
            )
        if self.kind == UNCLAIMED:
            number = "1 event was" if self.events == 1 else f"{self.events} events were"
            return (
                f"{number} put into the log by something else than wfctl: no command claims "
                f"{'it' if self.events == 1 else 'them'}; `wfctl fsck` names each; {_REMEDY}"
            )
        if self.kind != ANCHOR:
            return "expected marks that wfctl wrote, found something else; put the file back"
        found = f"found {self.found}" if self.found else "the log ended before it"
        seen = f", seen {utc_seconds(self.at)}" if self.at else ""
        return (
            f"the log is not the one that wfctl left here: expected hash {self.expected}, "
            f"{found}{seen}; {_REMEDY}"
        )

    @property
    def is_finding(self) -> bool:
        """Whether a check would not see it in the log itself."""
        return self.kind not in (SALVAGED, UNCLAIMED)

    @property
    def subject(self) -> str:
        """What it is about."""
        return f"version {self.version}" if self.version is not None else "marks.json"

    def to_item(self) -> Item:
        """Return it as an item of the account."""
        return Item("log", self.subject, self.text, person=False)

    def to_finding(self) -> Finding:
        """Return it as a finding of a check."""
        from eventstore.verification import Finding  # only a check loads it

        return Finding(self.stream, self.version, None, self.kind, self.text)


@dataclass(frozen=True, slots=True)
class BegunAnew(TrustMark):
    """Another log was in the root before this one: which, and how it stood; ``at``: this one began.

    It is what this login remembers outside of the root.
    """

    was: trust.Known | None = None

    @property
    def text(self) -> str:
        """What is said of it."""
        if self.was is None:
            return ""
        old = self.was
        return (
            f"the log was begun anew at {utc_seconds(self.at)}: before it this login wrote "
            f"{old.stream} here, begun at {utc_seconds(old.began)}; from {utc_seconds(old.at)} on, "
            f"version {old.version}, hash {old.hash}, it stood so: {old.stood}; {_REMEDY}"
        )

    @property
    def subject(self) -> str:
        """The log that was there before."""
        return str(self.stream)


def marks_of(root: Root, store: EventStore, stream: str) -> list[TrustMark]:
    """Return what speaks against a log: what is kept, and what its anchor says now."""
    anchor = read_sync(anchor_file(root, stream)).head
    against = _against(store, stream, anchor)
    return [*kept(root, stream), *begun_anew(root, store, stream), *against]


def begun_anew(root: Root, store: EventStore, stream: str) -> Iterator[BegunAnew]:
    """Yield the logs that this login wrote in the root before this one."""
    first = next(store.raw(stream, upto=1), None)
    if first is None:
        return
    for old in trust.earlier(root.path, place_of(stream), first.hash):
        yield BegunAnew(ANEW, old.stream, old.version, _began(first), old.hash, was=old)


def _began(first: Raw) -> str:
    """Return when the first event was recorded; its text holds the whole plan and is long."""
    try:
        return str(orjson.loads(first.text)["recorded_at"])
    except (ValueError, KeyError, TypeError):
        return ""  # anyone who reads the log comes upon it


def kept(root: Root, stream: str) -> list[TrustMark]:
    """Return the marks that are kept of a log."""
    return [one for one in _read(root) if one.stream in (stream, None)]


def anchor_file(root: Root, stream: str) -> Path:
    """Return the file that keeps the anchor of a log."""
    if stream.startswith(_MACHINE):
        return root.folder / "machines" / f"{stream.removeprefix(_MACHINE)}.json"
    return root.sync_file


def move_anchor(
    root: Root, store: EventStore, stream: str, before: Sync, sync: Sync, stood: str
) -> None:
    """Write what is known of the files, with the log's head as the anchor, in place of ``before``.

    What the anchor of before contradicts is kept first; outside of the root, that the log stands
    as ``stood`` says. The root's lock is held.
    """
    head = store.head(stream)
    keep_contradiction(root, store, stream, before)
    if head is not None:
        _remember(root, store, stream, head, stood)
    new = replace(sync, head=_anchor(stream, head))
    if new != before:
        path = anchor_file(root, stream)
        path.parent.mkdir(exist_ok=True)
        write_sync(path, new)


def _anchor(stream: str, head: Head | None) -> dict[str, Any]:
    return {"stream": stream, "version": head.version, "hash": head.hash} if head else {}


def _remember(root: Root, store: EventStore, stream: str, head: Head, stood: str) -> None:
    """Keep outside of the root how a log stands, if that has changed."""
    first = next(store.raw(stream, upto=1), None)
    if first is None:
        return

    def known() -> trust.Known:
        at, began = utc_text(system_clock()), _began(first)
        return trust.Known(stream, first.hash, began, head.version, head.hash, at, stood)

    trust.keep(root.path, place_of(stream), first.hash, stood, known)


def keep_contradiction(root: Root, store: EventStore, stream: str, before: Sync) -> None:
    """Keep what speaks against a log since its anchor, if anything; the root's lock is held."""
    for one in _against(store, stream, before.head):
        known = _read(root)
        if all(replace(one, at=old.at) != old for old in known):
            _write(root, [*known, replace(one, at=utc_text(system_clock()))])


def keep_salvage(
    root: Root, store: EventStore, lost: Mapping[str, tuple[int, int | None]], now: datetime
) -> None:
    """Keep of each stream that a salvage cut where and by how much; the log is as it was still.

    What an anchor contradicts is kept too. The anchors are of the old log, and go.
    """
    with locked(root.lock):
        for stream in {*store.streams(), *lost}:
            path = anchor_file(root, stream)
            sync = read_sync(path)
            keep_contradiction(root, store, stream, sync)
            if sync.head.get("stream") == stream:
                write_sync(path, replace(sync, head={}))
        at = utc_text(now)
        new = [TrustMark(SALVAGED, s, v, at, events=number) for s, (v, number) in lost.items()]
        if new:
            _write(root, [*_read(root), *new])


def agree(root: Root, store: EventStore, stream: str) -> None:
    """Take a log for the right one, as a person said: its marks go, its anchor is its head."""
    with locked(root.lock):
        marks = _read(root)
        left = [one for one in marks if one.kind == SALVAGED or one.stream not in (stream, None)]
        if left != marks:
            _write(root, left)
        first = next(store.raw(stream, upto=1), None)
        trust.forget_earlier(root.path, place_of(stream), first.hash if first else "")
        path, head = anchor_file(root, stream), store.head(stream)
        sync = read_sync(path)
        if sync.head and head is not None:
            write_sync(path, replace(sync, head=_anchor(stream, head)))


def _against(store: EventStore, stream: str, anchor: dict[str, Any]) -> Iterator[TrustMark]:
    """Yield what its anchor contradicts of a log, and what nobody of ours appended since.

    What stands before the anchor was looked at when the anchor was moved there.
    """
    after = 0
    if anchor.get("stream") == stream:
        after, expected = anchor["version"], anchor["hash"]
        row = next(store.raw(stream, after=after - 1, upto=after), None)
        found = row.hash if row is not None else None
        if found != expected:
            yield TrustMark(ANCHOR, stream, after, None, expected, found)
    versions = list(_unclaimed(store, stream, after))
    if versions:
        yield TrustMark(UNCLAIMED, stream, versions[0], None, events=len(versions))


def _unclaimed(store: EventStore, stream: str, after: int) -> Iterator[int]:
    rows = store.raw(stream, after=after)
    while some := list(islice(rows, _AT_ONCE)):
        from eventstore.verification import covers  # mostly nothing follows the anchor

        commands = [named for named in map(_command, some) if named is not None]
        spans = store.spans(sorted({command for command, _ in commands}))
        for command, version in commands:
            if not covers(spans.get(command), stream, version):
                yield version


def _command(row: Raw) -> tuple[str, int] | None:
    """Return the command and the version of an event; None if its text is no envelope."""
    try:
        body = orjson.loads(row.text)
        return str(body["command_id"]), int(body["version"])
    except (ValueError, KeyError, TypeError):
        return None  # anyone who reads the log comes upon it


def _place(root: Root) -> Path:
    return root.folder / "marks.json"


def _read(root: Root) -> list[TrustMark]:
    try:
        return [_mark(one) for one in orjson.loads(read_regular(_place(root)))["marks"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        return [TrustMark("unreadable_marks", None, None, None)]


def _mark(kept: dict[str, Any]) -> TrustMark:
    """Return what is kept of a mark; raises TypeError where somebody wrote other things."""
    found = TrustMark(**kept)
    values = asdict(found)
    numbers = {"version", "events"}
    if not isinstance(values["kind"], str) or not all(
        one is None or type(one) is (int if name in numbers else str)
        for name, one in values.items()
    ):
        raise TypeError
    return found


def _write(root: Root, marks: Iterable[TrustMark]) -> None:
    content = json.dumps({"format": 1, "marks": [asdict(one) for one in marks]}, indent=1)
    write_whole(_place(root), content.encode() + b"\n")
