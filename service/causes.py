"""Why a stage stands where it stands: from its status back to the root, event by event.

Within one append the log records the cause of an event (``causation_id``). Across appends it
follows from what the event says: an attempt's end from its start, a retry from the failure, an
approval from the proposal, a stage that waits from what it waits for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.status import BLOCKING, Status
from lifecycle.workflow import Stage, Workflow
from projections.progress_log import message
from service.log import At, WorkflowLog

#: Event type → the types, newest first, of what it follows from in the same stage or attempt.
_GROUNDS: dict[str, tuple[str, ...]] = {
    "stage.prepared": ("stage.readied", "stage.retried"),
    "attempt.started": ("stage.prepared", "attempt.observed"),
    "stage.launched": ("attempt.started",),
    "attempt.relaunched": ("attempt.started",),
    "attempt.observed": ("stage.launched", "attempt.started"),
    "stage.computed": ("attempt.observed", "stage.launched", "attempt.started"),
    "stage.completed": ("stage.computed",),
    "stage.failed": ("attempt.observed", "stage.computed", "stage.launched", "attempt.started",
                     "stage.prepared"),
    "stage.retried": ("stage.failed",),
    "amendment.approved": ("amendment.proposed",),
    "amendment.rejected": ("amendment.proposed",),
}  # fmt: skip
#: Event types that others follow from, whether or not they change a status.
_LINKS = frozenset({"amendment.proposed", "stage.blocked", *_GROUNDS, *chain(*_GROUNDS.values())})
_ROOTS = frozenset({"workflow.created", "workflow.imported"})


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a chain of causes: an event, in a sentence. Times are UTC."""

    version: int
    type: str
    stage: str | None
    occurred_at: str
    recorded_at: str
    actor: str
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Causes:
    """Why a stage stands where it stands.

    ``chain`` goes from the event that gave it its status back to a root; ``waits_for`` says the
    same of every stage that holds it back, through others too: each once, the nearest first, and
    of those equally near the ones that will not come by themselves.
    """

    stage: str
    status: str
    sentence: str
    chain: list[Link]
    waits_for: list[Causes]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def causes_of(log: WorkflowLog, *stages: str, at: At = None) -> list[Causes]:
    """Return the causes of the status of each of the stages; raises `UnknownStage`."""
    state = log.current(at)
    found = [state.stage(stage) for stage in stages]
    grounds = Grounds()
    for event, after in log.steps(upto=at) if found else ():
        grounds.see(event, after)
    return [_causes(state, stage, grounds) for stage in found]


def _causes(state: Workflow, stage: Stage, grounds: Grounds) -> Causes:
    waits_for = [_alone(state, one, grounds) for one in _holding(state, stage)]
    return replace(_alone(state, stage, grounds), waits_for=waits_for)


def _alone(state: Workflow, stage: Stage, grounds: Grounds) -> Causes:
    sentence = _sentence(stage, _unmet(state, stage))
    return Causes(stage.id, stage.status.value, sentence, grounds.chain(stage.id), [])


def _holding(state: Workflow, stage: Stage) -> list[Stage]:
    """Return every stage that holds one back, however far: many ways may lead to each."""
    found = {stage.id: stage}
    waiting = deque([stage])
    while waiting:
        further = [one for one in _unmet(state, waiting.popleft()) if one.id not in found]
        found.update((one.id, one) for one in further)
        waiting.extend(further)
    return list(found.values())[1:]


def _unmet(state: Workflow, stage: Stage) -> list[Stage]:
    """Return what holds a stage back, those that will not come by themselves first."""
    if stage.status not in (Status.PENDING, Status.INVALIDATED):
        return []
    found = [state.stages[dependency] for dependency in state.unmet(stage)]
    return sorted(found, key=lambda one: one.status not in BLOCKING)


def _sentence(stage: Stage, unmet: list[Stage]) -> str:
    text = f"{stage.id} ({stage.name}) is {stage.status.value}"
    if unmet:
        waits = ", ".join(f"{one.id}, which is {one.status.value}" for one in unmet)
        return f"{text}: it waits for {waits}"
    if stage.status is Status.FAILED and stage.last_error:
        return f"{text}: {' '.join(stage.last_error.split())}"
    return text


