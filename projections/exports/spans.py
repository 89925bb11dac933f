"""What each stage did when: the phases of its life, and the moments worth a mark.

Times are ``occurred_at``. Where somebody else's history runs backwards, a phase begins no earlier
than the one before it did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from eventstore.event import RecordedEvent
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Stage, Workflow
from projections.exports.plain import Steps, amended_by, touched
from projections.history.checkpoint import jobs_seen
from projections.words.amendments import told

#: Status → what the stage does in it; other statuses are no phase.
PHASES = {
    Status.READY: "queue",
    Status.PREPARING: "compute",
    Status.RUNNING: "compute",
    Status.POST_PROCESSING: "verify",
}
#: Events after which stages may be there, or be called, as they were not before.
_DEFINING = ("workflow.", "state.", "amendment.")


@dataclass(slots=True)
class Span:
    """A phase: queue, compute, verify or person. ``end`` is None while it lasts."""

    stage: str | None
    phase: str
    start: str
    end: str | None = None


@dataclass(frozen=True, slots=True)
class SpanMark:
    """A moment: failed, completed, proposed, approved or rejected."""

    stage: str | None
    kind: str
    at: str
    label: str


@dataclass(slots=True)
class Spans:
    """All phases and marks of a workflow, from ``first`` to ``last``."""

    first: str = ""
    last: str = ""
    spans: list[Span] = field(default_factory=list)
    marks: list[SpanMark] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


def spans(steps: Steps) -> Spans:
    """Return what the events say of the stages' time."""
    fold = SpanFold()
    for event, state in steps:
        fold.add(event, state)
    return fold.found


class SpanFold:
    """The fold that `spans` runs, for whoever reads the events anyway."""

    def __init__(self) -> None:
        self.found = Spans()
        self._open: dict[str, Span] = {}
        self._pending: dict[str, Span] = {}
        self._status: dict[str, Status] = {}

    def add(self, event: RecordedEvent, state: Workflow) -> None:
        """Take in an event and the state after it."""
        found, at = self.found, event.occurred_at
        found.first = min(found.first or at, at)
        found.last = max(found.last, at)
        for id_ in touched(event, state):
            self._stage(id_, state, at)
        if event.type == "attempt.observed":
            self._observed(event, at)
        if amended := amended_by(event, state):
            self._amendment(*amended, at)
        if event.type.startswith(_DEFINING):
            found.names = {stage.id: stage.name for stage in state.stages.values()}

    def _stage(self, id_: str, state: Workflow, at: str) -> None:
        stage = state.stages[id_]
        before = self._status.get(id_)
        if stage.status is before:
            return
        self._status[id_] = stage.status
        if stage.status is Status.FAILED:
            self._mark(id_, "failed", at, stage.last_error or "failed")
        elif stage.status is Status.COMPLETED and before is not None:
            self._mark(id_, "completed", at, "completed")
        self._change(id_, PHASES.get(stage.status), at)

    def _change(self, id_: str, phase: str | None, at: str) -> None:
        """End the phase of a stage and begin another, unless it goes on."""
        now = self._open.get(id_)
        if now is not None and now.phase == phase:
            return
        if now is not None:
            now.end = max(now.start, at)
            del self._open[id_]
        if phase is not None:
            began = max(at, now.end) if now is not None and now.end is not None else at
            self._open[id_] = Span(id_, phase, began)
            self.found.spans.append(self._open[id_])

    def _observed(self, event: RecordedEvent, at: str) -> None:
        """A job that its scheduler holds back is in the queue, whatever its stage is called."""
        jobs = jobs_seen(event)
        now = self._open.get(event.data["stage"])
        if now is None or now.phase == "verify" or not all("started" in job for job in jobs):
            return
        if jobs and event.data["action"] == "wait":
            started = any(job["started"] for job in jobs)
            self._change(event.data["stage"], "compute" if started else "queue", at)

    def _amendment(self, amendment: Amendment, is_new: bool, at: str) -> None:
        id_ = amendment.id
        waited = self._pending.get(id_)
        if is_new and waited is None:
            self._pending[id_] = Span(amendment.stage, "person", at)
            self.found.spans.append(self._pending[id_])
            self._mark(amendment.stage, "proposed", at, f"{id_} proposed: {told(amendment)}")
        elif not is_new and waited is not None and waited.end is None:
            waited.end = max(waited.start, at)
            label = f"{id_} {amendment.status}: {told(amendment)}"
            self._mark(amendment.stage, amendment.status, at, label)

    def _mark(self, stage: str | None, kind: str, at: str, label: str) -> None:
        self.found.marks.append(SpanMark(stage, kind, at, " ".join(label.split())[:200]))


#: Attempts of all stages, and amendments.
_ATTEMPTS, _AMENDMENTS = 600, 200


def state_spans(state: Workflow) -> Spans:
    """Return phases and marks; a time that somebody typed in an imported file is left out."""
    found = Spans(first=state.created, last=state.updated)
    found.names = {stage.id: stage.name for stage in state.stages.values()}
    most = max(_ATTEMPTS // max(len(state.stages), 1), 2)
    for stage in state.stages.values():
        found.spans += _phases(stage, most)
        found.marks += _ends(stage, most)
    for amendment in list(state.amendments.values())[-_AMENDMENTS:]:
        found.spans.append(
            Span(amendment.stage, "person", amendment.proposed_at, amendment.decided_at)
        )
    found.spans = [span for span in found.spans if _is_time(span.start) and _is_time(span.end)]
    found.marks = [mark for mark in found.marks if _is_time(mark.at)]
    times = [time for span in found.spans for time in (span.start, span.end) if time]
    if not _is_time(found.first) or not _is_time(found.last):
        found.first = found.last = state.created if _is_time(state.created) else _NEVER
    found.first, found.last = min([found.first, *times]), max([found.last, *times])
    return found


_NEVER = "1970-01-01T00:00:00.000000Z"


def _is_time(text: str | None) -> bool:
    """Whether it is a time of the log, which is compared by its letters."""
    return text is None or (len(text) == len(_NEVER) and text.endswith("Z"))


def _phases(stage: Stage, most: int) -> Iterator[Span]:
    for attempt in stage.attempts[-most:]:
        yield Span(stage.id, "compute", attempt.started_at, attempt.ended_at)
    newest = stage.attempt
    if newest is None or newest.ended_at is None:
        return
    if stage.status is Status.POST_PROCESSING:
        yield Span(stage.id, "verify", newest.ended_at)
    elif stage.status is Status.COMPLETED and stage.completed_at:
        yield Span(stage.id, "verify", newest.ended_at, max(newest.ended_at, stage.completed_at))


def _ends(stage: Stage, most: int) -> Iterator[SpanMark]:
    for attempt in stage.attempts[-most:]:
        if attempt.ended_at is not None and attempt.outcome == "failed":
            yield SpanMark(stage.id, "failed", attempt.ended_at, f"{attempt.id} failed")
    if stage.status is Status.COMPLETED and stage.completed_at:
        yield SpanMark(stage.id, "completed", stage.completed_at, "completed")
