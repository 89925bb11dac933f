"""Check the generated files against the log, without writing and without a lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from eventstore.regular_files import NotRegular, TooLarge
from lifecycle.state.workflow import Drift
from projections.files import progress_log, state_document
from projections.files.progress_log import LogPiece, join_pieces
from projections.words.account import EDITED
from service.files.align_lines import ForeignBytes, align_lines
from service.files.drift import is_state_file_unedited, was_written_by_wfctl
from service.files.file_changes import collect_file_changes, compute_file_changes
from service.files.log_view import read_log_view
from service.reading.log import WorkflowLog
from service.reading.stream_log import read_newest_event
from service.root.paths_within_root import OutsideRoot, content_within
from service.root.root import Root
from service.root.sync_record import Sync, Synced, read_sync_when_caught_up

if TYPE_CHECKING:
    from service.root.root import Root


STATE = state_document.FILE_NAME
LOG = progress_log.FILE_NAME
_MISSING = "is missing; the next command that writes creates it again"


class Difference(NamedTuple):
    """A generated file that differs from the log. ``kind`` is missing, behind or changed."""

    file: str
    kind: str
    expected: bytes
    found: bytes | None


class FilesInspection:
    """Compares ``workflow-state.json`` and ``progress.log`` with the log. Only reads."""

    def __init__(self, root: Root, log: WorkflowLog) -> None:
        self.root = root
        self.log = log

    def differences(self) -> list[Difference]:
        """Return each generated file that differs from the log.

        The whole files are compared with the content computed from all events.
        """
        sync, since = self._read_sync_and_version()
        contents = {name: content_within(self.root.path, name) for name in (STATE, LOG)}
        all_ = collect_file_changes(self.log.steps())
        if all_.state is None:
            return []
        state, lines = state_document.render_state(all_.state), join_pieces(all_.pieces)
        found: list[Difference] = []
        for name, expected in ((STATE, state), (LOG, lines)):
            content, left, kind = contents[name], sync.files.get(name), "missing"
            if content == expected:
                continue
            if content is not None and name == STATE:
                kind = self._classify_state_file(left, content, since)
            elif content is not None:
                kind = _classify_log_file(left, content, all_.pieces, since)
            if kind:
                found.append(Difference(name, kind, expected, content))
        return found

    def _read_sync_and_version(self) -> tuple[Sync, int]:
        """Return the remembered state of the files, and the version they should show."""
        last = read_newest_event(self.log.store, self.log.stream)
        sync = read_sync_when_caught_up(self.root.sync_file, (STATE, LOG), last)
        return sync, last.version if last is not None else 0

    def _classify_state_file(self, left: Synced | None, found: bytes, since: int) -> str:
        """Return ``behind`` or ``changed`` for a wrong state file, "" for a correct one."""
        if was_written_by_wfctl(self.log, max(since - 1, 0), found):
            return ""
        return "behind" if is_state_file_unedited(self.log, left, found) else "changed"

    def describe_file_problems(self) -> dict[str, str]:
        """Return a description of each file that is missing, edited or out of date.

        Correct files are left out.
        """
        sync, version = self._read_sync_and_version()
        texts: dict[str, str] = {}
        for name, look_at in (
            (STATE, self._describe_state_problem),
            (LOG, self._describe_log_problem),
        ):
            try:
                text = look_at(sync)
            except (OutsideRoot, NotRegular, TooLarge) as error:
                why = error.message if isinstance(error, OutsideRoot) else error.strerror
                text = f"cannot be read: {why}"
            if text is None and sync.version(name) < version:
                text = "is older than the log; the next command that writes updates it"
            if text is not None:
                texts[name] = text
        return texts

    def _describe_state_problem(self, sync: Sync) -> str | None:
        found = self.foreign_state(sync.files.get(STATE))
        if found is None:
            return None
        return EDITED if found or self.root.below(STATE).exists() else _MISSING

    def foreign_state(self, left: Synced | None) -> bytes | None:
        """Return the content of ``workflow-state.json`` if somebody edited it, else None.

        Return empty bytes if the file is missing.
        """
        found = content_within(self.root.path, STATE)
        if found is None:
            return b""
        return None if is_state_file_unedited(self.log, left, found) else found

    def _describe_log_problem(self, sync: Sync) -> str | None:
        view = read_log_view(self.root.path, LOG, sync.files.get(LOG), thorough=True)
        if view.mark is None:
            return _MISSING
        if not view.intact:
            return EDITED
        count = len(self.appended(sync)) if view.tail else 0
        told = (
            f"has {count} lines that wfctl did not write; the next command that writes records "
            "them in the log"
        )
        return told if count else None

    def appended(self, sync: Sync) -> list[ForeignBytes]:
        """Return unrecorded lines that other programs added to ``progress.log``."""
        left = sync.files.get(LOG)
        view = read_log_view(self.root.path, LOG, left, thorough=True)
        pending = compute_file_changes(self.log, sync.version(LOG), None, sync.version(LOG)).pieces
        fresh = left.fresh if left is not None else True
        return (
            align_lines(view.tail, fresh, pending, sync.version(LOG)).foreign if view.intact else []
        )


def _classify_log_file(
    left: Synced | None, found: bytes, pieces: Sequence[LogPiece], since: int
) -> str:
    known = [number for number, part in enumerate(pieces, 1) if part.recorded_version <= since]
    begins = join_pieces(pieces).startswith(found)
    if begins and len(found) >= len(join_pieces(pieces[: max(known, default=0)])):
        return ""
    return "behind" if begins and (left is None or left.is_start_of(found)) else "changed"


def describe_kept_version(drift: Drift) -> str:
    """Return a sentence with the place of an edited file that waits for a decision."""
    return (
        f"{drift.file} was changed by somebody else ({drift.kind}, found at version "
        f"{drift.version}); the changed file is kept as {drift.kept_as}. Run `wfctl drift "
        "show`, then `wfctl drift adopt` or `wfctl drift revert`"
    )
