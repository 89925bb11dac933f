"""Is the log whole? The chain, the order, and that every event can be read and folded."""

from __future__ import annotations

from collections.abc import Iterator

from eventstore.chain import Link
from eventstore.errors import EventStoreError
from eventstore.verification import Finding
from service.log import WorkflowLog
from service.root import Root
from service.sync import read_sync


def check_integrity(root: Root, log: WorkflowLog) -> list[Finding]:
    """Return everything wrong with the workflow's stream, the first bad version first.

    ``sync.json`` is the anchor outside the chain: only with it is a cut tail seen.
    """
    found = list(log.store.verify(log.stream, anchors=_anchors(root, log)))
    return found or list(_unreadable(log))


def _anchors(root: Root, log: WorkflowLog) -> dict[str, Link]:
    head = read_sync(root.sync_file).head
    if head.get("stream") != log.stream:
        return {}
    return {log.stream: Link(head["version"], head["hash"])}


def _unreadable(log: WorkflowLog) -> Iterator[Finding]:
    version = 0
    try:
        for event in log.events():
            version = event.version
    except EventStoreError as error:
        yield Finding(log.stream, version + 1, None, error.code, error.message)
