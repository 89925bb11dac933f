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
from service.moment import Moment, what_was_so

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

    def state(self, at: Moment | None = None) -> Workflow | None:
        """Return the state now, or as it was at a moment; None where nothing was yet."""
        if isinstance(at, str):
            return self._fold(None, self.events(at))
        start = self._stored(at)
        after = start.head if start is not None else 0
        return self._fold(start, self.store.read(self.stream, after=after, upto=at))

    def events(self, at: Moment | None = None) -> Iterator[RecordedEvent]:
        """Yield the events up to a moment, from the first."""
        if isinstance(at, str):
            self._judge_all()
            return what_was_so(self.store.read(self.stream), at)
        return self.store.read(self.stream, upto=at)

    def replayed(self, at: Moment | None = None) -> Workflow:
        """Return the state folded from the first event; raises `NoWorkflow`, `NotFound`."""
        return self._some(self._fold(None, self.events(at)), at)

    def stored_differs(self) -> bool:
        """Whether the stored fold is not what the log yields."""
        fold = self.store.load_fold(self.stream, stored_fold.NAME, REDUCER)
        return fold is not None and fold.state != stored_fold.to_bytes(self.replayed(fold.version))

    def current(self, at: Moment | None = None) -> Workflow:
        """Return the state now or at a moment; raises `NoWorkflow`, `NotFound`."""
        return self._some(self.state(at), at)

    def _some(self, state: Workflow | None, at: Moment | None) -> Workflow:
        if state is None:
            when = f" at {at}" if at is not None else ""
            raise NoWorkflow(
                f"the log holds no workflow{when}; `wfctl init PLAN` makes one.",
                stream=self.stream,
            )
        if isinstance(at, int) and at > state.head:
            raise NotFound(
                f"no version {at}: the log ends at version {state.head}", version=state.head
            )
        return state

    def evolve(self, state: Workflow | None, events: Iterator[RecordedEvent]) -> Workflow | None:
        """Return ``state`` with further events folded in."""
        return self._fold(state, events)

    def steps(
        self, after: int = 0, start: Workflow | None = None, upto: Moment | None = None
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

    def _steps(
        self, draft: Workflow | None, events: Iterator[RecordedEvent]
    ) -> Iterator[tuple[RecordedEvent, Workflow]]:
        current = Current(draft)
        judged = self.approvals.judged(events, current)
        for event, state in steps(draft, judged, self.approvals.accepted):
            current.state = state
            yield event, state

    def _fold(self, start: Workflow | None, events: Iterator[RecordedEvent]) -> Workflow | None:
        result = start.draft() if start is not None else None
        for _, folded in self._steps(result, events):
            result = folded
        return result

    def _judge_all(self) -> None:
        """Judge every approval where it stands in the whole log, before a part of it is folded."""
        self._fold(None, self.store.read(self.stream))

    def _stored(self, at: int | None) -> Workflow | None:
        fold = self.store.load_fold(self.stream, stored_fold.NAME, REDUCER)
        if fold is None or (at is not None and fold.version > at):
            return None
        self._folded_at = fold.version
        state = stored_fold.from_bytes(fold.state)
        return None if self.approvals.bars_stored_folds(state) else state

    def keep_fold(self, state: Workflow) -> None:
        """Store the fold where the log has grown enough since the last one."""
        if state.head - self._folded_at >= FOLD_EVERY and state.consent != "signature":
            content = stored_fold.to_bytes(state)
            self.store.save_fold(
                StoredFold(self.stream, stored_fold.NAME, REDUCER, state.head, content)
            )
            self._folded_at = state.head
