"""The files of a machine, brought up to date from its log.

Written after the commit, under the root's lock and that of the protocol, atomically. What
somebody else wrote is kept or taken over before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EBUSY
from pathlib import Path

from eventstore.errors import EventStoreError, WrongExpectedVersion
from lifecycle.machines.machine import Machine
from lifecycle.machines.payload import MachineRecorded
from lifecycle.payload.base import Payload
from projections.machines.documents import paths, rendered
from service.errors import FilesBehind, RootBusy
from service.machines import archive
from service.machines.errors import LockHeld, LockLost
from service.machines.foreign import drift
from service.machines.log import MachineLog
from service.machines.metadata_lock import metadata_lock
from service.machines.news import FilesLook, LeftForeign, News, is_as_imported
from service.machines.place import folder_of, is_writer
from service.reading.trust_marks import move_anchor
from service.root.below import OutsideRoot
from service.root.clock import Clock, system_clock
from service.root.disk import locked, write_over
from service.root.root import Root
from service.root.sync import Sync, Synced, digest, read_sync
from service.root.within import content_within, place_within
from service.writing.stream_writer import StreamWriter

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
        sync = read_sync(self.sync_file)
        for path, left in sync.files.items():
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
                    if not (broken or news.count) and self._write(state, found):
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
            (self.root.below(path)).parent.mkdir(parents=True, exist_ok=True)
        if state.definition.protocol != "conductor":
            yield
            return
        (path,) = rendered(state)
        with metadata_lock((self.root.below(path)).parent, lambda age: broken.append(_broken(age))):
            yield

    def _record(self, news: News, broken: list[Payload]) -> int:
        """Record what others did; return how many events that took."""
        head = news.head
        for path, taken in news.taken.items():
            self._writer.record_of_file(path, tuple(taken), head)
            head += len(taken)
        facts = [*broken, *(self._drift(news, one) for one in news.left)]
        if facts:
            self._writer.record_found(facts)
            broken.clear()
        return head - news.head + len(facts)

    def _drift(self, news: News, left: LeftForeign) -> Payload:
        """Keep a foreign version, in the protocol's own archive too."""
        known = drift(self.root, news.state, left.path, left.base, left.found, left.known)
        self._keep_broken(news.state, left.path, left.found)
        return known

    def _write(self, state: Machine, contents: Mapping[str, bytes | None]) -> bool:
        """Write what is not as it should be; False where others wrote since it was looked at."""
        sync = read_sync(self.sync_file)
        for path, content in rendered(state).items():
            found = contents[path]
            if is_as_imported(state, sync.files.get(path), found):
                continue
            if found != content and not self._write_over(path, content, found):
                return False
            sync = sync.having(
                path, Synced(self.log.stream, state.head, len(content), digest(content))
            )
        self._archive(state)
        self._note(sync, f"in {state.phase}")
        return True

    def _write_over(self, path: str, content: bytes, found: bytes | None) -> bool:
        with place_within(self.root.path, path, make=True) as place:
            return write_over(place, content, found)

    def _note(self, sync: Sync, stood: str) -> None:
        store, stream = self.log.store, self.log.stream
        if store.head(stream) is not None:
            move_anchor(self.root, store, stream, read_sync(self.sync_file), sync, stood)

    def archive_place(self, state: Machine, at: str) -> str | None:
        """Return the folder that keeps what ends at a time, relative to the root, None for none."""
        place = paths(state).get("archive")
        return f"{place}/{state.id}_{archive.stamp(at)}" if place is not None else None

    def archive_as_it_is(self, state: Machine, at: str) -> None:
        """Keep the files as the log has them, where the protocol has an archive."""
        place = paths(state).get("archive")
        if place is not None:
            files = {Path(path).name: content for path, content in rendered(state).items()}
            archive.keep(self.root.below(place), self._notes, state.id, at, files)

    def _archive(self, state: Machine) -> None:
        """Keep a workflow that ended; one that was given up as it was before."""
        if state.is_final and paths(state).get("archive") is not None:
            move = state.last_move  # none where it was taken over as it had ended
            at = move.at if move is not None else state.created
            self.archive_as_it_is(self._before_the_end(state), at)

    def _before_the_end(self, state: Machine) -> Machine:
        if state.cancelled_at is None:
            return state
        events = self.log.store.read(self.log.stream)
        ends = [event.version for event in events if event.type == "machine.cancelled"]
        before = self.log.state(ends[-1] - 1) if ends and ends[-1] > 1 else None
        return before if before is not None else state

    def _keep_broken(self, state: Machine, path: str, found: bytes | None) -> None:
        """Keep a file that others broke in the protocol's own archive too."""
        place = paths(state).get("archive")
        if place is not None and found is not None:
            name = {Path(path).name: found}
            archive.keep(self.root.below(place), self._notes, state.id, state.updated, name)

    @property
    def _notes(self) -> Path:
        """Where it is remembered which archives were made here."""
        return folder_of(self.root).parent / "archives"

    def rebuild(self) -> list[str]:
        """Write every file anew; what others changed is kept first. Return those that changed."""
        expected = rendered(self.log.current())
        before = {path: content_within(self.root.path, path) for path in expected}
        self.bring_up_to_date()
        return [path for path, old in before.items() if content_within(self.root.path, path) != old]


def _broken(age: float) -> Payload:
    return MachineRecorded(name="lock.broken", data={"age_seconds": round(age)})
