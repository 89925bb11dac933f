"""Looking at the files without touching them: nothing is written, no lock is taken."""

from __future__ import annotations

from dataclasses import dataclass

from lifecycle.workflow import Drift, Workflow
from projections import state_document
from projections.progress_log import joined
from service.disk import content_of
from service.external_lines import Foreign, align
from service.files import LOG, STATE
from service.log import WorkflowLog
from service.log_file import look
from service.root import Root
from service.sync import Sync, Synced, digest, read_sync
from service.trail import trail, was_written, whole


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not what the log says: missing or changed."""

    file: str
    kind: str
    expected: bytes
    found: bytes | None


class FilesInspection:
    """``workflow-state.json`` and ``progress.log`` of one root, to be looked at."""

    def __init__(self, root: Root, log: WorkflowLog) -> None:
        self.root = root
        self.log = log

    def expected(self) -> tuple[dict[str, bytes], Workflow | None]:
        """Return the bytes each file should have, and the state, folded from the first event."""
        all_ = whole(self.log.steps())
        if all_.state is None:
            return {}, None
        return {STATE: state_document.render(all_.state), LOG: joined(all_.pieces)}, all_.state

    def differences(self) -> list[Difference]:
        """Compare the files with the log, whole."""
        expected, _ = self.expected()
        found = {name: content_of(self.root.path / name) for name in expected}
        return [
            Difference(name, "missing" if found[name] is None else "changed", content, found[name])
            for name, content in expected.items()
            if found[name] != content
        ]

    def stale(self, state: Workflow) -> list[str]:
        """Say of each file whether it is missing, changed by somebody else, or behind the log.

        And which changes are kept until somebody decides, as of ``state``.
        """
        sync = read_sync(self.root.sync_file)
        head = self.log.store.head(self.log.stream)
        version = head.version if head is not None else 0
        texts = {STATE: self._of_state(sync.files.get(STATE)), LOG: self._of_log(sync)}
        for name, text in texts.items():
            if text is None and sync.version(name) < version:
                texts[name] = "is behind the log; the next write command brings it up to date"
        now = [f"{name} {text}" for name, text in texts.items() if text is not None]
        return [*now, *(_waiting(drift) for drift in state.drifts)]

    def _of_state(self, left: Synced | None) -> str | None:
        found = self.foreign_state(left)
        if found is None:
            return None
        if found == b"" and not (self.root.path / STATE).exists():
            return "is missing; the next write command writes it anew"
        return "was changed by somebody else; `wfctl drift show` says how"

    def foreign_state(self, left: Synced | None) -> bytes | None:
        """Return a ``workflow-state.json`` that wfctl did not write, empty where it is missing."""
        found = content_of(self.root.path / STATE)
        if found is None:
            return b""
        if left is not None and left.sha256 == digest(found):
            return None
        return None if was_written(self.log, left.version if left else 0, found) else found

    def _of_log(self, sync: Sync) -> str | None:
        left = sync.files.get(LOG)
        view = look(self.root.path / LOG, left, thorough=True)
        if view.mark is None:
            return "is missing; the next write command writes it anew"
        if not view.intact:
            return "was changed by somebody else; `wfctl drift show` says how"
        if not view.tail:
            return None
        count = len(self.appended(sync))
        if not count:
            return None
        return f"has {count} lines of somebody else's; the next write command records them"

    def log_is_intact(self, sync: Sync) -> bool:
        """Whether ``progress.log`` begins with every byte that was left in it."""
        return look(self.root.path / LOG, sync.files.get(LOG), thorough=True).intact

    def appended(self, sync: Sync) -> list[Foreign]:
        """Return what somebody else appended to ``progress.log`` and nobody recorded yet."""
        left = sync.files.get(LOG)
        view = look(self.root.path / LOG, left, thorough=True)
        pending = trail(self.log, sync.version(LOG), None, sync.version(LOG)).pieces
        fresh = left.fresh if left is not None else True
        return align(view.tail, fresh, pending, sync.version(LOG)).foreign if view.intact else []


def _waiting(drift: Drift) -> str:
    return (
        f"{drift.file}: a version of somebody else's ({drift.kind}), found at version "
        f"{drift.version}, is kept as {drift.kept_as}; `wfctl drift show`, then adopt or revert it"
    )
