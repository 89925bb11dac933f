"""Compare the files of a machine with its log, without locks and without writing."""

from __future__ import annotations

from typing import Any

import orjson

from extensions.machines.rules.machine import Machine
from extensions.machines.service.foreign_changes import is_unchanged_since_import
from extensions.machines.service.log import MachineLog, is_newest_writer
from extensions.machines.views.documents import build_documents, render_files
from projections.files import document_paths
from projections.files.document_paths import ABSENT
from projections.words.result_origin import list_edit_decision_items
from service.consent.consent_weaknesses import list_pin_contradictions
from service.files.inspection import Difference
from service.questions.blame import Blame, FieldHistory
from service.reading.machine_streams import machine_folder
from service.reading.stream_log import At, describe_ignored_events, read_newest_event
from service.reading.trust_marks import find_tamper_evidence
from service.root.paths_within_root import content_within
from service.root.root import Root
from service.root.sync_record import digest, read_sync_when_caught_up


def list_differences(root: Root, log: MachineLog, state: Machine) -> list[Difference]:
    """Return the files of a machine that differ from its log.

    A file may match ``state`` or any later state, because others may write at the same time.
    """
    if not is_newest_writer(root, log.store, state):
        return []
    rendering = render_files(state)
    last = read_newest_event(log.store, log.stream)
    sync = read_sync_when_caught_up(machine_folder(root) / f"{log.machine}.json", rendering, last)
    found: list[Difference] = []
    for path, expected in rendering.items():
        content, left = content_within(root.path, path), sync.files.get(path)
        later = (render_files(after)[path] == content for _, after in log.steps(state.head))
        if content == expected or any(later) or is_unchanged_since_import(state, left, content):
            continue
        kind = "missing" if content is None else "changed"
        if content is not None and left is not None and left.sha256 == digest(content):
            kind = "behind"
        found.append(Difference(path, kind, expected, content))
    # Check again that the machine still owns these files, because another machine may have started
    # in the meantime.
    return found if found and is_newest_writer(root, log.store, state) else []


def list_warnings(root: Root, log: MachineLog, state: Machine) -> list[str]:
    """Return warnings about files that differ from the log, and about weak consent."""
    texts = {
        "missing": "is missing; the next write command writes it again",
        "behind": "is older than the log; the next write command updates the file",
        "changed": (
            "was edited by hand; the next write command adopts the changes that the "
            "rules allow, and keeps a copy of the others"
        ),
    }
    now = [f"{one.file} {texts[one.kind]}" for one in list_differences(root, log, state)]
    edited = [
        (
            f"{drift.file}: a manual edit ({drift.kind}) was saved as {drift.kept_as}; "
            f"`wfctl machine drift {state.id}` shows how to adopt or revert the edit"
        )
        for drift in state.drifts
    ]
    marks = [str(one.to_item()) for one in find_tamper_evidence(root, log.store, log.stream)]
    edits = map(str, list_edit_decision_items(state.edits))
    # Report invalid approvals here unless the log itself marks them as ignored, which is reported
    # elsewhere.
    known = {one["version"] for one in state.set_aside}
    refused = {v: why for v, why in log.explain_ignored_events().items() if v not in known}
    weak = [f"version {v} is ignored: {why}" for v, why in refused.items()]
    if state.consent == "trust" and state.definition.approvals:
        weak.append("the consent policy is trust: anyone can approve, also an agent")
    weak += list_pin_contradictions(log.approvals)
    return [*marks, *now, *describe_ignored_events(state), *weak, *edited, *edits]


def find_blame(log: MachineLog, name: str, at: At = None) -> list[Blame]:
    """Return the newest change of a field, or of each field below a path.

    A task is named by its id, for example ``tasks.T-1.status``. Raises `NotFound` if the field
    never existed, and `StateNotFound` if the machine does not exist.
    """
    known = build_tree(log.current(at))
    path = document_paths.parse_dotted_path(known, name)
    history = FieldHistory(path)
    for event, state in log.steps(upto=at):
        value = document_paths.get_at_path(build_tree(state), path)
        history.add_value_text(event, b"" if value is ABSENT else orjson.dumps(value))
    return [Blame(change, None) for change in history.newest(known, name)]


def build_tree(state: Machine) -> dict[str, Any]:
    """Return the state of a machine as one document, with its tasks by their ids."""
    whole: dict[str, Any] = {}
    for document in build_documents(state).values():
        whole |= document
    tasks = state.definition.tasks
    if tasks is not None and state.tasks:
        whole[tasks.path] = {str(task.get("id")): task for task in state.tasks}
    return whole
