"""The log of one workflow: its stream, folded."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from lifecycle.errors import LOST, NoWorkflow
from lifecycle.fold.evolve import REDUCER, steps
from lifecycle.state.workflow import Workflow
from service.reading import sealing
from service.reading.stream_log import StreamLog

if TYPE_CHECKING:
    from service.reading.stream_log import At

_MACHINE = "machine-"
#: Machines that an error names.
_NAMED = 3


class WorkflowRules:
    """What the events of a workflow mean."""

    name = sealing.NAME
    reducer = REDUCER
    judged = frozenset({"amendment.approved"})
    proven = judged
    has_sessions = True

    def steps(
        self, draft: Workflow | None, events: Iterable[RecordedEvent], accepted: Container[str]
    ) -> Iterator[tuple[RecordedEvent, Workflow]]:
        """See Rules."""
        return steps(draft, events, accepted)

    def draft(self, state: Workflow) -> Workflow:
        """See Rules."""
        return state.draft()

    def objection(self, state: Workflow, event: RecordedEvent, at: str) -> str | None:
        """See Rules."""
        from service.consent import proof as consent  # loads the rules of amendments

        return consent.objection(state, consent.as_of(event, at))

    def to_bytes(self, state: Workflow) -> bytes:
        """See Rules."""
        return sealing.to_bytes(state)

    def from_bytes(self, content: bytes) -> Workflow:
        """See Rules."""
        return sealing.from_bytes(content)

    def absent(self, log: StreamLog[Workflow], at: At) -> NoWorkflow:
        """See Rules."""
        first = next(iter(log.store.read(log.stream, upto=1)), None)
        if first is None:
            return NoWorkflow(
                f"the log holds no workflow; `wfctl init PLAN` makes one. {_others(log.store)}",
                stream=log.stream,
            )
        return NoWorkflow(
            f"nothing had happened yet ({at}): the first event, version 1, was so at "
            f"{first.occurred_at} and was recorded at {first.recorded_at}. Name a later moment.",
            stream=log.stream,
            occurred_at=first.occurred_at,
            recorded_at=first.recorded_at,
        )


def _others(store: EventStore) -> str:
    """Return what machines the log holds, else how a workflow that was here comes back."""
    machines = (name for name in store.streams() if name.startswith(_MACHINE))
    others = [name.removeprefix(_MACHINE) for name in islice(machines, _NAMED + 1)]
    if not others:
        return LOST
    more = " and others" if len(others) > _NAMED else ""
    return (
        f"It holds {', '.join(others[:_NAMED])}{more}: `wfctl machine list` shows them, `wfctl "
        f"machine rehydrate {others[0]}` how to go on."
    )


class WorkflowLog(StreamLog[Workflow]):
    """One stream of a store, read as a workflow; ``root`` is the folder it is read for."""

    def __init__(self, store: EventStore, stream: str, root: Path | None = None) -> None:
        super().__init__(WorkflowRules(), store, stream, root)
