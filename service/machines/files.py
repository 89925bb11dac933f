"""The files of a machine, brought up to date from its log.

Written after the commit, under the root's lock and that of the protocol, atomically. What
somebody else wrote is kept or taken over before anything is written.
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
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import MachineRecorded
from lifecycle.payload.base import Payload
from projections.machines.documents import paths, rendered
from service.errors import FilesBehind, RootBusy
from service.machines.errors import LockHeld, LockLost
from service.machines.log import MachineLog, folder_of, is_writer
from service.machines.news import FilesLook, News, is_as_imported
from service.reading.trust_marks import move_anchor
from service.root.disk import (
    Clock,
    Mark,
    OutsideRoot,
    content_of,
    content_within,
    locked,
    mark_of,
    place_within,
    system_clock,
    write_over,
    write_whole,
)
from service.root.root import Root, Synced, digest, read_sync
from service.writing.stream_writer import StreamWriter

#: So many archives are kept beside those of others.
KEPT = 5


def _note(notes: Path, folder: Path) -> Path:
    return notes / f"{folder.name}.json"


def _made(notes: Path, folder: Path) -> dict[str, str]:
    """Return the files that were put into an archive here, with their SHA-256 in hex."""
    try:
        found = json.loads(content_of(_note(notes, folder)) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _take_away(notes: Path, folder: Path) -> None:
    """Remove what was made here and is as it was; what others put there or changed stays."""
    for name, sha256 in _made(notes, folder).items():
        path = folder / Path(name).name
        content = content_of(path)
        if content is not None and digest(content) == sha256:
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()
    _note(notes, folder).unlink()


def _name(state: Machine, at: str) -> str:
    """Return what an archive is called: ``ID_20260331T100000Z``; people type times too."""
    stamp = "".join(letter for letter in at[:19] if letter.isalnum())
    return f"{state.id}_{stamp}Z"


NAME = ".metadata.lock"
#: Seconds between two tries, seconds after which a lock is taken for a dead holder's.
RETRY = 0.1
STALE = 30.0

Broken = Callable[[float], None]
"""Is told of a lock that was broken: how old it was, in seconds."""


@contextmanager
def metadata_lock(folder: Path, broken: Broken, timeout: float = 60.0) -> Iterator[None]:
    """Hold the lock of a track's folder; raises `LockHeld` after ``timeout`` seconds.

    Raises `LockLost` at the end where another took it for a dead holder's in the meantime.
    """
    lock = folder / NAME
    _take(lock, broken, timeout)
    ours = _mark(lock)
    is_kept = False
    try:
        yield
    finally:
        # It may be another's by now.
        with suppress(FileNotFoundError):
            if _mark(lock) == ours:
                lock.rmdir()
                is_kept = True
    if not is_kept:
        raise LockLost(
            f"{lock}: expected it to be ours until it is given back, found that another program "
            "had broken it.",
            path=str(lock),
        )


def _mark(lock: Path) -> Mark | None:
    """Return what tells this lock from one of another holder; None if there is no lock."""
    try:
        return mark_of(lock.stat())
    except FileNotFoundError:
        return None


def _take(lock: Path, broken: Broken, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            lock.mkdir()
        except FileExistsError:
            _break_if_dead(lock, broken)
            if time.monotonic() >= deadline:
                raise LockHeld(
                    f"{lock}: expected it to be given back within {timeout:.0f} s; another "
                    "program holds it. Try again, or look for a process that hangs.",
                    path=str(lock),
                ) from None
            time.sleep(RETRY)
        else:
            return


def _break_if_dead(lock: Path, broken: Broken) -> None:
    """Remove a lock that is older than any holder keeps it; only one breaker gets it."""
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
    """The files of one machine in one root."""

    def __init__(
        self, root: Root, log: MachineLog, writer: StreamWriter, clock: Clock = system_clock
    ) -> None:
        self.root = root
        self.log = log
        self._writer = writer
        self.look = FilesLook(root, log, clock)
        self.sync_file = self.look.sync_file

    def take_in(self) -> int:
        """Record what others did to the files; return how many events that took."""
        for path, left in read_sync(self.sync_file).files.items():
            found = content_within(self.root.path, path)
            if found is None or digest(found) != left.sha256:
                return self.bring_up_to_date()
        return 0

    def bring_up_to_date(self) -> int:
        """Make the files show the log's head; return how many events of others' doing it took.

        Raises `FilesBehind` where the disk does not let it; the log holds everything then.
        """
        try:
            with locked(self.root.lock):
                return self._settle()
        except (OSError, EventStoreError, RootBusy, LockHeld, OutsideRoot) as error:
            head = self.log.store.head(self.log.stream)
            raise FilesBehind(head.version if head else 0, error) from error

    def _settle(self) -> int:
        recorded = 0
        broken: list[Payload] = []
        taken: set[bytes | None] = set()
        for _ in range(_ROUNDS):
            state = self.log.state()
            if state is None or not is_writer(self.root, self.log.store, state):
                return recorded
            try:
                with self._own_lock(state, broken):
                    found = self.look.contents(state)
                    news = self.look.news(found, taken)
                    is_news = broken or news.taken or news.left
                    if not is_news and self._write(state, found):
                        return recorded
                recorded += self._record(news, broken)
                taken |= {found[path] for path in news.taken}
            except (LockLost, WrongExpectedVersion):
                continue  # others may have written, or appended: all is looked at again
        raise OSError(EBUSY, "others keep writing to the files", str(self.root.path))

    @contextmanager
    def _own_lock(self, state: Machine, broken: list[Payload]) -> Iterator[None]:
        """Hold the protocol's own lock, where it has one; what is to be said of it is added."""
        for path in rendered(state):
            self.root.below(path).parent.mkdir(parents=True, exist_ok=True)
        if state.definition.protocol != "conductor":
            yield
            return

        def tell(age: float) -> None:
            broken.append(MachineRecorded(name="lock.broken", data={"age_seconds": round(age)}))

        (path,) = rendered(state)
        with metadata_lock(self.root.below(path).parent, tell):
            yield

    def _record(self, news: News, broken: list[Payload]) -> int:
        """Record what others did; return how many events that took."""
        head = news.head
        for path, taken in news.taken.items():
            self._writer.record_of_file(path, tuple(taken), head)
            head += len(taken)
        facts = [*broken, *(one.drift(self.root, news.state) for one in news.left)]
        for one in news.left:
            if one.found is not None:
                # What others broke is kept in the protocol's own archive too.
                self._keep(news.state, news.state.updated, {Path(one.path).name: one.found})
        if facts:
            self._writer.record_found(facts)
            broken.clear()
        return head - news.head + len(facts)

    def _write(self, state: Machine, contents: Mapping[str, bytes | None]) -> bool:
        """Write what is not as it should be; False if others wrote since it was looked at."""
        sync = read_sync(self.sync_file)
        for path, content in rendered(state).items():
            found = contents[path]
            if is_as_imported(state, sync.files.get(path), found):
                continue
            if found != content:
                with place_within(self.root.path, path, make=True) as place:
                    if not write_over(place, content, found):
                        return False
            entry = Synced(self.log.stream, state.head, len(content), digest(content))
            sync = sync.having(path, entry)
        if state.is_final and "archive" in paths(state):
            move = state.last_move  # none where it was taken over as it had ended
            at = move.at if move is not None else state.created
            self.archive_as_it_is(self._before_the_end(state), at)
        store, stream, stood = self.log.store, self.log.stream, f"in {state.phase}"
        if store.head(stream) is not None:
            move_anchor(self.root, store, stream, read_sync(self.sync_file), sync, stood)
        return True

    def archive_place(self, state: Machine, at: str) -> str | None:
        """Return the folder that keeps what ends at a time, relative to the root, None for none."""
        place = paths(state).get("archive")
        return f"{place}/{_name(state, at)}" if place is not None else None

    def archive_as_it_is(self, state: Machine, at: str) -> None:
        """Keep the files as the log has them, where the protocol has an archive."""
        files = {Path(path).name: content for path, content in rendered(state).items()}
        self._keep(state, at, files)

    def _keep(self, state: Machine, at: str, files: Mapping[str, bytes]) -> None:
        """Keep files as ``{id}_{at}/`` in the protocol's archive; ``at`` is UTC, the log's form.

        What was kept before stays as it was; the oldest of ours beyond the last five go.
        """
        place = paths(state).get("archive")
        if place is None:
            return
        folder = self.root.below(place)
        # Beside the machines it is remembered which archives were made here.
        target, notes = folder / _name(state, at), folder_of(self.root).parent / "archives"
        made = _made(notes, target)
        is_ours = not target.exists() or bool(made)
        target.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            if not (target / name).exists():
                write_whole(target / name, content)
        if is_ours and files.keys() - made.keys():
            known = {**{name: digest(content) for name, content in files.items()}, **made}
            notes.mkdir(parents=True, exist_ok=True)
            write_whole(_note(notes, target), json.dumps(known).encode())
        ours = [path for path in folder.iterdir() if path.is_dir() and _made(notes, path)]
        # The name need not say when an archive was made: people type times too.
        ours.sort(key=lambda path: (_note(notes, path).stat().st_mtime_ns, path.name))
        for old in ours[:-KEPT]:
            _take_away(notes, old)

    def _before_the_end(self, state: Machine) -> Machine:
        """Return one that was given up as it was before."""
        if state.cancelled_at is None:
            return state
        events = self.log.store.read(self.log.stream)
        ends = [event.version for event in events if event.type == "machine.cancelled"]
        before = self.log.state(ends[-1] - 1) if ends and ends[-1] > 1 else None
        return before if before is not None else state

    def rebuild(self) -> list[str]:
        """Write every file anew; what others changed is kept first. Return those that changed."""
        expected = rendered(self.log.current())
        before = {path: content_within(self.root.path, path) for path in expected}
        self.bring_up_to_date()
        return [path for path, old in before.items() if content_within(self.root.path, path) != old]
