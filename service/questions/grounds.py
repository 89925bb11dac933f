"""What each event of a history follows from.

Within one append the log records the cause of an event (``causation_id``). Across appends it
follows from what the event says: a retry from the failure, an approval from the proposal, a stage
that became ready from every stage it depends on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.files.progress_log import message

#: Event type → the types, newest first, of what it follows from in the same stage or attempt.
_GROUNDS: dict[str, tuple[str, ...]] = {
    "stage.prepared": ("stage.readied", "stage.retried"),
    "attempt.started": ("stage.prepared", "attempt.observed"),
    "stage.launched": ("attempt.started",),
    "attempt.relaunched": ("attempt.started",),
    "attempt.observed": ("stage.launched", "attempt.started"),
    "stage.computed": ("attempt.observed", "stage.launched", "attempt.started"),
    "outputs.reused": ("stage.prepared",),
    "stage.completed": ("stage.computed", "outputs.reused"),
    "stage.failed": ("attempt.observed", "stage.computed", "outputs.reused", "stage.launched",
                     "attempt.started", "stage.prepared"),
    "stage.retried": ("stage.failed",),
    "amendment.approved": ("amendment.proposed",),
    "amendment.rejected": ("amendment.proposed",),
}  # fmt: skip
#: Event types that others follow from, whether or not they change a status.
_LINKS = frozenset({"amendment.proposed", "stage.blocked", *_GROUNDS, *chain(*_GROUNDS.values())})
_ROOTS = frozenset({"workflow.created", "workflow.imported"})
#: Steps of an attempt that went on: what they follow from says more than they do.
_STEPS = frozenset(
    {"stage.readied", "stage.prepared", "attempt.started", "stage.launched", "attempt.relaunched"}
    | {"stage.computed"}
)
#: What was done about an observed attempt where the observation says why it ended.
_TURNING = frozenset({"lost", "launch", "attach"})


@dataclass(frozen=True, slots=True)
class CauseLink:
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


class CauseGrounds:
    """What later events may follow from, as a history is gone through."""

    def __init__(self) -> None:
        self._links: dict[int, CauseLink] = {}
        self._causes: dict[int, set[int]] = {}
        self._steps: set[int] = set()
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
        recorded = self._ids.get(event.causation_id or "")
        cause = recorded if recorded in self._links else self._ground(event)
        if not self._turn(event, state) and event.type not in _LINKS:
            return  # nothing follows from it
        if event.type in _ROOTS:
            self._root = version
        else:
            self._causes[version] = {cause} if cause is not None else set()
            self._causes[version] |= self._further(event, state)
        if event.type == "stage.prepared":
            self.renew(state.stages[event.data["stage"]])
        if _is_step(event):
            self._steps.add(version)
        self._links[version] = _link(event, state)
        for name in self._names(event):
            self._newest[event.type, name] = version

    def _names(self, event: RecordedEvent) -> list[str | None]:
        data = event.data
        stage, attempt = data.get("stage"), data.get("attempt")
        return [stage, f"{stage}/{attempt}", data.get("amendment")]

    def _ground(self, event: RecordedEvent) -> int | None:
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

    def _further(self, event: RecordedEvent, state: Workflow) -> set[int]:
        """Return what a stage that became ready follows from beside the event that made it so."""
        stage = state.stages.get(event.data.get("stage") or "")
        if stage is None or event.type != "stage.readied":
            return set()
        found = self._completions(stage)
        stale = self._newest.get(("stage.invalidated", stage.id))
        before = self._newest.get(("stage.readied", stage.id), 0)
        return found | ({stale} if stale is not None and stale > before else set())

    def renew(self, stage: Stage) -> None:
        """Let a stage that begins, or may, follow from the completions that count now.

        It stays ready while what it depends on runs again, and is not made ready once more.
        """
        version = self._newest.get(("stage.readied", stage.id), 0)
        if version not in self._causes:
            return
        others = {v for v in self._causes[version] if self._links[v].stage not in stage.depends_on}
        self._causes[version] = others | self._completions(stage)

    def _completions(self, stage: Stage) -> set[int]:
        done = [id_ for id_ in stage.depends_on if self._status.get(id_) is Status.COMPLETED]
        return {self._turns[id_] for id_ in done}

    def chain(self, stage: str, told: set[int]) -> list[CauseLink]:
        """Return what led to a stage's status, from the newest event to the root.

        What is in ``told`` was said before and is left out; it takes in what is said now.
        """
        newest = self._turns.get(stage)
        if newest is None:
            return []
        found = {newest} if newest in self._steps or newest not in told else set()
        waiting = [newest, self._root] if self._root in self._links else [newest]
        while waiting:
            version = waiting.pop()
            if version in told:
                continue
            told.add(version)
            if version not in self._steps:
                found.add(version)
            waiting.extend(self._causes.get(version, ()))
        return [self._links[version] for version in sorted(found, reverse=True)]


def _is_step(event: RecordedEvent) -> bool:
    if event.type == "attempt.observed":
        return event.data.get("action") not in _TURNING
    return event.type in _STEPS


def _link(event: RecordedEvent, state: Workflow) -> CauseLink:
    text = message(event, state) or _told(event)
    return CauseLink(
        version=event.version,
        type=event.type,
        stage=event.data.get("stage"),
        occurred_at=event.occurred_at,
        recorded_at=event.recorded_at,
        actor=f"{event.actor.kind}:{event.actor.name}",
        sentence=" ".join(text.split()),
    )


def _told(event: RecordedEvent) -> str:
    data = event.data
    if event.type == "attempt.started":
        return f"{data['stage']}: {data['attempt']} started ({data['mode']})"
    return f"{event.type} {data.get('stage') or ''}".rstrip()
