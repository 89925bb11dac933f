"""Evidence that a log was changed, kept outside the log until a person accepts the log.

The anchor is the version and hash of the last event when wfctl last wrote the log. It is stored in
``sync.json``, or in a file of the machine. Each write command compares the log with the anchor,
stores any contradiction in ``.wfctl/marks.json``, and then replaces the anchor.
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

from eventstore.regular_files import read_regular
from eventstore.store import EventStore, Head, RawEvent
from projections.words.result_origin import AttentionItem
from projections.words.text import truncate_utc_to_seconds
from service.consent.approvals import folder_part_of_stream
from service.root import trust
from service.root.atomic_files import hold_lock, system_clock, utc_text, write_whole
from service.root.root import Root
from service.root.sync_record import Sync, read_sync, write_sync

if TYPE_CHECKING:
    from eventstore.verification import Finding

ANCHOR = "anchor"
SALVAGED = "salvaged"
UNCLAIMED = "unclaimed"
ANEW = "anew"
#: Number of events to check together.
_AT_ONCE = 500
_REMEDY = "if this log is the right one, a person runs `wfctl pin --replace`"
_MACHINE = "machine-"


@dataclass(frozen=True, slots=True)
class TamperEvidence:
    """Evidence that a log was changed: its kind, its version, and the time of detection.

    ``expected`` and ``found`` are hashes. ``found`` is None if the log is shorter. ``events`` is
    the number of events that were lost in a salvage, or that wfctl did not append.
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
        """Return a sentence that describes the evidence."""
        if self.kind == SALVAGED:
            number = "1 event" if self.events == 1 else f"{self.events or 'some'} events"
            at = truncate_utc_to_seconds(self.at)
            return (
                f"the log was salvaged at {at}: {number} from version "
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
        seen = f", seen {truncate_utc_to_seconds(self.at)}" if self.at else ""
        return (
            f"the log changed since wfctl last wrote it: expected hash {self.expected}, "
            f"{found}{seen}. {_REMEDY}"
        )

    @property
    def is_invisible_to_log_check(self) -> bool:
        """Return whether a check of the log alone cannot find this evidence."""
        return self.kind not in (SALVAGED, UNCLAIMED)

    @property
    def subject(self) -> str:
        """Return the version or the file that the evidence concerns."""
        return f"version {self.version}" if self.version is not None else "marks.json"

    def to_item(self) -> AttentionItem:
        """Return the evidence as an item for the list of things that need attention."""
        return AttentionItem("log", self.subject, self.text, person=False)

    def to_finding(self) -> Finding:
        """Return the evidence as a finding of a log check."""
        from eventstore.verification import Finding  # needed only for a check

        return Finding(self.stream, self.version, None, self.kind, self.text)


@dataclass(frozen=True, slots=True)
class ReplacedLogMark(TamperEvidence):
    """Evidence that another log was in this folder before.

    ``at`` is the start of the current log. This user account remembers the earlier log in a file
    outside the folder.
    """

    was: trust.KnownLog | None = None

    @property
    def text(self) -> str:
        """Return a sentence that describes the earlier log."""
        if self.was is None:
            return ""
        old = self.was
        at, began, seen = map(truncate_utc_to_seconds, (self.at, old.began, old.at))
        return (
            f"this log replaced another one on {at}: {old.stream}, created {began}, "
            f"last seen {seen} at version {old.version} "
            f"(hash {old.hash}) with the state: {old.stood}; {_REMEDY}"
        )

    @property
    def subject(self) -> str:
        """Return the name of the earlier log's stream."""
        return str(self.stream)


def find_tamper_evidence(root: Root, store: EventStore, stream: str) -> list[TamperEvidence]:
    """Return all evidence that a log was changed or replaced.

    It includes stored evidence, earlier logs in this folder, and new contradictions.
    """
    anchor = read_sync(anchor_file(root, stream)).head
    against = _find_contradictions(store, stream, anchor)
    return [*read_stored_evidence(root, stream), *find_replaced_logs(root, store, stream), *against]


def find_replaced_logs(root: Root, store: EventStore, stream: str) -> Iterator[ReplacedLogMark]:
    """Yield an entry for each log of this account that was in this folder before."""
    first = next(store.raw(stream, upto=1), None)
    if first is None:
        return
    for old in trust.list_earlier_logs(root.path, folder_part_of_stream(stream), first.hash):
        yield ReplacedLogMark(
            ANEW, old.stream, old.version, _recorded_time(first), old.hash, was=old
        )


def _recorded_time(first: RawEvent) -> str:
    """Return the recording time of the first event, or an empty string if it is damaged."""
    try:
        return str(orjson.loads(first.text)["recorded_at"])
    except (ValueError, KeyError, TypeError):
        return ""  # every reader of the log finds the damage


def read_stored_evidence(root: Root, stream: str) -> list[TamperEvidence]:
    """Return the stored evidence that a log was changed."""
    return [one for one in _read_marks(root) if one.stream in (stream, None)]


def anchor_file(root: Root, stream: str) -> Path:
    """Return the path of the file that contains the anchor (last known event) of a log."""
    if stream.startswith(_MACHINE):
        return root.folder / "machines" / f"{stream.removeprefix(_MACHINE)}.json"
    return root.sync_file


def write_sync_with_new_anchor(
    root: Root, store: EventStore, stream: str, before: Sync, sync: Sync, stood: str
) -> None:
    """Store the state of the generated files, with the log's last event as new anchor.

    ``before`` is the old state with the old anchor. Contradictions to the old anchor are stored
    first. The status ``stood`` of the log is also remembered outside the workflow folder. The
    caller must hold the folder's lock.
    """
    head = store.head(stream)
    record_contradictions(root, store, stream, before)
    if head is not None:
        _remember_log(root, store, stream, head, stood)
    new = replace(sync, head=_anchor_of(stream, head))
    if new != before:
        path = anchor_file(root, stream)
        path.parent.mkdir(exist_ok=True)
        write_sync(path, new)


def _anchor_of(stream: str, head: Head | None) -> dict[str, Any]:
    """Return the anchor (record of the last event) for the head of a stream."""
    return {"stream": stream, "version": head.version, "hash": head.hash} if head else {}


def _remember_log(root: Root, store: EventStore, stream: str, head: Head, stood: str) -> None:
    """Remember the status of a log outside the workflow folder, if it has changed."""
    first = next(store.raw(stream, upto=1), None)
    if first is None:
        return

    def known() -> trust.KnownLog:
        at, began = utc_text(system_clock()), _recorded_time(first)
        return trust.KnownLog(stream, first.hash, began, head.version, head.hash, at, stood)

    trust.remember_log_state(root.path, folder_part_of_stream(stream), first.hash, stood, known)


def record_contradictions(root: Root, store: EventStore, stream: str, before: Sync) -> None:
    """Store evidence that the log was changed since its anchor was written, if any.

    The anchor is the last known event. The caller must hold the folder's lock.
    """
    for one in _find_contradictions(store, stream, before.head):
        known = _read_marks(root)
        if all(replace(one, at=old.at) != old for old in known):
            _write_marks(root, [*known, replace(one, at=utc_text(system_clock()))])


def record_salvage_marks(
    root: Root, store: EventStore, lost: Mapping[str, tuple[int, int | None]], now: datetime
) -> None:
    """Store a mark for each stream that lost events when a damaged log was repaired.

    A mark has the first lost version and the number of lost events. Contradictions to the anchors
    (last known events) are stored too. Then the anchors are removed, because they belong to the old
    log. Call this function before the log is replaced.
    """
    with hold_lock(root.lock):
        for stream in {*store.streams(), *lost}:
            path = anchor_file(root, stream)
            sync = read_sync(path)
            record_contradictions(root, store, stream, sync)
            if sync.head.get("stream") == stream:
                write_sync(path, replace(sync, head={}))
        at = utc_text(now)
        new = [TamperEvidence(SALVAGED, s, v, at, events=number) for s, (v, number) in lost.items()]
        if new:
            _write_marks(root, [*_read_marks(root), *new])


def accept_log(root: Root, store: EventStore, stream: str) -> None:
    """Accept a log at the request of a person.

    Remove the evidence against the log, and store its last event as the new anchor.
    """
    with hold_lock(root.lock):
        marks = _read_marks(root)
        left = [one for one in marks if one.kind == SALVAGED or one.stream not in (stream, None)]
        if left != marks:
            _write_marks(root, left)
        first = next(store.raw(stream, upto=1), None)
        trust.forget_earlier(root.path, folder_part_of_stream(stream), first.hash if first else "")
        path, head = anchor_file(root, stream), store.head(stream)
        sync = read_sync(path)
        if sync.head and head is not None:
            write_sync(path, replace(sync, head=_anchor_of(stream, head)))


def _find_contradictions(
    store: EventStore, stream: str, anchor: dict[str, Any]
) -> Iterator[TamperEvidence]:
    """Yield evidence that the log contradicts its anchor or has events of other programs.

    The anchor is the last event that wfctl knows. Earlier events were checked when it was stored.
    """
    after = 0
    if anchor.get("stream") == stream:
        after, expected = anchor["version"], anchor["hash"]
        row = next(store.raw(stream, after=after - 1, upto=after), None)
        found = row.hash if row is not None else None
        if found != expected:
            yield TamperEvidence(ANCHOR, stream, after, None, expected, found)
    versions = list(_find_unclaimed_events(store, stream, after))
    if versions:
        yield TamperEvidence(UNCLAIMED, stream, versions[0], None, events=len(versions))


def _find_unclaimed_events(store: EventStore, stream: str, after: int) -> Iterator[int]:
    """Yield the versions of events that no command of wfctl appended."""
    rows = store.raw(stream, after=after)
    while some := list(islice(rows, _AT_ONCE)):
        from eventstore.verification import is_covered_by  # usually no events follow the anchor

        commands = [named for named in map(_parse_command_and_version, some) if named is not None]
        spans = store.spans(sorted({command for command, _ in commands}))
        for command, version in commands:
            if not is_covered_by(spans.get(command), stream, version):
                yield version


def _parse_command_and_version(row: RawEvent) -> tuple[str, int] | None:
    """Return the command id and the version of an event, or None if the event is damaged."""
    try:
        body = orjson.loads(row.text)
        return str(body["command_id"]), int(body["version"])
    except (ValueError, KeyError, TypeError):
        return None  # every reader of the log finds the damage


def _marks_file(root: Root) -> Path:
    return root.folder / "marks.json"


def _read_marks(root: Root) -> list[TamperEvidence]:
    try:
        return [_parse_mark(one) for one in orjson.loads(read_regular(_marks_file(root)))["marks"]]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        return [TamperEvidence("unreadable_marks", None, None, None)]


def _parse_mark(kept: dict[str, Any]) -> TamperEvidence:
    """Return the evidence from a stored entry. Raises TypeError if the entry is malformed."""
    found = TamperEvidence(**kept)
    values = asdict(found)
    numbers = {"version", "events"}
    if not isinstance(values["kind"], str) or not all(
        one is None or type(one) is (int if name in numbers else str)
        for name, one in values.items()
    ):
        raise TypeError
    return found


def _write_marks(root: Root, marks: Iterable[TamperEvidence]) -> None:
    content = json.dumps({"format": 1, "marks": [asdict(one) for one in marks]}, indent=1)
    write_whole(_marks_file(root), content.encode() + b"\n")
