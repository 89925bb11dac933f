"""Is the log whole? The chain, the order, and that every event can be read and folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from eventstore.chain import Link
from eventstore.errors import EventStoreError
from eventstore.verification import Finding
from lifecycle.errors import LifecycleError
from lifecycle.fold.foldable import newest_aside
from projections.history.checkpoint import NAME, VERSION
from service.reading.log import WorkflowLog
from service.reading.stream_log import StreamLog
from service.reading.trust_marks import kept
from service.root.root import Root
from service.root.sync import read_sync

#: What may be said of an event that stands in its place.
_SOUND = frozenset({"set_aside", "unclaimed"})


def check_integrity(root: Root, log: WorkflowLog) -> list[Finding]:
    """Return everything wrong with the workflow's stream, the first bad version first.

    ``sync.json`` is the anchor outside the chain: only with it is a cut tail seen.
    """
    found = list(log.store.verify(log.stream, anchors=_anchors(root, log)))
    found = with_unfoldable(found, unreadable(log))
    if all(one.kind in _SOUND for one in found):
        found += _of_tables(root, log)
    marks = [one.to_finding() for one in kept(root, log.stream) if one.is_finding]
    return [*found, *marks, *_strays(log)]


def _strays(log: WorkflowLog) -> Iterator[Finding]:
    try:
        yield from log.store.strays()
    except EventStoreError as error:
        yield Finding(None, None, None, "engine", error.message)


def _of_tables(root: Root, log: WorkflowLog) -> Iterator[Finding]:
    if log.store.load_fold(log.stream, NAME, VERSION) is None:  # no table was ever written
        return iter(())
    from service.sql.tables import check_tables

    return check_tables(root.address, log)


def with_unfoldable(found: list[Finding], folding: Iterable[Finding]) -> list[Finding]:
    """Return what is wrong with a stream, with what the fold of it says; in order of version."""
    if any(one.kind not in _SOUND for one in found):
        return found
    known = {one.version for one in found if one.kind == "set_aside"}
    more = [one for one in folding if one.version not in known]
    return sorted([*found, *more], key=lambda one: one.version or 0)


def _anchors(root: Root, log: WorkflowLog) -> dict[str, Link]:
    head = read_sync(root.sync_file).head
    if head.get("stream") != log.stream:
        return {}
    return {log.stream: Link(head["version"], head["hash"])}


def unreadable(log: StreamLog[Any]) -> Iterator[Finding]:
    """Yield what the fold of a stream sets aside, and where it breaks off."""
    version = 0
    try:
        for event, state in log.steps():
            version = event.version
            aside = newest_aside(state, version)
            if aside is not None:
                why = f"{aside['type']!r:.80} counts for nothing: {aside['why']}"
                yield Finding(log.stream, version, event.position, "set_aside", why)
    except (EventStoreError, LifecycleError) as error:
        yield Finding(log.stream, version + 1, None, error.code, error.message)


Record = dict[str, Any]


def _record(**known: Any) -> Record:
    record: Record = dict.fromkeys(("version", "at", "what", "file", "actor", "kind"))
    return record | {"fields": [], "kept_as": None, "detected": None, "message": None} | known


def drift_records(rows: Iterable[Record]) -> Iterator[Record]:
    """Yield a record for each event of drift, from the rows of `questions.DRIFT`."""
    for row in rows:
        data, seen = row["data"], {"version": row["version"], "actor": row["actor"]}
        seen["at"] = row["occurred_at"]
        if not row["type"].startswith("results."):
            seen |= {name: data.get(name) for name in ("kind", "kept_as", "detected")}
            fields = [_name(difference) for difference in data.get("differences", [])]
            what = row["type"].removeprefix("drift.")
            yield _record(**seen, what=what, file=data["file"], fields=fields)
            continue
        is_adopted = row["type"] == "results.adopted"
        seen |= {"what": "adopted" if is_adopted else "detected", "message": data.get("reason")}
        for one in data["outputs"] if is_adopted else data["files"]:
            kind = "result" if is_adopted else f"{one['kind']} result"
            yield _record(**seen, file=one["path"], kind=kind)


def _name(difference: Record) -> str:
    path = difference.get("path")
    steps = [difference.get("stage"), *(path if isinstance(path, list) else [path])]
    return ".".join(str(step) for step in steps if step is not None)


def tampering_records(root: Root, log: WorkflowLog) -> Iterator[Record]:
    """Yield a record for everything that is wrong with the log."""
    for finding in check_integrity(root, log):
        said = {"version": finding.version, "kind": finding.kind, "message": finding.message}
        yield _record(**said, what="tampering")
