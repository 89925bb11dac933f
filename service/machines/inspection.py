"""Looking at a machine's files without touching them: no lock is taken, nothing is written."""

from __future__ import annotations

from dataclasses import dataclass

from lifecycle.machines.machine import Machine
from projections.machines.documents import rendered
from projections.words.came_about import decided_edits
from service.consent.approvals import Approvals
from service.consent.doubts import of_pins
from service.machines.log import MachineLog
from service.machines.news import is_as_imported
from service.machines.place import folder_of, is_writer
from service.reading.log import newest
from service.reading.set_aside import told
from service.reading.trust_marks import marks_of
from service.root.root import Root
from service.root.sync import caught_up, digest
from service.root.within import content_within


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file that is not what the log says; ``kind``: missing, behind, or changed."""

    file: str
    kind: str
    expected: bytes
    found: bytes | None


def differences(root: Root, log: MachineLog, state: Machine) -> list[FileDifference]:
    """Return the files that are not what the log says, which others may go on writing meanwhile.

    A file may show ``state``, which was read before it, or a later one of the log's.
    """
    if not is_writer(root, log.store, state):
        return []
    rendering = rendered(state)
    last = newest(log.store, log.stream)
    sync = caught_up(folder_of(root) / f"{log.machine}.json", rendering, last)
    found: list[FileDifference] = []
    for path, expected in rendering.items():
        content = content_within(root.path, path)
        if content == expected or _shown_later(log, state.head, path, content):
            continue
        left = sync.files.get(path)
        if is_as_imported(state, left, content):
            continue
        kind = "missing" if content is None else "changed"
        if content is not None and left is not None and left.sha256 == digest(content):
            kind = "behind"
        found.append(FileDifference(path, kind, expected, content))
    # Another machine may have begun meanwhile that writes the same files.
    return found if found and is_writer(root, log.store, state) else []


def _shown_later(log: MachineLog, after: int, path: str, content: bytes | None) -> bool:
    return any(rendered(state)[path] == content for _, state in log.steps(after))


def warnings(root: Root, log: MachineLog, state: Machine) -> list[str]:
    """Say of each file that is not what the log says what becomes of it, and of weak consent."""
    texts = {
        "missing": "is missing; the next write command writes it anew",
        "behind": "is behind the log; the next write command brings it up to date",
        "changed": "was changed by somebody else; the next write command takes over what the rules "
        "allow, and keeps the rest",
    }
    now = [f"{one.file} {texts[one.kind]}" for one in differences(root, log, state)]
    kept = [
        f"{drift.file}: a hand edit ({drift.kind}) is kept as {drift.kept_as}; "
        f"`wfctl machine drift {state.id}`, then adopt or revert it"
        for drift in state.drifts
    ]
    marks = [str(one.to_item()) for one in marks_of(root, log.store, log.stream)]
    edits = map(str, decided_edits(state.edits))
    return [*marks, *now, *told(state), *_of_consent(log, state), *kept, *edits]


def _of_consent(log: MachineLog, state: Machine) -> list[str]:
    """Say what weakens the consent to approvals, and which of them count for nothing."""
    known = {one["version"] for one in state.set_aside}
    refused = {v: why for v, why in log.ineffective().items() if v not in known}
    found = [f"version {v} counts for nothing: {why}" for v, why in refused.items()]
    if state.consent == "trust" and state.definition.approvals:
        found.append("consent is by trust: whoever calls wfctl can approve, agents too")
    found += of_pins(Approvals(log.store, log.stream, log.root))
    return found
