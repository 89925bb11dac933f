"""The log of one workflow: its stream, folded."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventstore.event import RecordedEvent
from eventstore.store import EventStore
from eventstore.verification import Finding
from lifecycle.errors import LOST, NoWorkflow
from lifecycle.fold.evolve import REDUCER, steps
from lifecycle.state.status import TRANSITIONS
from lifecycle.state.workflow import Workflow
from service.reading import stream_log
from service.reading.moment import Moment
from service.reading.stream_log import StreamLog

if TYPE_CHECKING:
    from service.reading.stream_log import At


_MACHINE = "machine-"
#: Machines that an error names.
_NAMED = 3


class WorkflowRules:
    """What the events of a workflow mean."""

    name = stream_log.NAME
    reducer = REDUCER
    judged = frozenset({"amendment.approved"})
    proven = judged
    has_sessions = True

    steps = staticmethod(steps)
    draft = staticmethod(Workflow.draft)
    to_bytes = staticmethod(stream_log.to_bytes)
    from_bytes = staticmethod(stream_log.from_bytes)

    def objection(self, state: Workflow, event: RecordedEvent, at: str) -> str | None:
        """See Rules."""
        from service.consent import proof as consent  # loads the rules of amendments

        return consent.objection(state, consent.as_of(event, at))

    def absent(self, log: StreamLog[Workflow], at: At) -> NoWorkflow:
        """See Rules."""
        first = next(iter(log.store.read(log.stream, upto=1)), None)
        if first is None:
            none = "the log holds no workflow; `wfctl init PLAN` makes one."
            return NoWorkflow(f"{none} {_others(log.store)}", stream=log.stream)
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


#: Event type → the status that it takes a stage to.
_TARGETS = {type_: row.target.value for row in TRANSITIONS for type_ in row.events}


@dataclass(frozen=True, slots=True)
class Selection:
    """What an event must have to be selected; what is empty or None does not matter.

    ``types`` may end in ``*``; ``actor`` is a kind or kind:name; ``status`` is one that the event
    takes a stage to. ``since`` leaves out what is up to that moment, ``until`` what comes later.
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
        """Whether the event is selected."""
        kind, name = event.actor
        return (
            (not self.types or any(_is_of_type(event.type, wanted) for wanted in self.types))
            and (not self.stages or event.data.get("stage") in self.stages)
            and self.actor in (None, kind, f"{kind}:{name}")
            and self.session in (None, event.session)
            and (self.status is None or self.status in statuses(event))
            and (self.amendment is None or self.amendment in amendments(event))
            and (self.since is None or not _is_by(event, self.since))
            and (self.until is None or _is_by(event, self.until))
        )


def _is_of_type(type_: str, wanted: str) -> bool:
    return type_.startswith(wanted[:-1]) if wanted.endswith("*") else type_ == wanted


def statuses(event: RecordedEvent) -> list[Any]:
    """Return the statuses that an event says it takes its stage to."""
    target = _TARGETS.get(event.type)
    return [target] if target is not None else list(event.data.get("statuses", []))


def amendments(event: RecordedEvent) -> list[Any]:
    """Return the amendments that an event names."""
    names = (event.data.get("amendment"), event.data.get("superseded_by"))
    return [name for name in names if name is not None]


def _is_by(event: RecordedEvent, moment: Moment) -> bool:
    if moment.version is not None:
        return event.version <= moment.version
    return event.occurred_at <= (moment.so_by or "")


def check_behaviour(log: WorkflowLog) -> list[Finding]:
    """Return the first event of a workflow that cannot be, none where all can."""
    from lifecycle.protocol.behaviour import first_breach  # asked by `fsck --protocol` alone

    found = first_breach((event.body, event.hash) for event in log.store.read(log.stream))
    if found is None:
        return []
    text = f"it breaks a promise ({found.promise}): {found.message}"
    return [Finding(log.stream, found.version, None, "protocol", text)]
