"""Read the log of a workflow, and compute its state."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from lifecycle.errors import LOST, NoWorkflow
from lifecycle.fold.evolve import REDUCER, fold_events
from lifecycle.state.workflow import Workflow
from service.reading import stream_log
from service.reading.stream_log import StreamLog

if TYPE_CHECKING:
    from service.reading.stream_log import At


_MACHINE = "machine-"
#: Maximum number of machines to name in an error message.
_NAMED = 3


class WorkflowRules:
    """The rules by which the state of a workflow is computed from its events."""

    name = stream_log.NAME
    reducer = REDUCER
    judged = frozenset({"amendment.approved"})
    proven = judged
    has_sessions = True

    steps = staticmethod(fold_events)
    draft = staticmethod(Workflow.draft)
    to_bytes = staticmethod(stream_log.to_bytes)
    from_bytes = staticmethod(stream_log.from_bytes)

    def objection(self, state: Workflow, event: RecordedEvent, at: str) -> str | None:
        """Return the reason why an approval is ignored, or None if it is valid."""
        from service.consent import proof as consent  # imports the rules of amendments

        return consent.explain_invalid_approval(state, consent.build_planned_approval(event, at))

    def absent(self, log: StreamLog[Workflow], at: At) -> NoWorkflow:
        """Return the error for a log without a workflow or without events at a moment."""
        first = next(iter(log.store.read(log.stream, upto=1)), None)
        if first is None:
            none = "the log has no workflow. To create a workflow, run `wfctl init PLAN`."
            return NoWorkflow(f"{none} {_suggest_other_logs(log.store)}", stream=log.stream)
        return NoWorkflow(
            f"the log has no event before {at}. The first event (version 1) happened at "
            f"{first.occurred_at} and was recorded at {first.recorded_at}. Choose a later time.",
            stream=log.stream,
            occurred_at=first.occurred_at,
            recorded_at=first.recorded_at,
        )


def _suggest_other_logs(store: EventStore) -> str:
    """Return a message that names the machines in the log.

    Without other logs, the text explains how to restore a lost workflow.
    """
    machines = (name for name in store.streams() if name.startswith(_MACHINE))
    others = [name.removeprefix(_MACHINE) for name in islice(machines, _NAMED + 1)]
    if not others:
        return LOST
    more = " and others" if len(others) > _NAMED else ""
    return (
        f"The log has the machines {', '.join(others[:_NAMED])}{more}. To list all machines, run "
        f"`wfctl machine list`. To show the next step, run `wfctl machine rehydrate {others[0]}`."
    )


class WorkflowLog(StreamLog[Workflow]):
    """The log of one workflow in an event store. ``root`` is the folder of the workflow."""

    def __init__(self, store: EventStore, stream: str, root: Path | None = None) -> None:
        super().__init__(WorkflowRules(), store, stream, root)
