"""What became of each stage, from the log alone: results, failures and fixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lifecycle.state.workflow import Workflow
from projections.files.sessions import Acted


@dataclass(slots=True)
class StageResult:
    """What the log says of one stage's work. Each of ``troubles`` has a time, a kind and a text."""

    completed: dict[str, Any] | None = None
    completed_by: str | None = None
    troubles: list[tuple[str, str, str]] = field(default_factory=list)


def results(steps: Iterable[tuple[Acted, Workflow]]) -> dict[str, StageResult]:
    """Return by stage its newest completion, and all that went wrong and was put right."""
    found: dict[str, StageResult] = {}
    for _ in gathered(steps, found):
        pass
    return found


Step = TypeVar("Step", bound=tuple[Acted, Workflow])


def gathered(steps: Iterable[Step], found: dict[str, StageResult]) -> Iterator[Step]:
    """Yield the steps on, with what they say taken into ``found``: for whoever reads them too."""
    for step in steps:
        event = step[0]
        stage = event.data.get("stage")
        if event.type in _TAKEN and isinstance(stage, str):
            _take_in(found.setdefault(stage, StageResult()), event)
        yield step


def _take_in(result: StageResult, event: Acted) -> None:
    data = event.data
    match event.type:
        case "stage.completed":
            result.completed = data
            result.completed_by = f"{event.actor.kind}:{event.actor.name}"
        case "stage.failed":
            result.troubles.append((event.occurred_at, "failed", data["error"]))
        case "stage.retried":
            text = f"retry {data['retry']}: {data['fix']}"
            result.troubles.append((event.occurred_at, "put right", text))
        case "attempt.started" if data.get("recovers"):
            text = f"{data['recovers']} was lost; {data['attempt']} took its place"
            result.troubles.append((event.occurred_at, "lost", text))
        case "results.adopted":
            paths = ", ".join(one["path"] for one in data["outputs"])
            text = f"{paths}, changed by hand: {data['reason']}"
            result.troubles.append((event.occurred_at, "adopted", text))
        case "outputs.reused":
            text = f"outputs of {data['attempt']}, which computed from the same; nothing was run"
            result.troubles.append((event.occurred_at, "reused", text))
        case "stage.invalidated":
            text = data.get("reason") or data["amendment"]
            result.troubles.append((event.occurred_at, "invalidated", text))


_TAKEN = frozenset(
    {
        "stage.completed",
        "stage.failed",
        "stage.retried",
        "results.adopted",
        "outputs.reused",
        "stage.invalidated",
        "attempt.started",
    }
)
