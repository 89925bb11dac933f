"""Collect the facts for a Markdown or HTML report, in one pass over the log."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Attempt, Stage, Workflow
from projections.files.progress_log import format_line_without_time, kept_tasks_note
from projections.files.sessions import SessionRecord, fold_session_event
from projections.words.decisions import AmendmentFold, AmendmentRecord

#: Maximum number of log lines in a report. An export of the log contains all of its lines.
_LINES = 2000
Fields = dict[str, Any]


@dataclass(slots=True)
class StageResult:
    """The recorded results and problems of a stage.

    ``judged`` maps each attempt to its newest recorded completion or failure, with the author in
    ``by``. ``ran_with`` maps each attempt to its parameters. ``versions`` maps each attempt to the
    program versions that its jobs reported. Each of ``troubles`` (failures, retries and losses) has
    a time, a kind and a text.
    """

    completed: Fields = field(default_factory=dict)
    judged: dict[str | None, Fields] = field(default_factory=dict)
    ran_with: dict[str, Fields] = field(default_factory=dict)
    versions: dict[str, Fields] = field(default_factory=dict)
    troubles: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, event: RecordedEvent, stage: Stage) -> None:
        """Add the facts of an event of this stage. ``stage`` is the stage after the event."""
        data, newest = event.data, stage.source
        id_ = data.get("attempt") or (newest.id if newest is not None else None)
        match event.type:
            case "stage.completed":
                self.completed = self.judged[id_] = _get_judgement(event)
            case "stage.failed":
                self.judged[id_] = _get_judgement(event)
            case "attempt.started":
                self.ran_with[str(data["attempt"])] = dict(stage.parameters)
            case "stage.computed" if id_ is not None:
                self.versions[id_] = (data.get("facts") or {}).get("environment") or {}
        is_replaced = any(
            one.id == data.get("recovers") and one.outcome == "lost" for one in stage.attempts
        )
        if event.type in _TROUBLES and (event.type != "attempt.started" or is_replaced):
            self._take_in_trouble(event)

    def _take_in_trouble(self, event: RecordedEvent) -> None:
        data = event.data
        kind, text = _TROUBLES[event.type]
        paths = ", ".join(
            f"{one['path']}, {how}"
            for name, how in (("outputs", "changed by hand"), ("deleted", "deleted"))
            for one in data.get(name) or []
        )
        more = {"paths": paths, "why": data.get("reason") or data.get("amendment")}
        more["kept"] = kept_tasks_note(data)
        self.troubles.append((event.occurred_at, kind, text.format_map({**data, **more})))

    def parameters(self, stage: Stage, attempt: Attempt | None) -> Fields:
        """Return the parameters of an attempt, or the current ones if they are unknown."""
        return self.ran_with.get(attempt.id if attempt else "", stage.parameters)

    def differing(self, stage: Stage, attempt: Attempt) -> Fields:
        """Return the parameters that differ from those that produced the outputs."""
        own, last = self.parameters(stage, attempt), self.parameters(stage, stage.source)
        names = [name for name in {**own, **last} if own.get(name) != last.get(name)]
        return {name: own.get(name) for name in names}


def _get_judgement(event: RecordedEvent) -> Fields:
    """Return the evidence and result of a completion or failure, with its author.

    The author is in the field ``by``.
    """
    names = ("evidence", "detail", "judged_by", "error", "checks", "outputs")
    return {**{name: event.data.get(name) for name in names}, "by": str(event.actor)}


_RETRIED = "put right"
#: Event type → kind of problem, and template of its description.
_TROUBLES = {
    "stage.failed": ("failed", "{error}"),
    "stage.retried": (_RETRIED, "retry {retry}: {fix}{kept}"),
    "attempt.started": ("lost", "{attempt} replaced {recovers}, which was lost"),
    "results.adopted": ("adopted", "{paths}: {reason}"),
    "outputs.reused": (
        "reused", "reused the outputs of {attempt}, which had the same inputs; nothing was run"
    ),
    "stage.invalidated": ("invalidated", "{why}"),
}  # fmt: skip


@dataclass(slots=True)
class WorkflowFacts:
    """The facts for a report on a workflow.

    ``version`` and ``head`` are the version and hash of the last event. ``edits`` are file changes
    by other programs, and the decisions on them. ``lines`` are the lines of the history.
    """

    state: Workflow
    results: dict[str, StageResult] = field(default_factory=dict)
    sessions: list[SessionRecord] = field(default_factory=list)
    decisions: AmendmentFold = field(default_factory=AmendmentFold)
    edits: list[Fields] = field(default_factory=list)
    lines: deque[Fields] = field(default_factory=lambda: deque(maxlen=_LINES))
    line_count: int = 0
    actors: Counter[str] = field(default_factory=Counter)
    first: str = ""
    last: str = ""
    version: int = 0
    head: str = ""

    def add(self, event: RecordedEvent, state: Workflow) -> None:
        """Add the facts of an event. ``state`` is the state after the event."""
        self.state, self.version, self.head = state, event.version, event.hash
        self.first = min(self.first or event.occurred_at, event.occurred_at)
        self.last = max(self.last, event.occurred_at)
        self.actors[str(event.actor)] += 1
        self._add_line(event, state)
        fold_session_event(self.sessions, event, state)
        self.decisions.add(event, state)
        stage = state.stages.get(str(event.data.get("stage")))
        if stage is not None:
            self.results.setdefault(stage.id, StageResult()).add(event, stage)
        elif event.type.startswith("drift."):
            self._add_edit(event)

    def retries_of(self, stage: str) -> int:
        """Return the total number of retries of a stage in the log.

        The field `retry_count` of the stage can be lower, because a rerun sets it back to 0.
        """
        found = self.results.get(stage, StageResult())
        return sum(kind == _RETRIED for _, kind, _ in found.troubles)

    def _add_line(self, event: RecordedEvent, state: Workflow) -> None:
        text = format_line_without_time(event, state)
        if text is not None:
            self.line_count += 1
            at = event.occurred_at if event.actor.kind == "import" else event.recorded_at
            said = {"at": at, "actor": str(event.actor), "kind": event.type, "text": text}
            self.lines.append(said)

    def _add_edit(self, event: RecordedEvent) -> None:
        data = event.data
        what = data["kind"] if event.type == "drift.detected" else event.type.split(".")[1]
        touched = [
            _format_difference_path(difference) for difference in data.get("differences", [])
        ]
        told = {"file": data["file"], "kept_as": data.get("kept_as"), "touched": touched}
        self.edits.append({"at": event.recorded_at, "what": what, **told})

    def result(self, stage: Stage) -> StageResult:
        """Return the recorded results and problems of a stage."""
        return self.results.get(stage.id) or StageResult()

    @property
    def amendments(self) -> list[AmendmentRecord]:
        """All amendments (changes of the plan), in the order of their proposals.

        Each has the person who decided on it.
        """
        return self.decisions.records(self.state)


def collect_report_facts(
    steps: Iterable[tuple[RecordedEvent, Workflow]], state: Workflow
) -> WorkflowFacts:
    """Collect the facts from all events of a log.

    ``steps`` contains each event with the state after it. ``state`` is the final state.
    """
    found = WorkflowFacts(state)
    for event, after in steps:
        found.add(event, after)
    return found


def _format_difference_path(difference: Mapping[str, Any]) -> str:
    """Return the dotted path of a difference between two documents, including its stage."""
    path = difference.get("path")
    steps = path if isinstance(path, list) else [path]
    return ".".join(str(step) for step in (difference.get("stage"), *steps) if step is not None)
