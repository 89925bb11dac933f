"""Explain a state: the causes of each status, refused commands, and advice on the plan."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

from eventstore.event import RecordedEvent
from eventstore.store import Refusal
from lifecycle.rules.impact import group_open_amendments_by_stage
from lifecycle.state.status import BLOCKING, Status
from lifecycle.state.workflow import Stage, Workflow
from projections.files.progress_log import format_line_without_time
from projections.words.amendments import describe_pending_amendments
from service.reading.log import WorkflowLog
from service.reading.stream_log import At

#: Event type → event types that can be its cause, for the same stage or attempt, most recent first.
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
#: Event types that can cause other events, even if they do not change the status of a stage.
_LINKS = frozenset({"amendment.proposed", "stage.blocked", *_GROUNDS, *chain(*_GROUNDS.values())})
_ROOTS = frozenset({"workflow.created", "workflow.imported"})
#: Event types of routine steps. A chain of causes omits them, because their causes are more
#: informative.
_STEPS = frozenset(
    {"stage.readied", "stage.prepared", "attempt.started", "stage.launched", "attempt.relaunched"}
    | {"stage.computed"}
)
#: Actions of a check of a job that explain the end of its attempt, for example that the job was
#: lost.
_TURNING = frozenset({"lost", "continue", "launch", "attach"})


@dataclass(frozen=True, slots=True)
class CauseLink:
    """An event in a chain of causes, described by a sentence. Times are in UTC."""

    version: int
    type: str
    stage: str | None
    occurred_at: str
    recorded_at: str
    actor: str
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Return the event as a dict of JSON values."""
        return asdict(self)


class CauseFinder:
    """Collects events in order, and finds the causes of each event among the earlier ones."""

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

    def add_event(self, event: RecordedEvent, state: Workflow) -> None:
        """Process the next event. ``state`` is the state after the event."""
        version = event.version
        if event.command_id != self._command:
            self._command, self._ids = event.command_id, {}
        self._ids[event.event_id] = version
        recorded = self._ids.get(event.causation_id or "")
        cause = recorded if recorded in self._links else self._find_direct_cause(event)
        if not self._track_status_changes(event, state) and event.type not in _LINKS:
            return  # the event causes nothing
        if event.type in _ROOTS:
            self._root = version
        else:
            self._causes[version] = {cause} if cause is not None else set()
            self._causes[version] |= self._find_readiness_causes(event, state)
        if event.type == "stage.prepared":
            self.update_readiness_causes(state.stages[event.data["stage"]])
        observed = event.type == "attempt.observed"
        if event.data.get("action") not in _TURNING if observed else event.type in _STEPS:
            self._steps.add(version)
        self._links[version] = _build_link(event, state)
        stage, attempt = event.data.get("stage"), event.data.get("attempt")
        for name in (stage, f"{stage}/{attempt}", event.data.get("amendment")):
            self._newest[event.type, name] = version

    def _find_direct_cause(self, event: RecordedEvent) -> int | None:
        data = event.data
        named = data.get("superseded_by") or data.get("amendment")
        if named is not None and event.type.startswith("stage."):
            return self._newest.get(("amendment.approved", named))
        if event.type == "stage.blocked":
            return self._turns.get(data["dependency"])
        names: list[Any] = [f"{data.get('stage')}/{data['attempt']}"] if data.get("attempt") else []
        names = [data.get("amendment")] if event.type.startswith("amendment.") else names
        names = [f"{data['stage']}/{data['recovers']}"] if data.get("recovers") else names
        found = self._find_newest_cause(event.type, names)
        return (
            found if found is not None else self._find_newest_cause(event.type, [data.get("stage")])
        )

    def _find_newest_cause(self, type_: str, names: list[Any]) -> int | None:
        keys = [(ground, name) for ground in _GROUNDS.get(type_, ()) for name in names]
        return max((self._newest[key] for key in keys if key in self._newest), default=None)

    def _track_status_changes(self, event: RecordedEvent, state: Workflow) -> bool:
        """Remember which stages changed their status, and return whether any stage did."""
        turned = False
        named = state.stages.get(event.data.get("stage") or "")
        for stage in [named] if named is not None else state.stages.values():
            if self._status.get(stage.id) is not stage.status:
                self._status[stage.id] = stage.status
                self._turns[stage.id] = event.version
                turned = True
        return turned

    def _find_readiness_causes(self, event: RecordedEvent, state: Workflow) -> set[int]:
        """Return the versions of further events that caused a stage to become ready.

        These are the completions of its dependencies, and the event that invalidated its results.
        """
        stage = state.stages.get(event.data.get("stage") or "")
        if stage is None or event.type != "stage.readied":
            return set()
        found = self._completions(stage)
        stale = self._newest.get(("stage.invalidated", stage.id))
        before = self._newest.get(("stage.readied", stage.id), 0)
        return found | ({stale} if stale is not None and stale > before else set())

    def update_readiness_causes(self, stage: Stage) -> None:
        """Set the causes of a ready stage to the newest completions of its dependencies.

        This is needed because a ready stage stays ready if a dependency runs again, and no event
        records the new cause.
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
        """Return the events that led to the status of a stage, newest first.

        Events whose versions are in ``told`` are omitted. The versions of the returned events are
        added to ``told``.
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


