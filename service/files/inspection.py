"""Looking at the files without touching them: nothing is written, no lock is taken."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eventstore.private import NotRegular, TooLarge
from lifecycle.state.dependencies import needed_by
from lifecycle.state.workflow import Drift, Stage, Workflow
from projections.files import progress_log, state_document
from projections.files.progress_log import LogPiece, joined
from projections.screens.starting import Surroundings, is_due
from projections.words.account import EDITED
from service.consent.scripts import INIT, others
from service.errors import NotFound
from service.files.external_lines import ForeignBytes, align, look, trail, was_written, whole
from service.reading.log import WorkflowLog
from service.reading.stream_log import newest
from service.root.root import Root
from service.root.safe_open import OutsideRoot, content_within
from service.root.sync import Sync, Synced, caught_up, digest

if TYPE_CHECKING:
    from projections.words.account import Seen


STATE = state_document.FILE_NAME
LOG = progress_log.FILE_NAME


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not what the log says; ``kind``: missing, behind, or changed."""

    file: str
    kind: str
    expected: bytes
    found: bytes | None


class FilesInspection:
    """``workflow-state.json`` and ``progress.log`` of one root, to be looked at."""

    def __init__(self, root: Root, log: WorkflowLog) -> None:
        self.root = root
        self.log = log

    def differences(self) -> list[Difference]:
        """Compare the files with the log, whole, folded from its first event.

        Others may write meanwhile. Each file is held to a version between the log's head before it
        was read and the one after: the log is read last, so it has all that the file can show.
        """
        sync, since = self._caught_up()
        found = {name: content_within(self.root.path, name) for name in (STATE, LOG)}
        all_ = whole(self.log.steps())
        if all_.state is None:
            return []
        compared = (
            self._state_difference(sync.files.get(STATE), found[STATE], all_.state, since),
            _log_difference(sync.files.get(LOG), found[LOG], all_.pieces, since),
        )
        return [difference for difference in compared if difference is not None]

    def _caught_up(self) -> tuple[Sync, int]:
        """Return what is remembered of the files, and the version that they are to show."""
        last = newest(self.log.store, self.log.stream)
        sync = caught_up(self.root.sync_file, (STATE, LOG), last)
        return sync, last.version if last is not None else 0

    def _state_difference(
        self, left: Synced | None, found: bytes | None, state: Workflow, since: int
    ) -> Difference | None:
        expected = state_document.render(state)
        if found is None:
            return Difference(STATE, "missing", expected, None)
        if found == expected or was_written(self.log, max(since - 1, 0), found):
            return None
        kind = "changed" if self._is_foreign(left, found) else "behind"
        return Difference(STATE, kind, expected, found)

    def looked(self) -> dict[str, str]:
        """Say of a file that it is missing, changed by somebody else, or behind the log."""
        sync, version = self._caught_up()
        looks = {
            STATE: lambda: self._of_state(sync.files.get(STATE)),
            LOG: lambda: self._of_log(sync),
        }
        texts = {name: _told(look) for name, look in looks.items()}
        for name, text in texts.items():
            if text is None and sync.version(name) < version:
                texts[name] = "is behind the log; the next write command brings it up to date"
        return {name: text for name, text in texts.items() if text is not None}

    def _of_state(self, left: Synced | None) -> str | None:
        found = self.foreign_state(left)
        if found is None:
            return None
        if found == b"" and not self.root.below(STATE).exists():
            return "is missing; the next write command writes it anew"
        return EDITED

    def foreign_state(self, left: Synced | None) -> bytes | None:
        """Return a ``workflow-state.json`` that wfctl did not write, empty where it is missing."""
        found = content_within(self.root.path, STATE)
        if found is None:
            return b""
        return found if self._is_foreign(left, found) else None

    def _is_foreign(self, left: Synced | None, found: bytes) -> bool:
        if left is not None and left.sha256 == digest(found):
            return False
        return not was_written(self.log, left.version if left else 0, found)

    def _of_log(self, sync: Sync) -> str | None:
        left = sync.files.get(LOG)
        view = look(self.root.path, LOG, left, thorough=True)
        if view.mark is None:
            return "is missing; the next write command writes it anew"
        if not view.intact:
            return EDITED
        if not view.tail:
            return None
        count = len(self.appended(sync))
        if not count:
            return None
        return f"has {count} lines of somebody else's; the next write command records them"

    def log_is_intact(self, sync: Sync) -> bool:
        """Whether ``progress.log`` begins with every byte that was left in it."""
        return look(self.root.path, LOG, sync.files.get(LOG), thorough=True).intact

    def appended(self, sync: Sync) -> list[ForeignBytes]:
        """Return what somebody else appended to ``progress.log`` and nobody recorded yet."""
        left = sync.files.get(LOG)
        view = look(self.root.path, LOG, left, thorough=True)
        pending = trail(self.log, sync.version(LOG), None, sync.version(LOG)).pieces
        fresh = left.fresh if left is not None else True
        return align(view.tail, fresh, pending, sync.version(LOG)).foreign if view.intact else []


