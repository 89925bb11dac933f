"""Keep the state files of a machine up to date with its log.

Files are written atomically after the events are committed, under the locks of the folder and of
the protocol. Before a file is written, changes of other programs are recorded, or a copy is kept.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import EBUSY
from pathlib import Path

from eventstore.errors import EventStoreError, WrongExpectedVersion
from extensions.machines.rules.machine import Machine
from extensions.machines.rules.payload import MachineRecorded
from extensions.machines.service.errors import LockHeld, LockLost
from extensions.machines.service.foreign_changes import (
    MachineFileChanges,
    MachineFilesReader,
    is_unchanged_since_import,
)
from extensions.machines.service.log import MachineLog, is_newest_writer
from extensions.machines.views.documents import list_file_paths, render_files
from lifecycle.payload.base import Payload
from service.errors import FilesBehind, RootBusy
from service.reading.machine_streams import machine_folder
from service.reading.trust_marks import write_sync_with_new_anchor
from service.root.atomic_files import (
    Clock,
    Mark,
    content_of,
    file_change_fingerprint,
    hold_lock,
    replace_file_if_unchanged,
    system_clock,
    write_whole,
)
from service.root.paths_within_root import OutsideRoot, content_within, open_stable_path_within
from service.root.root import Root
from service.root.sync_record import Synced, digest, read_sync
from service.writing.stream_writer import StreamWriter

#: Maximum number of archived copies to keep among those that wfctl created.
KEPT = 5


def _note_path(notes: Path, folder: Path) -> Path:
    return notes / f"{folder.name}.json"


def _read_archive_note(notes: Path, folder: Path) -> dict[str, str]:
    """Return the files that wfctl wrote into an archive folder, with their SHA-256.

    The result is empty if wfctl did not create the archive.
    """
    try:
        found = json.loads(content_of(_note_path(notes, folder)) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _remove_archive(notes: Path, folder: Path) -> None:
    """Remove an archive folder of wfctl, except files that others added or changed."""
    for name, sha256 in _read_archive_note(notes, folder).items():
        path = folder / Path(name).name
        content = content_of(path)
        if content is not None and digest(content) == sha256:
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()
    _note_path(notes, folder).unlink()


def _archive_name(state: Machine, at: str) -> str:
    """Return the name of an archive folder, for example ``ID_20260331T100000Z``."""
    stamp = "".join(letter for letter in at[:19] if letter.isalnum())
    return f"{state.id}_{stamp}Z"


NAME = ".metadata.lock"
#: Seconds between two attempts to take the lock, and seconds after which a lock is considered
#: abandoned.
RETRY = 0.1
STALE = 30.0

Broken = Callable[[float], None]
"""Called after a stale lock was broken, with the age of that lock in seconds."""


@contextmanager
def hold_track_lock(folder: Path, broken: Broken, timeout: float = 60.0) -> Iterator[None]:
    """Hold the lock of a conductor track's folder during the `with` block.

    Raises `LockHeld` if the lock is not free within ``timeout`` seconds. Raises `LockLost` at the
    end if another program removed the lock in the meantime.
    """
    lock = folder / NAME
    _take_lock(lock, broken, timeout)
    ours = _read_lock_mark(lock)
    is_kept = False
    try:
        yield
    finally:
        # Remove the lock only if it is still the one taken above. Another program may have replaced
        # it.
        with suppress(FileNotFoundError):
            if _read_lock_mark(lock) == ours:
                lock.rmdir()
                is_kept = True
    if not is_kept:
        raise LockLost(
            f"another program removed the lock {lock} while wfctl was using it.",
            path=str(lock),
        )


def _read_lock_mark(lock: Path) -> Mark | None:
    """Return a mark that identifies the current lock, or None if there is no lock."""
    try:
        return file_change_fingerprint(lock.stat())
    except FileNotFoundError:
        return None


def _take_lock(lock: Path, broken: Broken, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            lock.mkdir()
        except FileExistsError:
            _remove_abandoned_lock(lock, broken)
            if time.monotonic() >= deadline:
                raise LockHeld(
                    (
                        f"another program has held the lock {lock} for {timeout:.0f} s. Try "
                        "again, or look for a process that no longer responds."
                    ),
                    path=str(lock),
                ) from None
            time.sleep(RETRY)
        else:
            return


def _remove_abandoned_lock(lock: Path, broken: Broken) -> None:
    """Remove the lock if it is abandoned, and report its age.

    The lock is renamed first, so that only one process can remove it.
    """
    try:
        age = time.time() - lock.stat().st_mtime
        if age < STALE:
            return
        aside = lock.with_name(f"{NAME}.broken.{os.getpid()}")
        lock.rename(aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside)
    broken(age)


_ROUNDS = 100


class MachineFiles:
    """The state files of one machine, which wfctl keeps up to date with its log."""

    def __init__(
        self, root: Root, log: MachineLog, writer: StreamWriter, clock: Clock = system_clock
    ) -> None:
        self.root = root
        self.log = log
        self._writer = writer
        self.look = MachineFilesReader(root, log, clock)
        self.sync_file = self.look.sync_file

    def record_foreign_changes(self) -> int:
        """Record the changes of other programs to the files, and update the files.

        Returns the number of recorded events. If no file has changed, nothing is done.
        """
        for path, left in read_sync(self.sync_file).files.items():
            found = content_within(self.root.path, path)
            if found is None or digest(found) != left.sha256:
                return self.bring_up_to_date()
        return 0

    def bring_up_to_date(self) -> int:
        """Record changes of other programs, then write the current state to the files.

        Returns the number of events recorded for these changes. Raises `FilesBehind` if the files
        cannot be written; the log is complete in this case.
        """
        try:
            with hold_lock(self.root.lock):
                return self._settle_files()
        except (OSError, EventStoreError, RootBusy, LockHeld, OutsideRoot) as error:
            head = self.log.store.head(self.log.stream)
            raise FilesBehind(head.version if head else 0, error) from error

    def _settle_files(self) -> int:
        recorded = 0
        broken: list[Payload] = []
        taken: set[bytes | None] = set()
        for _ in range(_ROUNDS):
            state = self.log.state()
            if state is None or not is_newest_writer(self.root, self.log.store, state):
                return recorded
            try:
                with self._own_lock(state, broken):
                    found = self.look.contents(state)
                    news = self.look.news(found, taken)
                    is_news = broken or news.taken or news.left
                    if not is_news and self._write_files(state, found):
                        return recorded
                recorded += self._append_foreign_changes(news, broken)
                taken |= {found[path] for path in news.taken}
            except (LockLost, WrongExpectedVersion):
                continue  # Others may have written or appended, so check everything again.
        raise OSError(
            EBUSY,
            "other programs keep changing the files of the machine. Try again later",
            str(self.root.path),
        )

    @contextmanager
    def _own_lock(self, state: Machine, broken: list[Payload]) -> Iterator[None]:
        """Hold the lock that the protocol of the machine defines, if there is one.

        If an abandoned lock had to be broken, an event about it is added to ``broken``.
        """
        for path in render_files(state):
            self.root.below(path).parent.mkdir(parents=True, exist_ok=True)
        if state.definition.protocol != "conductor":
            yield
            return

        def tell(age: float) -> None:
            broken.append(MachineRecorded(name="lock.broken", data={"age_seconds": round(age)}))

        (path,) = render_files(state)
        with hold_track_lock(self.root.below(path).parent, tell):
            yield

    def _append_foreign_changes(self, news: MachineFileChanges, broken: list[Payload]) -> int:
        """Record the changes of other programs. Return the number of recorded events."""
        head = news.head
        for path, taken in news.taken.items():
            self._writer.record_foreign_text(path, tuple(taken), head)
            head += len(taken)
        facts = [*broken, *(one.drift(self.root, news.state) for one in news.left)]
        for one in news.left:
            if one.found is not None:
                # Keep a foreign version that cannot be adopted in the archive of the protocol too,
                # where the user expects it.
                self._write_archive_folder(
                    news.state, news.state.updated, {Path(one.path).name: one.found}
                )
        if facts:
            self._writer.record_found(facts)
            broken.clear()
        return head - news.head + len(facts)

    def _write_files(self, state: Machine, contents: Mapping[str, bytes | None]) -> bool:
        """Write the outdated files. Return False if a file was changed in the meantime."""
        sync = read_sync(self.sync_file)
        for path, content in render_files(state).items():
            found = contents[path]
            if is_unchanged_since_import(state, sync.files.get(path), found):
                continue
            if found != content:
                with open_stable_path_within(self.root.path, path, make=True) as place:
                    if not replace_file_if_unchanged(place, content, found):
                        return False
            entry = Synced(self.log.stream, state.head, len(content), digest(content))
            sync = sync.having(path, entry)
        if state.is_final and "archive" in list_file_paths(state):
            move = state.last_move  # An imported machine that had already ended has no last move.
            at = move.at if move is not None else state.created
            self.archive_logged_files(self._state_before_cancellation(state), at)
        store, stream, stood = self.log.store, self.log.stream, f"in {state.phase}"
        if store.head(stream) is not None:
            write_sync_with_new_anchor(
                self.root, store, stream, read_sync(self.sync_file), sync, stood
            )
        return True

    def archive_place(self, state: Machine, at: str) -> str | None:
        """Return the relative path of the archive folder for a time, or None.

        None means that the protocol has no archive.
        """
        place = list_file_paths(state).get("archive")
        return f"{place}/{_archive_name(state, at)}" if place is not None else None

    def archive_logged_files(self, state: Machine, at: str) -> None:
        """Copy the files, as the log describes them, to the archive of the protocol.

        Nothing happens if the protocol has no archive.
        """
        files = {Path(path).name: content for path, content in render_files(state).items()}
        self._write_archive_folder(state, at, files)

    def _write_archive_folder(self, state: Machine, at: str, files: Mapping[str, bytes]) -> None:
        """Copy files to the folder ``{id}_{at}/`` in the archive of the protocol.

        ``at`` is a UTC time in the log's form. Existing copies are not overwritten. Only the last
        five archive folders of wfctl are kept.
        """
        place = list_file_paths(state).get("archive")
        if place is None:
            return
        folder = self.root.below(place)
        # Record in a separate file which archive folders wfctl created, because only these may be
        # removed later.
        target, notes = (
            folder / _archive_name(state, at),
            machine_folder(self.root).parent / "archives",
        )
        made = _read_archive_note(notes, target)
        is_ours = not target.exists() or bool(made)
        target.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            if not (target / name).exists():
                write_whole(target / name, content)
        if is_ours and files.keys() - made.keys():
            known = {**{name: digest(content) for name, content in files.items()}, **made}
            notes.mkdir(parents=True, exist_ok=True)
            write_whole(_note_path(notes, target), json.dumps(known).encode())
        ours = [
            path for path in folder.iterdir() if path.is_dir() and _read_archive_note(notes, path)
        ]
        # Sort the archive folders by the time of their creation, because the time in a name may
        # have been typed by a person.
        ours.sort(key=lambda path: (_note_path(notes, path).stat().st_mtime_ns, path.name))
        for old in ours[:-KEPT]:
            _remove_archive(notes, old)

    def _state_before_cancellation(self, state: Machine) -> Machine:
        """Return the state of a cancelled machine before its cancellation.

        The state of any other machine is returned unchanged.
        """
        if state.cancelled_at is None:
            return state
        events = self.log.store.read(self.log.stream)
        ends = [event.version for event in events if event.type == "machine.cancelled"]
        before = self.log.state(ends[-1] - 1) if ends and ends[-1] > 1 else None
        return before if before is not None else state

    def rebuild(self) -> list[str]:
        """Write all files again and return the paths of changed files.

        Changes of other programs are recorded or kept first.
        """
        expected = render_files(self.log.current())
        before = {path: content_within(self.root.path, path) for path in expected}
        self.bring_up_to_date()
        return [path for path, old in before.items() if content_within(self.root.path, path) != old]
