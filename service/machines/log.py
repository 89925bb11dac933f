"""The log of one machine: its stream, folded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eventstore.chain import START, Link
from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from lifecycle.machines.errors import StateNotFound
from lifecycle.machines.evolve import steps
from lifecycle.machines.machine import Machine
from service.errors import NotFound
from service.machines.consent import Judge
from service.reading.moment import Moment
from service.reading.set_aside import as_folded

PREFIX = "machine-"
At = Moment | int | None


class MachineLog:
    """One stream of a store, read as a machine. ``root`` is the folder it is read for."""

    def __init__(self, store: EventStore, machine: str, root: Path) -> None:
        self.store = store
        self.machine = machine
        self.stream = PREFIX + machine
        self.root = root
        self._judge = Judge(store, self.stream, root)
        self._folded: Machine | None = None
        self._end = START

    def state(self, at: At = None) -> Machine | None:
        """Return the state now or as it was, None where there was none; not to be changed."""
        if at is None:
            return self._now()
        found: Machine | None = None
        for _, state in self.steps(upto=at):
            found = state
        return found

    def _now(self) -> Machine | None:
        """Fold what came since the last look, if that still is where the log stood then."""
        head = self.store.head(self.stream)
        if head is None or (head.version, head.hash) == self._end:
            return self._folded if head is not None else None
        if not self._stands():
            self._judge = Judge(self.store, self.stream, self.root)
            self._folded, self._end = None, START
        draft = self._folded.draft() if self._folded is not None else None
        events = self.store.read(self.stream, after=self._end.version)
        for event, state in self._steps(draft, events, self._judge):
            self._folded, self._end = state, Link(event.version, event.hash)
        return self._folded

    def _stands(self) -> bool:
        """Whether the event at which the last look ended is there as it was."""
        if self._folded is None:
            return False
        found = next(
            self.store.raw(self.stream, after=self._end.version - 1, upto=self._end.version), None
        )
        return found is not None and found.hash == self._end.hash

    def current(self, at: At = None) -> Machine:
        """Return the state now or as it was; raises `StateNotFound`, `NotFound`.

        Raises `InvalidOption` for a session, which a machine has none of.
        """
        if at is not None:
            self._require(at)
        found = self.state(at)
        if found is not None:
            return found
        if at is None:
            raise self._unknown()
        raise NotFound(
            f"no machine {self.machine!r} yet ({at}); its log begins with version 1",
            machine=self.machine,
        )

    def _require(self, at: Moment | int) -> None:
        """Raise `StateNotFound` for no machine, `NotFound` for a version that is yet to come."""
        head = self.store.head(self.stream)
        if head is None:
            raise self._unknown()
        version = at.version if isinstance(at, Moment) else at
        if version is not None and version > head.version:
            raise NotFound(
                f"no version {version}: the log ends at version {head.version}", version=version
            )

    def _unknown(self) -> StateNotFound:
        return StateNotFound(self.machine, list(machines_in(self.store)))

    def steps(self, after: int = 0, upto: At = None) -> Iterator[tuple[RecordedEvent, Machine]]:
        """Yield each event after version ``after`` with the state once it is folded in.

        The state is one object, changed from step to step.
        """
        judge = Judge(self.store, self.stream, self.root)
        for event, state in self._steps(None, self._events(upto), judge):
            if event.version > after:
                yield event, state

    def along(self, events: Iterator[RecordedEvent]) -> Iterator[tuple[RecordedEvent, Machine]]:
        """Yield events that begin with the stream's first, as `steps` does."""
        return self._steps(None, events, Judge(self.store, self.stream, self.root))

    def _steps(
        self, draft: Machine | None, events: Iterator[RecordedEvent], judge: Judge
    ) -> Iterator[tuple[RecordedEvent, Machine]]:
        for event, state in steps(draft, judge.judged(events), judge.accepted):
            judge.state = state
            yield as_folded(event, state), state

    def ineffective(self) -> dict[int, str]:
        """Return the approvals that count for nothing: version → why."""
        judge = Judge(self.store, self.stream, self.root)
        for _ in self._steps(None, self._events(None), judge):
            pass
        return judge.refused

    def _events(self, upto: At) -> Iterator[RecordedEvent]:
        if isinstance(upto, Moment):
            return upto.seen(self.store.read(self.stream, upto=upto.version))
        return self.store.read(self.stream, upto=upto)


def machines_in(store: EventStore) -> Iterator[str]:
    """Yield the ids of the machines of a store, sorted."""
    for stream in store.streams():
        if stream.startswith(PREFIX):
            yield stream.removeprefix(PREFIX)
