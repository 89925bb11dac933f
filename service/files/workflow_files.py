"""Update the files that people and agents read, such as workflow-state.json, from the log.

The files are written after the commit of an event, under a lock, and never replaced by an older
version. Changes by other programs are not lost: wfctl first searches for them, records them or
stores a copy, and then writes the files. After a crash, the next write command continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from errno import EBUSY
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from eventstore.errors import EventStoreError
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.files import progress_log, state_document
from projections.files.progress_log import join_pieces
from service.errors import FilesBehind, LogBehind, RootBusy
from service.files import drift
from service.files.align_lines import align_lines, build_notes
from service.files.drift import is_state_file_unedited
from service.files.file_changes import FileChanges, collect_file_changes, compute_file_changes
from service.files.log_view import LogView, build_remembered_log_state, read_log_view
from service.reading.log import WorkflowLog
from service.reading.trust_marks import write_sync_with_new_anchor
from service.root.atomic_files import (
    append_if_unchanged,
    file_change_fingerprint,
    hold_lock,
    overwrite_in_place,
    replace_file_if_unchanged,
    write_whole,
)
from service.root.paths_within_root import OutsideRoot, content_within
from service.root.root import Root
from service.root.sync_record import Sync, Synced, digest, read_sync, write_sync

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

STATE = state_document.FILE_NAME
LOG = progress_log.FILE_NAME

#: Maximum number of attempts to write the files while other programs keep changing them.
_ROUNDS = 100

Record: TypeAlias = "Callable[[Sequence[Payload]], None]"
"""Records findings as facts, which no rule refuses."""
Close: TypeAlias = "Callable[[Workflow], list[Payload]]"
"""Returns the commands that close each edit whose values the log contains."""


class Findings(NamedTuple):
    """The result of a check of generated files: events to record, and content to write.

    ``restored`` is the correct content of a damaged ``progress.log``, or None if it is not damaged.
    """

    news: list[Payload]
    missing: bytes
    restored: bytes | None
    view: LogView
    state: bytes | None


class WorkflowFiles:
    """Writes ``workflow-state.json`` and ``progress.log`` of a workflow folder."""

    def __init__(self, root: Root, log: WorkflowLog, record: Record, close: Close) -> None:
        self.root = root
        self.log = log
        self._record = record
        self._close = close

    def record_foreign_changes(self) -> int:
        """Record the changes that others made to the generated files.

        Return the number of recorded events. If nothing has changed, only two files are inspected.
        """
        sync = read_sync(self.root.sync_file)
        self._require_log_not_behind(sync)
        return 0 if self._has_unchanged_files(sync) else self.bring_up_to_date()

    def _require_log_not_behind(self, sync: Sync) -> None:
        shown = max(sync.version(LOG), sync.version(STATE))
        head = self.log.store.head(self.log.stream) if shown else None
        version = head.version if head is not None else 0
        if shown > version:
            raise LogBehind(shown, version)

    def _has_unchanged_files(self, sync: Sync) -> bool:
        log, state = sync.files.get(LOG), sync.files.get(STATE)
        if log is None or state is None:
            return self.log.store.head(self.log.stream) is None
        try:
            mark = file_change_fingerprint(self.root.below(LOG).lstat())
        except FileNotFoundError:
            return False
        found = content_within(self.root.path, STATE)
        return mark == log.mark and found is not None and digest(found) == state.sha256

    def bring_up_to_date(self, known: Workflow | None = None) -> int:
        """Update the generated files to the newest version of the log.

        Changes by others are recorded first. Return the number of recorded changes. ``known`` is an
        earlier state, from which the computation can start. Raises `FilesBehind` if the files
        cannot be written. The log is complete in this case.
        """
        try:
            with hold_lock(self.root.lock):
                return self._record_changes_and_write(known)
        except (OSError, EventStoreError, RootBusy, OutsideRoot) as error:
            head = self.log.store.head(self.log.stream)
            raise FilesBehind(head.version if head else 0, error) from error

    def _record_changes_and_write(self, known: Workflow | None) -> int:
        recorded = 0
        for _ in range(_ROUNDS):
            sync = read_sync(self.root.sync_file)
            self._require_log_not_behind(sync)
            after = min(sync.version(LOG), sync.version(STATE))
            start = known if known is not None and known.head == after else None
            shown = compute_file_changes(self.log, after, start, sync.version(LOG))
            if shown.state is None:
                return recorded
            found = self._find_foreign_changes(sync, shown, shown.state)
            if found.news:
                self._record(found.news)
                recorded += len(found.news)
                known = None
            elif self._write(sync, shown.state, found):
                return recorded
        raise OSError(EBUSY, "other programs keep changing the files", str(self.root.path))

    def _find_foreign_changes(self, sync: Sync, shown: FileChanges, state: Workflow) -> Findings:
        view = read_log_view(self.root.path, LOG, sync.files.get(LOG))
        fresh = sync.files[LOG].fresh if LOG in sync.files else True
        laid = align_lines(view.tail, fresh, shown.pieces, sync.version(LOG))
        news: list[Payload] = []
        restored = None
        damaged = not view.intact or laid.lost
        known = shown.detected.get(LOG, [])
        if damaged or known:
            # Compare only the lines up to the shown version. Lines of newer events are appended
            # later, so restoring them here would duplicate them.
            expected = join_pieces(collect_file_changes(self.log.steps(upto=state.head)).pieces)
            found = content_within(self.root.path, LOG)
            half = drift.is_half_restored(self.root, LOG, found, expected, known)
            if damaged or half:
                restored = expected
            if damaged and not half and _digest_or_none(found) not in known:
                lines = partial(drift.line_differences, expected)
                base = sync.version(LOG)
                news.append(drift.build_drift_event(self.root, LOG, base, expected, found, lines))
        if restored is None:
            news += build_notes(laid.foreign)
        found = content_within(self.root.path, STATE)
        left = sync.files.get(STATE)
        is_known = _digest_or_none(found) in shown.detected.get(STATE, [])
        is_rendered = found == state_document.render_state(state)
        if not (is_known or is_rendered or is_state_file_unedited(self.log, left, found)):
            shows = state if left is None else self.log.current(left.version)
            content, fields = (
                state_document.render_state(shows),
                partial(drift.state_differences, shows),
            )
            news.append(
                drift.build_drift_event(self.root, STATE, shows.head, content, found, fields)
            )
        elif state.drifts:
            news += self._close(state)
        return Findings(news, laid.missing, restored, view, found)

    def _write(self, sync: Sync, state: Workflow, found: Findings) -> bool:
        """Write the missing content. Return False if a file has changed meanwhile."""
        log = self._write_log(sync, state, found)
        content, place = state_document.render_state(state), self.root.below(STATE)
        if log is None:
            return False
        if found.state != content and not replace_file_if_unchanged(place, content, found.state):
            return False
        entry = Synced(self.log.stream, state.head, len(content), digest(content))
        new = sync.having(LOG, log).having(STATE, entry)
        begun = (one for one in state.stages.values() if one.status is not Status.PENDING)
        stood = ", ".join(f"{one.id} {one.status}" for one in begun) or "no stage has started"
        write_sync_with_new_anchor(self.root, self.log.store, self.log.stream, sync, new, stood)
        return True

    def _write_log(self, sync: Sync, state: Workflow, found: Findings) -> Synced | None:
        place, nothing = self.root.below(LOG), Synced(self.log.stream, 0, 0, digest(b""))
        before = sync.files.get(LOG) or nothing
        view, added, mark = found.view, found.missing, found.view.mark
        if found.restored is not None:
            mark = overwrite_in_place(place, found.restored, found.view.mark)
            before, view, added = nothing, LogView(True, b"", found.restored, mark), b""
        elif added:
            mark = append_if_unchanged(place, added, view.mark)
        if mark is None:
            return None
        return build_remembered_log_state(
            self.root.path, LOG, before, view, added, state.head, mark
        )

    def rebuild(self) -> list[str]:
        """Write all generated files again from all events, and return the changed ones.

        Manual edits are stored as copies, and appended lines are recorded. Raises `LogBehind` if
        the log is empty but the files belong to another log.
        """
        if self.log.store.head(self.log.stream) is None:
            self._require_log_not_behind(read_sync(self.root.sync_file))
        before = {name: content_within(self.root.path, name) for name in (STATE, LOG)}
        with hold_lock(self.root.lock):
            self._restore_files(collect_file_changes(self.log.steps()), before)
            self._record_changes_and_write(None)
        return [n for n, content in before.items() if content_within(self.root.path, n) != content]

    def _restore_files(self, all_: FileChanges, found: dict[str, bytes | None]) -> None:
        """Store a copy of each edited file, and overwrite it with the correct content.

        Forget the remembered state of the files, except the record that ties them to their log.
        """
        sync = read_sync(self.root.sync_file)
        self._restore_log(all_, sync)
        if all_.state is not None and found[STATE] != state_document.render_state(all_.state):
            self._store_foreign_copy(STATE, found[STATE], sync)
            write_whole(self.root.below(STATE), state_document.render_state(all_.state))
        write_sync(self.root.sync_file, replace(sync, files={}))

    def _restore_log(self, all_: FileChanges, sync: Sync) -> None:
        for _ in range(_ROUNDS):
            view = read_log_view(self.root.path, LOG, sync.files.get(LOG), thorough=True)
            found = content_within(self.root.path, LOG)
            if view.intact and not align_lines(found or b"", True, all_.pieces, 0).lost:
                return
            self._store_foreign_copy(LOG, found, sync)
            if (
                overwrite_in_place(self.root.below(LOG), join_pieces(all_.pieces), view.mark)
                is not None
            ):
                return
        raise OSError(EBUSY, "other programs keep changing the files", str(self.root.below(LOG)))

    def _store_foreign_copy(self, name: str, found: bytes | None, sync: Sync) -> None:
        left = sync.files.get(name)
        if found is not None and (left is None or left.sha256 != digest(found)):
            drift.keep_foreign_version(self.root, name, found)


def _digest_or_none(found: bytes | None) -> str | None:
    return None if found is None else digest(found)
