"""The log of one workflow: its stream, folded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from eventstore.chain import START, Link
from eventstore.errors import StoreDamaged, UnsoundLog
from eventstore.event import RecordedEvent
from eventstore.store import EventStore, StoredFold
from lifecycle.errors import LOST, NoWorkflow
from lifecycle.fold.evolve import REDUCER, steps
from lifecycle.state.workflow import Workflow
from service.consent.approvals import Approvals, Current
from service.errors import NotFound
from service.reading import sealing
from service.reading.moment import Moment, session_end
from service.reading.sealing import Seal, as_folded, known_seal, own_seal

At = Moment | int | None
"""A moment, or the version it stands for; None: now."""

#: A fold is stored once the log has grown by this many events since the last one.
FOLD_EVERY = 500
_HASH_LENGTH = 64
_MACHINE = "machine-"
#: Machines that an error names.
_NAMED = 3


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
        #: Up to this version the log was never by signature.
        self._unsigned = 0
        self._reached: RecordedEvent | None = None
        #: The newest state that was asked for, and the link it ends at.
        self._newest: tuple[Workflow, Link] | None = None

    def state(self, at: At = None) -> Workflow | None:
        """Return the state now, or as it was at a moment; None where nothing was yet."""
        moment = self.resolved(at)
        if moment.so_by is not None or moment.known_by is not None:
            return self._fold(None, self._seen(moment))
        start, link = self._stored(moment.version)
        read = self.store.read(self.stream, after=link, upto=moment.version)
        state = self._fold(start, read)
        if start is not None and state is start:
            self._require_end(link)
        if state is not None and moment.version is None:
            self._remember(state, link)
        return state

    def _remember(self, state: Workflow, start: Link) -> None:
        """Have the newest state at hand: a command asks for it up to five times."""
        last = self._reached
        link = Link(last.version, last.hash) if last is not None else start
        if link.version == state.head:
            self._newest = state.draft(), link

    def _require_end(self, link: Link) -> None:
        """Raise `UnsoundLog` where the event that a kept state ends with is not there.

        Where events follow it, the first of them states the link.
        """
        found = next(self.store.raw(self.stream, after=link.version - 1, upto=link.version), None)
        if found is None or found.hash != link.hash:
            reason = f"expected the hash {link.hash} that this login had checked"
            kind = "cut_tail" if found is None else "anchor"
            raise UnsoundLog(self.stream, link.version, kind, reason)

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
        kept = self._kept()
        if kept is None:
            return False
        content, link = kept
        return content != sealing.to_bytes(self.replayed(link.version))

    def current(self, at: At = None) -> Workflow:
        """Return the state now or at a moment; raises `NoWorkflow`, `NotFound`."""
        return self._some(self.state(at), at)

    def _some(self, state: Workflow | None, at: At) -> Workflow:
        if state is not None:
            return state
        first = next(iter(self.store.read(self.stream, upto=1)), None)
        if first is None:
            raise NoWorkflow(
                f"the log holds no workflow; `wfctl init PLAN` makes one. {self._others()}",
                stream=self.stream,
            )
        raise NoWorkflow(
            f"nothing had happened yet ({at}): the first event, version 1, was so at "
            f"{first.occurred_at} and was recorded at {first.recorded_at}. Name a later moment.",
            stream=self.stream,
            occurred_at=first.occurred_at,
            recorded_at=first.recorded_at,
        )

    def _others(self) -> str:
        """Return what machines the log holds, else how a workflow that was here comes back."""
        machines = (name for name in self.store.streams() if name.startswith(_MACHINE))
        others = [name.removeprefix(_MACHINE) for name in islice(machines, _NAMED + 1)]
        if not others:
            return LOST
        more = " and others" if len(others) > _NAMED else ""
        return (
            f"It holds {', '.join(others[:_NAMED])}{more}: `wfctl machine list` shows them, `wfctl "
            f"machine rehydrate {others[0]}` how to go on."
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
            self._reached = event
            yield as_folded(event, state), state

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

    def _stored(self, at: int | None) -> tuple[Workflow | None, Link]:
        """Return the state that is kept, with the link it ends at; it counts if this login kept it.

        Without one that does: the beginning of the log.
        """
        if self._newest is not None and at is None:
            state, link = self._newest
            return state.draft(), link
        kept = self._kept()
        if kept is None or (at is not None and kept[1].version > at):
            return None, START
        content, link = kept
        self._folded_at = link.version
        state = sealing.from_bytes(content)
        if state.head != link.version or self.approvals.bars_stored_folds(state, link.version):
            return None, START
        self._unsigned = link.version
        return state, link

    def _kept(self) -> tuple[bytes, Link] | None:
        """Return the content of this login's kept state and its link, None without a sound one."""
        seal = known_seal()
        if seal is None:
            return None
        try:
            fold = self.store.load_fold(self.stream, _reducer(seal), REDUCER)
        except StoreDamaged:
            return None  # a cache: the events yield the same state, and say what else is damaged
        content = seal.opened(fold.state, self._purpose(fold.version)) if fold is not None else None
        if fold is None or content is None:
            return None
        return content[_HASH_LENGTH:], Link(fold.version, content[:_HASH_LENGTH].decode())

    def _purpose(self, version: int) -> str:
        # Only of a log that was never by signature up to there is a state kept: `keep_fold`.
        return f"{sealing.NAME} {REDUCER} never-signed {version} {self.stream}"

    def keep_fold(self, state: Workflow) -> bool:
        """Store the fold where the log has grown enough since the last one; whether it had.

        It is kept with the hash of the event that it ends with, under the seal of this login.
        """
        if state.head - self._folded_at < FOLD_EVERY:
            return False
        if self.approvals.bars_stored_folds(state, self._unsigned):
            self._folded_at = state.head  # not asked again before it has grown as much
            return False
        last = self._reached
        seal = own_seal() if last is not None and last.version == state.head else None
        if seal is not None and last is not None:
            content = last.hash.encode() + sealing.to_bytes(state)
            sealed = seal.sealed(content, self._purpose(state.head))
            self.store.save_fold(
                StoredFold(self.stream, _reducer(seal), REDUCER, state.head, sealed)
            )
        self._folded_at = state.head
        return True


def _reducer(seal: Seal) -> str:
    """Return the name under which a login keeps its state; several may share a log."""
    return f"{sealing.NAME} {seal.name}"


def newest(store: EventStore, stream: str) -> RecordedEvent | None:
    """Return the last event of a stream, None where there is none."""
    head = store.head(stream)
    return None if head is None else next(store.read(stream, after=head.version - 1), None)