class Grounds:
    """What later events may follow from, as a history is gone through."""

    def __init__(self) -> None:
        self._links: dict[int, Link] = {}
        self._cause: dict[int, int] = {}
        self._newest: dict[tuple[str, str | None], int] = {}
        self._turns: dict[str, int] = {}
        self._status: dict[str, Status] = {}
        self._made: dict[str, str] = {}
        self._ids: dict[str, int] = {}
        self._command = ""
        self._root = 0

    def see(self, event: RecordedEvent, state: Workflow) -> None:
        """Take in an event, with the state after it."""
        version = event.version
        if event.command_id != self._command:
            self._command, self._ids = event.command_id, {}
        self._ids[event.event_id] = version
        cause = self._ids.get(event.causation_id or "")
        cause = cause if cause in self._links else self._ground(event)
        if not self._turn(event, state) and event.type not in _LINKS:
            return  # nothing follows from it
        if event.type in _ROOTS:
            self._root = version
        elif cause is not None:
            self._cause[version] = cause
        self._links[version] = _link(event, state)
        for name in self._names(event):
            self._newest[event.type, name] = version

    def _names(self, event: RecordedEvent) -> list[str | None]:
        data = event.data
        stage, attempt = data.get("stage"), data.get("attempt")
        return [stage, f"{stage}/{attempt}", data.get("amendment")]

    def _ground(self, event: RecordedEvent) -> int | None:
        """Return the newest event that this one follows from by what it says."""
        data = event.data
        named = data.get("superseded_by") or data.get("amendment")
        if named is not None and event.type.startswith("stage."):
            return self._newest.get(("amendment.approved", named))
        if event.type == "stage.blocked":
            return self._turns.get(data["dependency"])
        names: list[Any] = [f"{data.get('stage')}/{data['attempt']}"] if data.get("attempt") else []
        names = [data.get("amendment")] if event.type.startswith("amendment.") else names
        names = [f"{data['stage']}/{data['recovers']}"] if data.get("recovers") else names
        found = self._among(event.type, names)
        return found if found is not None else self._among(event.type, [data.get("stage")])

    def _among(self, type_: str, names: list[Any]) -> int | None:
        keys = [(ground, name) for ground in _GROUNDS.get(type_, ()) for name in names]
        return max((self._newest[key] for key in keys if key in self._newest), default=None)

    def _turn(self, event: RecordedEvent, state: Workflow) -> bool:
        """Note the stages that the event gave another status; whether there are any."""
        turned = False
        named = state.stages.get(event.data.get("stage") or "")
        for stage in [named] if named is not None else state.stages.values():
            if self._status.get(stage.id) is not stage.status:
                self._status[stage.id] = stage.status
                self._turns[stage.id] = event.version
                turned = True
        return turned

    def chain(self, stage: str) -> list[Link]:
        """Return the links from the event that gave a stage its status to the root."""
        version: int | None = self._turns.get(stage)
        found = []
        while version is not None:
            found.append(self._links[version])
            version = self._cause.get(version)
        if found and found[-1].version != self._root and self._root in self._links:
            found.append(self._links[self._root])
        return found


def _link(event: RecordedEvent, state: Workflow) -> Link:
    text = message(event, state) or _told(event)
    return Link(
        version=event.version,
        type=event.type,
        stage=event.data.get("stage"),
        occurred_at=event.occurred_at,
        recorded_at=event.recorded_at,
        actor=f"{event.actor.kind}:{event.actor.name}",
        sentence=" ".join(text.split()),
    )


def _told(event: RecordedEvent) -> str:
    """Say of an event that has no line in the log what it was."""
    data = event.data
    if event.type == "attempt.started":
        return f"{data['stage']}: {data['attempt']} started ({data['mode']})"
    return f"{event.type} {data.get('stage') or ''}".rstrip()
