"""Read the log of a workflow, and compute its state."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from lifecycle.errors import LOST, NoWorkflow
from lifecycle.fold.evolve import REDUCER, fold_events
from lifecycle.state.status import TRANSITIONS
from lifecycle.state.workflow import Workflow
from service.reading import stream_log
from service.reading.point_in_history import Moment
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


#: Event type → the status that a stage has after such an event.
_TARGETS = {type_: row.target.value for row in TRANSITIONS for type_ in row.events}


@dataclass(frozen=True, slots=True)
class Selection:
    """Criteria for events. A criterion that is empty or None accepts every event.

    ``types`` may end in ``*``. ``actor`` is the kind of the author, or its kind and name
    (``kind:name``). ``status`` is the new status of a stage. ``since`` excludes events up to this
    moment, and ``until`` excludes later events.
    """

    types: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    actor: str | None = None
    session: int | None = None
    status: str | None = None
    amendment: str | None = None
    since: Moment | None = None
    until: Moment | None = None

    def fits(self, event: RecordedEvent) -> bool:
        """Return whether the event meets all criteria."""
        kind, name = event.actor
        return (
            (not self.types or any(_is_of_type(event.type, wanted) for wanted in self.types))
            and (not self.stages or event.data.get("stage") in self.stages)
            and self.actor in (None, kind, f"{kind}:{name}")
            and self.session in (None, event.session)
            and (self.status is None or self.status in list_statuses(event))
            and (self.amendment is None or self.amendment in list_amendments(event))
            and (self.since is None or not _happened_by(event, self.since))
            and (self.until is None or _happened_by(event, self.until))
        )


def _is_of_type(type_: str, wanted: str) -> bool:
    """Return whether an event type matches a pattern that may end in ``*``."""
    return type_.startswith(wanted[:-1]) if wanted.endswith("*") else type_ == wanted


def list_statuses(event: RecordedEvent) -> list[Any]:
    """Return the statuses that a stage gets from an event."""
    target = _TARGETS.get(event.type)
    return [target] if target is not None else list(event.data.get("statuses", []))


def list_amendments(event: RecordedEvent) -> list[Any]:
    """Return the ids of the amendments (changes of the plan) that an event names."""
    names = (event.data.get("amendment"), event.data.get("superseded_by"))
    return [name for name in names if name is not None]


def _happened_by(event: RecordedEvent, moment: Moment) -> bool:
    """Return whether an event happened at or before a moment."""
    if moment.version is not None:
        return event.version <= moment.version
    return event.occurred_at <= (moment.so_by or "")
