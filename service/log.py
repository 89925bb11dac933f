"""The log of one workflow: its stream, folded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eventstore.event import RecordedEvent
from eventstore.store import EventStore, StoredFold
from lifecycle.errors import NoWorkflow
from lifecycle.evolve import REDUCER, steps
from lifecycle.workflow import Workflow
from service import stored_fold
from service.approvals import Approvals, Current
from service.errors import NotFound
from service.moment import Moment, session_end

At = Moment | int | None
"""A moment, or the version it stands for; None: now."""

#: A fold is stored once the log has grown by this many events since the last one.
FOLD_EVERY = 500


class WorkflowLog:
    """One stream of a store, read as a workflow.

    ``root`` is the folder it is read for, by which a log that was put in another's place is
    known.
    """

    def __init__(self, store: EventStore, stream: str, root: Path | None = None) -> None:
        self.store = store
        self.stream = stream
        self.approvals = Approvals(store, stream, root)
        self._folded_at = 0

    def state(self, at: At = None) -> Workflow | None:
        """Return the state now, or as it was at a moment; None where nothing was yet."""
        moment = self.resolved(at)
        if moment.so_by is not None or moment.known_by is not None:
            return self._fold(None, self._seen(moment))
        start = self._stored(moment.version)
        after = start.head if start is not None else 0
        read = self.store.read(self.stream, after=after, upto=moment.version)
        return self._fold(start, read)

    def events(self, at: At = None) -> Iterator[RecordedEvent]:
        """Yield the events that belong to the view from a moment, from the first."""
        return self._seen(self.resolved(at))

    def _seen(self, moment: Moment) -> Iterator[RecordedEvent]:
        if moment.so_by is not None:
            self._judge_all(moment)
        return moment.seen(self.store.read(self.stream, upto=moment.version))

    def resolved(self, at: At) -> Moment:
        """Return the moment with a session's end as a version; raises `NotFound`."""
        moment = at if isinstance(at, Moment) else Moment(version=at)
        if moment.session is not None:
            moment = self._at_end_of(moment.session, moment)
        self.require(moment.version)
        return moment

    def _at_end_of(self, session: int, at: Moment) -> Moment:
        end = session_end(self.store.read(self.stream), session)
        if end is None:
            raise NotFound(
                f"no session {session} in the log; `wfctl audit costs` lists those there are",
                session=session,
            )
        version = end if at.version is None else min(end, at.version)
        return Moment(version, at.so_by, at.known_by)

    def replayed(self, at: At = None) -> Workflow:
        """Return the state folded from the first event; raises `NoWorkflow`, `NotFound`."""
        return self._some(self._fold(None, self.events(at)), at)

    def stored_differs(self) -> bool:
        """Whether the stored fold is not what the log yields."""
        fold = self.store.load_fold(self.stream, stored_fold.NAME, REDUCER)
        return fold is not None and fold.state != stored_fold.to_bytes(self.replayed(fold.version))

    def current(self, at: At = None) -> Workflow:
        """Return the state now or at a moment; raises `NoWorkflow`, `NotFound`."""
        return self._some(self.state(at), at)

    def _some(self, state: Workflow | None, at: At) -> Workflow:
        if state is not None:
            return state
        first = next(iter(self.store.read(self.stream, upto=1)), None)
        if first is None:
            raise NoWorkflow(
                "the log holds no workflow; `wfctl init PLAN` makes one.", stream=self.stream
            )
        raise NoWorkflow(
            f"nothing had happened yet ({at}): the first event, version 1, was so at "
            f"{first.occurred_at} and was recorded at {first.recorded_at}. Name a later moment.",
            stream=self.stream,
            occurred_at=first.occurred_at,
            recorded_at=first.recorded_at,
        )

    def require(self, version: int | None) -> None:
        """Raise `NotFound` for a version that the log has not come to."""
        if version is None:
            return
        head = self.store.head(self.stream)
        end = head.version if head is not None else 0
        if version > end:
            raise NotFound(f"no version {version}: the log ends at version {end}", version=end)

    def evolve(self, state: Workflow | None, events: Iterator[RecordedEvent]) -> Workflow | None:
        """Return ``state`` with further events folded in."""
        return self._fold(state.draft() if state is not None else None, events)

    def steps(
        self, after: int = 0, start: Workflow | None = None, upto: At = None
    ) -> Iterator[tuple[RecordedEvent, Workflow]]:
        """Yield each event after version ``after`` with the state once it is folded in.

        The state is one object, changed from step to step. ``start`` is the state at ``after``
        where the caller has it; ``upto`` ends the reading.
        """
        if upto is not None:
            yield from self._steps(None, self.events(upto))
            return
        if start is None and after:
            start = self.state(after)
        draft = start.draft() if start is not None else None
        events = self.store.read(self.stream, after=after)
        yield from self._steps(draft, events)

    def along(self, events: Iterator[RecordedEvent]) -> Iterator[tuple[RecordedEvent, Workflow]]:
        """Yield events that begin with the stream's first, as `steps` does."""
        return self._steps(None, events)

    def _steps(
        self, draft: Workflow | None, events: Iterator[RecordedEvent]
    ) -> Iterator[tuple[RecordedEvent, Workflow]]:
        current = Current(draft)
        judged = self.approvals.judged(events, current)
        for event, state in steps(draft, judged, self.approvals.accepted):
            current.state = state
            yield event, state

    def _fold(self, draft: Workflow | None, events: Iterator[RecordedEvent]) -> Workflow | None:
        for _, folded in self._steps(draft, events):
            draft = folded
        return draft

    def _judge_all(self, moment: Moment) -> None:
        """Judge every approval where it stands among all that was known, before a part is folded.

        An approval is judged by the state that it was given in, whatever is left out of the view.
        """
        known = Moment(moment.version, known_by=moment.known_by)
        self._fold(None, self._seen(known))

    def _stored(self, at: int | None) -> Workflow | None:
        fold = self.store.load_fold(self.stream, stored_fold.NAME, REDUCER)
        if fold is None or (at is not None and fold.version > at):
            return None
        self._folded_at = fold.version
        state = stored_fold.from_bytes(fold.state)
        return None if self.approvals.bars_stored_folds(state) else state

    def keep_fold(self, state: Workflow) -> bool:
        """Store the fold where the log has grown enough since the last one; whether it had."""
        if state.head - self._folded_at < FOLD_EVERY or state.consent == "signature":
            return False
        content = stored_fold.to_bytes(state)
        self.store.save_fold(
            StoredFold(self.stream, stored_fold.NAME, REDUCER, state.head, content)
        )
        self._folded_at = state.head
        return True


def newest(store: EventStore, stream: str) -> RecordedEvent | None:
    """Return the last event of a stream, None where there is none."""
    head = store.head(stream)
    return None if head is None else next(store.read(stream, after=head.version - 1), None)
