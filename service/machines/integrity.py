"""Are the logs of the machines whole? The chain, and that every event can be read and folded."""

from __future__ import annotations

from eventstore.chain import Link
from eventstore.errors import EventStoreError
from eventstore.store import EventStore
from eventstore.verification import Finding
from lifecycle.errors import LifecycleError
from lifecycle.fold.foldable import newest_aside
from service.machines.log import MachineLog
from service.machines.place import folder_of, ids
from service.questions.integrity import with_unfoldable
from service.reading.trust_marks import kept
from service.root.root import Root
from service.root.sync import read_sync


def check_machines(root: Root, store: EventStore) -> tuple[dict[str, int], list[Finding]]:
    """Return each machine's last version, and everything wrong with their streams.

    What is remembered of a machine's files is the anchor outside the chain: it shows a cut tail.
    """
    known = sorted({*ids(root, store), *_remembered(root)})
    heads = {id_: store.head(MachineLog(store, id_, root.path).stream) for id_ in known}
    found = [finding for id_ in known for finding in _of(root, MachineLog(store, id_, root.path))]
    return {id_: head.version if head is not None else 0 for id_, head in heads.items()}, found


def _remembered(root: Root) -> list[str]:
    return [path.stem for path in folder_of(root).glob("*.json")]


def _of(root: Root, log: MachineLog) -> list[Finding]:
    head = read_sync(folder_of(root) / f"{log.machine}.json").head
    anchors = {log.stream: Link(head["version"], head["hash"])} if head else {}
    found = list(log.store.verify(log.stream, anchors=anchors))
    marks = [one.to_finding() for one in kept(root, log.stream) if one.is_finding]
    return [*with_unfoldable(found, _unreadable(log)), *marks]


def _unreadable(log: MachineLog) -> list[Finding]:
    version = 0
    found = []
    try:
        for event, state in log.steps():
            version = event.version
            aside = newest_aside(state, version)
            if aside is not None:
                why = f"{aside['type']!r:.80} counts for nothing: {aside['why']}"
                found.append(Finding(log.stream, version, event.position, "set_aside", why))
    except (EventStoreError, LifecycleError) as error:
        found.append(Finding(log.stream, version + 1, None, error.code, error.message))
    return found