def _build_link(event: RecordedEvent, state: Workflow) -> CauseLink:
    data, text = event.data, format_line_without_time(event, state)
    if not text and event.type == "attempt.started":
        text = f"{data['stage']}: {data['attempt']} started ({data['mode']})"
    text = text or f"{event.type} {data.get('stage') or ''}"
    return CauseLink(
        version=event.version,
        type=event.type,
        stage=event.data.get("stage"),
        occurred_at=event.occurred_at,
        recorded_at=event.recorded_at,
        actor=str(event.actor),
        sentence=" ".join(text.split()),
    )


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes of the status of a stage.

    ``chain`` contains the events that led to the status, directly or indirectly, newest first.
    ``waits_for`` contains the causes of each stage that blocks this one, directly or indirectly.
    The nearest stages come first, and among these the stages that need a decision. Each event is
    listed only once.
    """

    stage: str
    status: str
    sentence: str
    chain: list[CauseLink]
    waits_for: list[Causes]

    def to_dict(self) -> dict[str, Any]:
        """Return the causes as a dict of JSON values."""
        return asdict(self)


def find_causes(log: WorkflowLog, *stages: str, at: At = None) -> list[Causes]:
    """Return the causes of the status of each stage.

    Raises `UnknownStage` for an unknown id.
    """
    state = log.current(at)
    found = [state.stage(stage) for stage in stages]
    grounds = CauseFinder()
    for event, after in log.steps(upto=at) if found else ():
        grounds.add_event(event, after)
    told: set[int] = set()
    return [_find_causes(state, stage, grounds, told) for stage in found]


def _find_causes(state: Workflow, stage: Stage, grounds: CauseFinder, told: set[int]) -> Causes:
    """Return the causes of one stage.

    Events whose versions are in ``told`` are omitted. The versions of the returned events are
    added.
    """
    found = []
    for one in (stage, *_find_blocking_stages(state, stage)):
        if one.status is Status.READY:
            grounds.update_readiness_causes(one)
        sentence = _describe_stage(
            one,
            _find_unmet_dependencies(state, one),
            group_open_amendments_by_stage(state).get(one.id, []),
        )
        found.append(Causes(one.id, one.status.value, sentence, grounds.chain(one.id, told), []))
    return replace(found[0], waits_for=found[1:])


def _find_blocking_stages(state: Workflow, stage: Stage) -> list[Stage]:
    """Return every stage that blocks a stage, directly or indirectly, the nearest first."""
    found = {stage.id: stage}
    waiting = deque([stage])
    while waiting:
        further = [
            one for one in _find_unmet_dependencies(state, waiting.popleft()) if one.id not in found
        ]
        found.update((one.id, one) for one in further)
        waiting.extend(further)
    return list(found.values())[1:]


def _find_unmet_dependencies(state: Workflow, stage: Stage) -> list[Stage]:
    """Return the dependencies of a stage that are not completed.

    Those that need a decision come first.
    """
    if stage.status not in (Status.PENDING, Status.INVALIDATED, Status.READY):
        return []
    found = [state.stages[dependency] for dependency in state.unmet_dependencies(stage)]
    return sorted(found, key=lambda one: one.status not in BLOCKING)


def _describe_stage(stage: Stage, unmet: list[Stage], acting: list[str]) -> str:
    """Return a sentence with the status of a stage and the reason for the status."""
    text = f"{stage.id} ({stage.name}) is {stage.status.value}"
    if unmet:
        waits = ", ".join(f"{one.id}, which is {one.status.value}" for one in unmet)
        return f"{text}: it waits for {waits}"
    if stage.status is Status.READY and acting:
        return f"{text}, and {describe_pending_amendments(acting)}"
    if stage.status is Status.FAILED and stage.last_error:
        return f"{text}: {' '.join(stage.last_error.split())}"
    return text


def list_refusals(log: WorkflowLog, at: At = None) -> Iterator[Refusal]:
    """Yield the refused commands up to a moment, in the order in which they were recorded.

    A refused command has no version in the log. If the moment is a version or session, all commands
    refused before the next event are included.
    """
    end = _find_refusal_time_limit(log, at)
    return (
        refusal for refusal in log.store.refusals(log.stream) if end is None or refusal.at <= end
    )


def _find_refusal_time_limit(log: WorkflowLog, at: At) -> str | None:
    """Return the latest time of refused commands for a moment, or None for no limit."""
    if at is None:
        return None
    moment = log.resolved(at)
    times = [time for time in (moment.so_by, moment.known_by) if time is not None]
    if moment.version is not None:
        following = next(log.store.read(log.stream, after=moment.version), None)
        times += [following.recorded_at] if following is not None else []
    return min(times, default=None)
