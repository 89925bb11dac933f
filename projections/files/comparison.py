"""Attempts, moments and workflows side by side: parameters, environment, times, outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Attempt, Stage, Workflow
from projections.words.came_about import variables_of
from projections.words.text import seconds

KINDS = ("parameter", "environment", "script", "measure", "output")


@dataclass(slots=True)
class ComparedSide:
    """One of what is compared: by kind, name → value. Of a file it is its SHA-256."""

    name: str
    values: dict[tuple[str, str], Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A name, and its value on each side, None if a side has none."""

    kind: str
    name: str
    values: tuple[Any, ...]

    @property
    def is_same(self) -> bool:
        """Whether all sides have it, and the same."""
        return all(value == self.values[0] and value is not None for value in self.values)


def rows(sides: Sequence[ComparedSide]) -> list[ComparedRow]:
    """Return a row for each name that a side has: in the order of `KINDS`."""
    names = dict.fromkeys(key for side in sides for key in side.values)
    ordered = sorted(names, key=lambda key: KINDS.index(key[0]))
    return [ComparedRow(*key, tuple(side.values.get(key) for side in sides)) for key in ordered]


def side_of_state(name: str, state: Workflow) -> ComparedSide:
    """Return a whole workflow as it is in a state: each value under its stage's id."""
    side = ComparedSide(name)
    for stage in state.stages.values():
        _put(side, "parameter", stage.parameters, f"{stage.id}.")
        _put(side, "measure", _measures(stage), f"{stage.id}.")
        _put(side, "output", {one["path"]: one["sha256"] for one in stage.results})
    _put(side, "measure", {"status": state.workflow_status or "active", "plan": state.version})
    return side


def side_of_attempt(
    name: str, steps: Iterable[tuple[RecordedEvent, Workflow]], stage: str, attempt: str
) -> ComparedSide | None:
    """Return an attempt with the parameters that it ran with; None if there is no such one."""
    side = None
    for event, state in steps:
        if event.data.get("stage") != stage:
            continue
        if event.type == "attempt.started" and event.data.get("attempt") == attempt:
            side = ComparedSide(name)
            _put(side, "parameter", state.stages[stage].parameters)
            _put(side, "script", event.data.get("scripts", {}))
            _put(side, "environment", _environment(event.data.get("environment")))
        if side is None:
            continue
        _put(side, "measure", _ended(state.stages[stage], attempt))
        newest = state.stages[stage].source
        ended = event.data.get("attempt") or (newest.id if newest is not None else None)
        if event.type == "stage.completed" and ended == attempt:
            outputs = event.data.get("outputs", [])
            _put(side, "output", {one["path"]: one["sha256"] for one in outputs})
    return side


def _put(side: ComparedSide, kind: str, found: Mapping[str, Any], prefix: str = "") -> None:
    side.values.update({(kind, f"{prefix}{name}"): value for name, value in found.items()})


def _environment(found: Mapping[str, Any] | None) -> dict[str, str]:
    if found is None:
        return {}
    return {**variables_of(found), "all variables": f"SHA-256 {found['sha256'][:12]}"}


def _measures(stage: Stage) -> dict[str, Any]:
    newest = stage.attempt
    told = {"status": stage.status.value, "attempts": len(stage.attempts)}
    return {**told, "seconds": _took(newest)} if newest is not None else told


def _ended(stage: Stage, attempt: str) -> dict[str, Any]:
    found = next((one for one in stage.attempts if one.id == attempt), None)
    if found is None:
        return {}
    told = {"outcome": found.outcome or "under way", "exit code": found.exit_code,
            "host": found.host, "seconds": _took(found)}  # fmt: skip
    return {name: value for name, value in told.items() if value is not None}


def _took(attempt: Attempt) -> float | None:
    found = seconds(attempt.started_at, attempt.ended_at)
    return None if found is None else round(found, 1)
