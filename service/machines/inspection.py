"""Looking at a machine's files without touching them: no lock is taken, nothing is written."""

from __future__ import annotations

from typing import Any

import orjson

from eventstore.chain import Link
from eventstore.store import EventStore
from eventstore.verification import Finding
from lifecycle.machines.machine import Machine
from projections.files import document_diff
from projections.files.document_diff import ABSENT
from projections.machines.documents import documents, rendered
from projections.words.came_about import decided_edits
from service.consent.doubts import of_pins
from service.files.inspection import Difference
from service.machines.log import MachineLog, folder_of, ids, is_writer
from service.machines.news import is_as_imported
from service.questions.audit import unreadable, with_unfoldable
from service.questions.blame import Blame, FieldHistory
from service.reading.stream_log import At, newest, told
from service.reading.trust_marks import kept, marks_of
from service.root.disk import content_within
from service.root.root import Root, caught_up, digest, read_sync


def differences(root: Root, log: MachineLog, state: Machine) -> list[Difference]:
    """Return the files that are not what the log says, which others may go on writing meanwhile.

    A file may show ``state``, which was read before it, or a later one of the log's.
    """
    if not is_writer(root, log.store, state):
        return []
    rendering = rendered(state)
    last = newest(log.store, log.stream)
    sync = caught_up(folder_of(root) / f"{log.machine}.json", rendering, last)
    found: list[Difference] = []
    for path, expected in rendering.items():
        content, left = content_within(root.path, path), sync.files.get(path)
        later = (rendered(after)[path] == content for _, after in log.steps(state.head))
        if content == expected or any(later) or is_as_imported(state, left, content):
            continue
        kind = "missing" if content is None else "changed"
        if content is not None and left is not None and left.sha256 == digest(content):
            kind = "behind"
        found.append(Difference(path, kind, expected, content))
    # Another machine may have begun meanwhile that writes the same files.
    return found if found and is_writer(root, log.store, state) else []


def warnings(root: Root, log: MachineLog, state: Machine) -> list[str]:
    """Say of each file that is not what the log says what becomes of it, and of weak consent."""
    texts = {
        "missing": "is missing; the next write command writes it anew",
        "behind": "is behind the log; the next write command brings it up to date",
        "changed": "was changed by somebody else; the next write command takes over what the rules "
        "allow, and keeps the rest",
    }
    now = [f"{one.file} {texts[one.kind]}" for one in differences(root, log, state)]
    edited = [
        f"{drift.file}: a hand edit ({drift.kind}) is kept as {drift.kept_as}; "
        f"`wfctl machine drift {state.id}`, then adopt or revert it"
        for drift in state.drifts
    ]
    marks = [str(one.to_item()) for one in marks_of(root, log.store, log.stream)]
    edits = map(str, decided_edits(state.edits))
    # An approval is ignored that the log does not set aside by itself.
    known = {one["version"] for one in state.set_aside}
    refused = {v: why for v, why in log.ineffective().items() if v not in known}
    weak = [f"version {v} is ignored: {why}" for v, why in refused.items()]
    if state.consent == "trust" and state.definition.approvals:
        weak.append("consent is by trust: anyone who calls wfctl can approve, agents too")
    weak += of_pins(log.approvals)
    return [*marks, *now, *told(state), *weak, *edited, *edits]


def check_machines(root: Root, store: EventStore) -> tuple[dict[str, int], list[Finding]]:
    """Return each machine's last version, and everything wrong with their streams.

    What is remembered of a machine's files is the anchor outside the chain: it shows a cut tail.
    """
    remembered = [path.stem for path in folder_of(root).glob("*.json")]
    logs = [MachineLog(store, id_, root.path) for id_ in sorted({*ids(root, store), *remembered})]
    heads = {log.machine: store.head(log.stream) for log in logs}
    found: list[Finding] = []
    for log in logs:
        head = read_sync(folder_of(root) / f"{log.machine}.json").head
        anchors = {log.stream: Link(head["version"], head["hash"])} if head else {}
        found += with_unfoldable([*log.store.verify(log.stream, anchors=anchors)], unreadable(log))
        found += [one.to_finding() for one in kept(root, log.stream) if one.is_finding]
    return {id_: head.version if head is not None else 0 for id_, head in heads.items()}, found


def blame(log: MachineLog, name: str, at: At = None) -> list[Blame]:
    """Return, for a field or a group of fields, each field's newest change.

    A task is named by its id: ``tasks.T-1.status``. Raises `NotFound` for what never was, and
    `StateNotFound`.
    """
    known = tree(log.current(at))
    path = document_diff.path_of(known, name)
    history = FieldHistory(path)
    for event, state in log.steps(upto=at):
        value = document_diff.at(tree(state), path)
        history.take(event, b"" if value is ABSENT else orjson.dumps(value))
    return [Blame(change, None) for change in history.newest(known, name)]


def tree(state: Machine) -> dict[str, Any]:
    """Return a machine's state as one document, with its tasks by their ids."""
    whole: dict[str, Any] = {}
    for document in documents(state).values():
        whole |= document
    tasks = state.definition.tasks
    if tasks is not None and state.tasks:
        whole[tasks.path] = {str(task.get("id")): task for task in state.tasks}
    return whole
