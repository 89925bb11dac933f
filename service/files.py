"""The files that people and agents read, brought up to date from the log.

Written after the commit, under the root's lock, never an older version over a newer one. What
somebody else wrote is never lost: a foreign ``workflow-state.json`` is kept under
``.wfctl/drift/``, lines that somebody appended to ``progress.log`` stay where they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from lifecycle.workflow import Workflow
from projections import progress_log, state_document
from service.disk import append, locked, write_whole
from service.errors import FilesBehind
from service.log import WorkflowLog
from service.root import Root
from service.sync import Sync, digest, read_sync, write_sync

STATE = state_document.FILE_NAME
LOG = progress_log.FILE_NAME


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not what the log says: missing, changed or behind."""

    file: str
    kind: str
    expected: bytes
    found: bytes | None


class WorkflowFiles:
    """``workflow-state.json`` and ``progress.log`` of one root."""

    def __init__(self, root: Root, log: WorkflowLog) -> None:
        self.root = root
        self.log = log

    def bring_up_to_date(self, known: Workflow | None = None) -> None:
        """Make the files show the log's head. ``known``: a state before it, to fold on from.

        Raises `FilesBehind` where the disk does not let it; the log holds everything then.
        """
        try:
            with locked(self.root.lock):
                self._write(known)
        except OSError as error:
            head = self.log.store.head(self.log.stream)
            raise FilesBehind(head.version if head else 0, error) from error

    def _write(self, known: Workflow | None) -> None:
        sync = self._believed()
        after = min(sync.version(LOG), sync.version(STATE))
        start = known if known is not None and known.head == after else None
        lines, state = self._render(after, start, sync.version(LOG))
        head = self.log.store.head(self.log.stream)
        if state is None or head is None:
            return
        sync = self._write_log(sync, lines, state.head)
        sync = self._write_state(sync, state)
        anchor = {"stream": self.log.stream, "version": head.version, "hash": head.hash}
        write_sync(self.root.sync_file, replace(sync, head=anchor))

    def _believed(self) -> Sync:
        """Return what was synced, without a log that has become shorter than it was left."""
        sync = read_sync(self.root.sync_file)
        entry = sync.files.get(LOG)
        if entry is None or _size(self.root.path / LOG) >= entry.size:
            return sync
        return replace(sync, files={n: e for n, e in sync.files.items() if n != LOG})

    def _render(
        self, after: int, start: Workflow | None, logged: int
    ) -> tuple[list[bytes], Workflow | None]:
        """Return the log's lines after version ``logged``, and the newest state after ``after``."""
        lines: list[bytes] = []
        state = None
        for event, state in self.log.steps(after, start):
            text = progress_log.line(event, state) if event.version > logged else None
            if text is not None:
                lines.append(text.encode())
        return lines, state

    def _write_log(self, sync: Sync, lines: list[bytes], version: int) -> Sync:
        path = self.root.path / LOG
        found = _content(path) or b""
        entry = sync.files.get(LOG)
        missing = lines_missing(found[entry.size if entry is not None else 0 :], lines)
        if missing:
            append(path, missing)
        return sync.having(LOG, self.log.stream, version, found + missing)

    def _write_state(self, sync: Sync, state: Workflow) -> Sync:
        path = self.root.path / STATE
        content = state_document.render(state)
        found = _content(path)
        if found != content:
            self._keep_foreign(STATE, found, sync)
            write_whole(path, content)
        return sync.having(STATE, self.log.stream, state.head, content)

    def _keep_foreign(self, name: str, found: bytes | None, sync: Sync) -> None:
        """Keep a version of the file that wfctl did not write."""
        entry = sync.files.get(name)
        if found is None or (entry is not None and entry.sha256 == digest(found)):
            return
        self.root.drift.mkdir(exist_ok=True)
        kept = self.root.drift / f"{name}.{digest(found)[:16]}"
        if not kept.exists():
            write_whole(kept, found)

    def expected(self) -> tuple[dict[str, bytes], Workflow | None]:
        """Return the bytes each file should have, and the state, folded from the first event."""
        lines, state = self._render(0, None, 0)
        if state is None:
            return {}, None
        return {STATE: state_document.render(state), LOG: b"".join(lines)}, state

    def stale(self) -> list[str]:
        """Say of each file whether it is missing, changed by hand, or behind the log."""
        sync = read_sync(self.root.sync_file)
        head = self.log.store.head(self.log.stream)
        version = head.version if head is not None else 0
        return [text for name in (STATE, LOG) for text in self._stale(name, sync, version)]

    def _stale(self, name: str, sync: Sync, version: int) -> list[str]:
        found = _content(self.root.path / name)
        entry = sync.files.get(name)
        if found is None:
            return [f"{name} is missing; `wfctl replay --rebuild` writes it"]
        if entry is None or digest(found) != entry.sha256:
            return [f"{name} was changed by somebody else; `wfctl replay --check` shows how"]
        if entry.version < version:
            return [f"{name} is behind the log; the next write command brings it up to date"]
        return []

    def differences(self) -> list[Difference]:
        """Compare the files with the log, whole; nothing is written."""
        expected, _ = self.expected()
        found = {name: _content(self.root.path / name) for name in expected}
        return [
            Difference(name, "missing" if found[name] is None else "changed", content, found[name])
            for name, content in expected.items()
            if found[name] != content
        ]

    def rebuild(self) -> list[str]:
        """Write every file anew from the first event; return the names of those that changed."""
        with locked(self.root.lock):
            expected, state = self.expected()
            if state is None:
                return []
            sync = read_sync(self.root.sync_file)
            changed = [n for n, content in expected.items() if self._replace(n, content, sync)]
            for name, content in expected.items():
                sync = sync.having(name, self.log.stream, state.head, content)
            head = self.log.store.head(self.log.stream)
            anchor = (
                {"stream": self.log.stream, "version": head.version, "hash": head.hash}
                if head
                else {}
            )
            write_sync(self.root.sync_file, replace(sync, head=anchor))
        return changed

    def _replace(self, name: str, content: bytes, sync: Sync) -> bool:
        path = self.root.path / name
        found = _content(path)
        if found == content:
            return False
        self._keep_foreign(name, found, sync)
        write_whole(path, content)
        return True


def lines_missing(tail: bytes, expected: Iterable[bytes]) -> bytes:
    """Return what must be appended after ``tail`` so that it holds every expected line.

    ``tail`` may hold some of them already (a crash came between writing them and noting it),
    the last one torn, and lines of others in between.
    """
    rest = deque(expected)
    last = b""
    for last in tail.splitlines(keepends=True):
        if rest and last == rest[0]:
            rest.popleft()
    if not last or last.endswith(b"\n"):
        return b"".join(rest)
    if rest and rest[0].startswith(last):
        return rest.popleft()[len(last) :] + b"".join(rest)
    return b"\n" + b"".join(rest) if rest else b""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
