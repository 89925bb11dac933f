"""What a report tells beside the state: who decided, what was checked, what was found in files."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Amendment, Workflow
from projections.exports.plain import amended_by
from projections.files.progress_log import message

#: Lines of the log that a page still shows; an export of the log has them all.
LINES = 2000
Fields = dict[str, Any]


@dataclass(slots=True)
class WorkflowFacts:
    """All of it, folded, as the template names it. ``head`` is the hash of the last event.

    ``decisions``: amendment → who proposed and decided it, and how consent was given.
    ``judgements``: stage and attempt → the checks, the words, who judged. ``found`` are changes of
    files by somebody else, and what became of them; ``lines`` are those of the history.
    """

    decisions: dict[str, Fields] = field(default_factory=dict)
    judgements: dict[tuple[str, str | None], Fields] = field(default_factory=dict)
    found: list[Fields] = field(default_factory=list)
    lines: deque[Fields] = field(default_factory=lambda: deque(maxlen=LINES))
    line_count: int = 0
    actors: Counter[str] = field(default_factory=Counter)
    version: int = 0
    head: str = ""

    def add(self, event: RecordedEvent, state: Workflow) -> None:
        """Take in an event and the state after it."""
        self.version, self.head = event.version, event.hash
        actor = str(event.actor)
        self.actors[actor] += 1
        text = message(event, state)
        if text is not None:
            self.line_count += 1
            at = event.occurred_at if event.actor.kind == "import" else event.recorded_at
            self.lines.append({"at": at, "actor": actor, "kind": event.type, "text": text})
        if amended := amended_by(event, state):
            self._decision(event, *amended)
        elif event.type in ("stage.completed", "stage.failed"):
            self._judgement(event, state)
        elif event.type.startswith("drift."):
            self._drift(event)

    def _decision(self, event: RecordedEvent, amendment: Amendment, is_new: bool) -> None:
        actor = str(event.actor)
        if is_new:
            undecided = {"proposed_by": actor, "decided_by": None, "policy": None}
            self.decisions.setdefault(amendment.id, undecided)
            return
        decision = self.decisions.get(amendment.id)
        if decision is not None and decision["decided_by"] is None:
            proof = event.data.get("proof") or {}
            decision |= {
                "decided_by": actor,
                "policy": proof.get("policy"),
                "signer": proof.get("signer"),
                "answer": event.data.get("reason"),
            }

    def _judgement(self, event: RecordedEvent, state: Workflow) -> None:
        data = event.data
        newest = state.stages[data["stage"]].source
        attempt = data.get("attempt") or (newest.id if newest is not None else None)
        told = {name: data.get(name) for name in ("evidence", "judged_by", "error")}
        self.judgements[data["stage"], attempt] = told | {"checks": data.get("checks", [])}

    def _drift(self, event: RecordedEvent) -> None:
        data = event.data
        is_new = event.type == "drift.detected"
        self.found.append(
            {
                "at": event.recorded_at,
                "file": data["file"],
                "what": data["kind"] if is_new else event.type.split(".")[1],
                "kept_as": data.get("kept_as"),
                "touched": [_place_of(difference) for difference in data.get("differences", [])],
            }
        )


def _place_of(difference: Mapping[str, Any]) -> str:
    """Return where a difference lies, in dots; of one of another shape what can be told."""
    path = difference.get("path")
    steps = path if isinstance(path, list) else [path]
    return ".".join(str(step) for step in (difference.get("stage"), *steps) if step is not None)