def _log_difference(
    left: Synced | None, found: bytes | None, pieces: Sequence[LogPiece], since: int
) -> Difference | None:
    expected = joined(pieces)
    if found is None:
        return Difference(LOG, "missing", expected, None)
    if found == expected:
        return None
    known = [number for number, part in enumerate(pieces, 1) if part.recorded <= since]
    begins = expected.startswith(found)
    if begins and len(found) >= len(joined(pieces[: max(known, default=0)])):
        return None
    is_behind = begins and (left is None or left.shows(found))
    return Difference(LOG, "behind" if is_behind else "changed", expected, found)


def kept(drift: Drift) -> str:
    """Say where a version of somebody else's is kept until somebody decides."""
    return (
        f"{drift.file}: a version of somebody else's ({drift.kind}), found at version "
        f"{drift.version}, is kept as {drift.kept_as}; `wfctl drift show`, then adopt or revert it"
    )


def _told(look: Callable[[], str | None]) -> str | None:
    """Return what a look at a file told, or why there could be none."""
    try:
        return look()
    except OutsideRoot as error:
        return f"cannot be looked at: {error.message}"
    except (NotRegular, TooLarge) as error:
        return f"cannot be looked at: {error.strerror}"


#: While this file lies in the root, the runner begins nothing.
PAUSE = "PAUSE"
#: Held by the loop that drives the workflow, and by the runner that starts it, below ``.wfctl/``.
_LOCKS = ("run.lock", "runner.lock")
#: Where what ``init.sh`` printed is kept, below ``.wfctl/``.
SESSIONS = "sessions"
_STATE, _PREPARED = "workflow-state.json", "submission.json"


def surroundings(
    root: Root, state: Workflow, log: WorkflowLog | None = None, seen: Seen | None = None
) -> Surroundings:
    """Return what is so around a workflow now; reads, and takes no lock.

    ``seen`` is what a look at the files found; without a ``log`` no hand edit is compared.
    """
    due = [stage for stage in state.stages.values() if is_due(state, stage)]
    lacking = ((stage.id, next(_missing(root.path, state, stage), None)) for stage in due)
    silent = [stage.id for stage in due if not stage.parameters.get("command")]
    return Surroundings(
        driven=any(_is_held(root.folder / lock) for lock in _LOCKS),
        paused=(root.path / PAUSE).exists(),
        lacking={id_: found for id_, found in lacking if found is not None},
        edited=edits(root, state, log, seen) if log is not None else None,
        scripts=others(root.path, state) if due else (),
        session=_refused(root, state) if due else None,
        prepared=frozenset(id_ for id_ in silent if (root.path / id_ / _PREPARED).is_file()),
        seen=seen,
    )


def _missing(root: Path, state: Workflow, stage: Stage) -> Iterator[str]:
    for path in needed_by(state, stage):
        place = root / path
        if not place.exists():
            yield f"the input {path}, which is missing"
        elif place.is_file() and not place.stat().st_size:
            yield f"the input {path}, which is empty"


def edits(
    root: Root, state: Workflow, log: WorkflowLog, seen: Seen | None = None
) -> dict[str | None, list[str]] | None:
    """Return the fields that were edited by hand, by stage; compared only where a file differs.

    None where a version that was kept is gone, and the log alone tells of it.
    """
    if not state.drifts and (seen is None or _STATE not in seen.edited):
        return {}
    from service.files.foreign_changes import undecided

    found: dict[str | None, list[str]] = {}
    try:
        for edit in undecided(root, log, state):
            found.setdefault(edit.stage, []).append(edit.field)
    except NotFound:
        return None
    return found


def _refused(root: Root, state: Workflow) -> str | None:
    """Say why no session could begin, where ``init.sh`` failed and nobody changed it since."""
    name = f"{state.session.count + 1}.{INIT.removesuffix('.sh')}"
    kept = max((root.folder / SESSIONS).glob(f"{name}*.log"), default=None, key=_written)
    script = root.path / INIT
    gone_on_in = state.session.is_open and not state.session.driven
    if kept is None or gone_on_in or not script.is_file():
        return None
    if _written(script) > _written(kept):
        return None
    return f"{INIT} that exits 0 (what it printed is in {kept.relative_to(root.path)})"


def _written(path: Path) -> float:
    return path.stat().st_mtime


def _is_held(lock: Path) -> bool:
    """Whether somebody holds a lock, as the system tells it; False where it does not tell."""
    try:
        status = lock.stat()
        held = Path("/proc/locks").read_text("ascii")
    except OSError:
        return False
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino} "
    return place in held
