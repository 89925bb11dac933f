"""What a report tells beside the state: who decided, what was checked, what was found in files."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.fold.amendments import proposed_in
from lifecycle.state.workflow import Workflow
from projections.files.progress_log import message

#: Lines of the log that a page still shows; an export of the log has them all.
LINES = 2000


@dataclass(slots=True)
class AmendmentDecision:
    """Who proposed an amendment, who decided it, and how consent was given."""

    proposed_by: str
    decided_by: str | None = None
    policy: str | None = None
    signer: str | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of an attempt: the checks, the words, who judged."""

    at: str
    checks: list[dict[str, Any]]
    evidence: str | None = None
    judged_by: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FoundEdit:
    """A change of a file by somebody else, and what became of it."""

    at: str
    file: str
    what: str
    kept_as: str | None
    touched: list[str]


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One line of the history."""

    version: int
    at: str
    actor: str
    kind: str
    text: str


@dataclass(slots=True)
class WorkflowFacts:
    """All of it, folded. ``head`` is the hash of the last event."""

    decisions: dict[str, AmendmentDecision] = field(default_factory=dict)
    judgements: dict[tuple[str, str | None], Judgement] = field(default_factory=dict)
    found: list[FoundEdit] = field(default_factory=list)
    lines: deque[HistoryLine] = field(default_factory=lambda: deque(maxlen=LINES))
    line_count: int = 0
    actors: Counter[str] = field(default_factory=Counter)
    version: int = 0
    head: str = ""

    def add(self, event: RecordedEvent, state: Workflow) -> None:
        """Take in an event and the state after it."""
        self.version, self.head = event.version, event.hash
        actor = f"{event.actor.kind}:{event.actor.name}"
        self.actors[actor] += 1
        self._line(event, state, actor)
        if event.type.startswith("amendment.") or proposed_in(event) is not None:
            self._decision(event, state, actor)
        elif event.type in ("stage.completed", "stage.failed"):
            self._judgement(event, state)
        elif event.type.startswith("drift."):
            self._drift(event)

    def _line(self, event: RecordedEvent, state: Workflow, actor: str) -> None:
        text = message(event, state)
        if text is not None:
            self.line_count += 1
            at = event.occurred_at if event.actor.kind == "import" else event.recorded_at
            self.lines.append(HistoryLine(event.version, at, actor, event.type, text))

    def _decision(self, event: RecordedEvent, state: Workflow, actor: str) -> None:
        proposed = proposed_in(event)
        if proposed is not None:
            self.decisions.setdefault(proposed, AmendmentDecision(actor))
            return
        id_ = str(event.data.get("amendment"))
        amendment, decision = state.amendments.get(id_), self.decisions.get(id_)
        if amendment is None or decision is None or not event.type.endswith(amendment.status):
            return
        if decision.decided_by is None:
            proof = event.data.get("proof") or {}
            decision.decided_by = actor
            decision.policy, decision.signer = proof.get("policy"), proof.get("signer")
            decision.answer = event.data.get("reason")

    def _judgement(self, event: RecordedEvent, state: Workflow) -> None:
        data = event.data
        newest = state.stages[data["stage"]].source
        attempt = data.get("attempt") or (newest.id if newest is not None else None)
        self.judgements[data["stage"], attempt] = Judgement(
            event.occurred_at,
            data.get("checks", []),
            data.get("evidence"),
            data.get("judged_by"),
            data.get("error"),
        )

    def _drift(self, event: RecordedEvent) -> None:
        data = event.data
        what = data["kind"] if event.type == "drift.detected" else event.type.split(".")[1]
        touched = [_place_of(difference) for difference in data.get("differences", [])]
        found = FoundEdit(event.recorded_at, data["file"], what, data.get("kept_as"), touched)
        self.found.append(found)


def _place_of(difference: Mapping[str, Any]) -> str:
    """Return where a difference lies, in dots; of one of another shape what can be told."""
    path = difference.get("path")
    steps = path if isinstance(path, list) else [path]
    return ".".join(str(step) for step in (difference.get("stage"), *steps) if step is not None)
