"""Attempts, stages, rounds, moments and workflows side by side: what went in, what came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.effort import HOUR, core_seconds
from lifecycle.state.loops import Round
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.words.metrics import is_number, metrics_of
from projections.words.answers import Apart, apart, with_error
from projections.words.came_about import differing, variables_of
from projections.words.rounds import attempts_of, points_of_round
from projections.words.text import seconds, shown

KINDS = ("metric", "parameter", "script", "code", "input", "environment", "measure", "output")
#: Kinds whose values are the SHA-256 of a file.
OF_FILES = ("script", "input", "output")
#: Measures that a table of runs has: what it took, and the points of a round.
_TOLD = ("seconds", "core hours", "points added")
#: Digits of a digest that are shown.
_DIGEST = 12


@dataclass(slots=True)
class ComparedSide:
    """One of what is compared: by kind, name → value.

    Of a file it is its SHA-256, of a metric an object with ``value``, ``error`` and ``unit``.
    """

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

    @property
    def apart(self) -> tuple[Apart | None, ...]:
        """How far the numbers of the sides behind the first are from its own."""
        first, *others = self.values
        return tuple(_apart(first, other) for other in others)

    def cell(self, place: int) -> str:
        """Return what is shown of a side's value."""
        value = self.values[place]
        if value is None:
            return "-"
        if self.kind in OF_FILES:
            return str(value)[:_DIGEST]
        if self.kind != "metric":
            return shown(value)
        task = f" at {value['task']}" if value["task"] else ""
        return f"{with_error(value['value'], value['error'])} {value['unit'] or ''}".rstrip() + task


def _number(value: Any) -> tuple[float, float | None, str | None] | None:
    """Return a number, its error and its unit; None of what is no number."""
    if isinstance(value, dict) and "value" in value:
        return value["value"], value["error"], value["unit"]
    return (value, None, None) if is_number(value) else None


def _apart(first: Any, other: Any) -> Apart | None:
    """Return how far two values are apart; None of what is no number, or in another unit."""
    one, two = _number(first), _number(other)
    if one is None or two is None or (one[2] and two[2] and one[2] != two[2]):
        return None
    return apart(*one[:2], *two[:2])


def rows(sides: Sequence[ComparedSide]) -> list[ComparedRow]:
    """Return a row for each name that a side has: in the order of `KINDS`."""
    names = dict.fromkeys(key for side in sides for key in side.values)
    ordered = sorted(names, key=lambda key: KINDS.index(key[0]))
    return [ComparedRow(*key, tuple(side.values.get(key) for side in sides)) for key in ordered]


def of_runs(found: Sequence[ComparedRow]) -> list[ComparedRow]:
    """Return the columns of a table of runs: numbers, parameters that differ, seconds."""
    return [row for row in found if row.kind == "metric" or (_is_told(row) and not row.is_same)]


def _is_told(row: ComparedRow) -> bool:
    return row.kind == "parameter" or (row.kind == "measure" and row.name.endswith(_TOLD))


def heads_of(columns: Sequence[ComparedRow]) -> list[str]:
    """Return the name of each column; of several with one name each has its kind before it."""
    names = Counter(["side", *(row.name for row in columns)])
    return [row.name if names[row.name] == 1 else f"{row.kind} {row.name}" for row in columns]


def plain(value: Any) -> Any:
    """Return a value as one that sorts: of a metric its number."""
    return value["value"] if isinstance(value, dict) and "value" in value else value


def order_of(values: Sequence[Any], *, down: bool = False) -> list[int]:
    """Return the places of values in their order: numbers before text, and last what is not there.

    ``down``: the largest first.
    """
    every = range(len(values))
    numbers = [n for n in every if is_number(values[n])]
    texts = [n for n in every if values[n] is not None and n not in numbers]
    numbers.sort(key=lambda n: values[n], reverse=down)
    texts.sort(key=lambda n: str(values[n]), reverse=down)
    return [*numbers, *texts, *(n for n in every if values[n] is None)]


def side_of_state(name: str, state: Workflow) -> ComparedSide:
    """Return a whole workflow as it is in a state: each value under its stage's id."""
    side = ComparedSide(name)
    for stage in state.stages.values():
        _put_stage(side, stage, f"{stage.id}.")
    _put(side, "measure", {"status": state.workflow_status or "active", "plan": state.version})
    return side


def side_of_stage(name: str, stage: Stage, tasks: Iterable[Mapping[str, Any]] = ()) -> ComparedSide:
    """Return a stage as it is in a state, with the numbers of its ``tasks``, each by its key."""
    side, metrics = ComparedSide(name), metrics_of(stage.parameters)
    _put_stage(side, stage)
    for task in tasks:
        errors = task.get("errors", {})
        numbers = [
            {
                "name": number,
                "value": value,
                "error": errors.get(number),
                "unit": metrics[number].unit or None if number in metrics else None,
            }
            for number, value in task["metrics"].items()
        ]
        _put(side, "metric", _metrics(numbers), f"{task['key']} ")
    return side


def _put_stage(side: ComparedSide, stage: Stage, prefix: str = "") -> None:
    source = stage.source
    _put(side, "metric", _metrics(stage.metrics), prefix)
    _put(side, "parameter", stage.parameters, prefix)
    if source is not None:
        _put(side, "script", source.scripts)
        _put(side, "code", _code(source), prefix)
        _put(side, "input", _digests(source.inputs))
    _put(side, "measure", _measures(stage), prefix)
    _put(side, "output", _digests(stage.results))


def side_of_attempt(
    name: str, steps: Iterable[tuple[RecordedEvent, Workflow]], stage: str, attempt: str
) -> ComparedSide | None:
    """Return an attempt with the parameters that it ran with; None if there is no such one."""
    side = None
    for event, state in steps:
        if event.data.get("stage") != stage:
            continue
        found = next((one for one in state.stages[stage].attempts if one.id == attempt), None)
        if found is None:
            continue
        if event.type == "attempt.started" and event.data.get("attempt") == attempt:
            side = ComparedSide(name)
            _put(side, "parameter", state.stages[stage].parameters)
            _put(side, "script", found.scripts)
            _put(side, "code", _code(found))
            _put(side, "input", _digests(found.inputs))
            _put(side, "environment", _environment(found.environment))
        if side is not None:
            _put(side, "measure", _ended(found))
            _put(side, "metric", _metrics(found.metrics))
            _put(side, "output", _digests(found.results))
    return side


def side_of_round(name: str, state: Workflow, loop: str, of: Round) -> ComparedSide:
    """Return a round of a loop: its numbers, its points, who proposed them, what it took."""
    side, attempts = ComparedSide(name), attempts_of(state, loop, of.number)
    numbers = [{"name": number, **value} for number, value in of.numbers.items()]
    ended = [attempt for attempt in attempts if attempt.ended_at is not None]
    points = points_of_round(state, loop, of.number)
    measures = {
        "points added": len(points),
        "proposer": of.by or "the plan",
        "reason": of.reason,
        "attempts": len(attempts),
        "seconds": round(sum(_took(attempt) or 0 for attempt in ended), 1),
        "core hours": round(sum(core_seconds(one) for one in ended if one.charged) / HOUR, 6),
    }
    _put(side, "metric", _metrics(numbers))
    _put(side, "parameter", {"points": points})
    _put(side, "input", of.data)
    _put(side, "measure", {key: value for key, value in measures.items() if value is not None})
    return side


def _put(side: ComparedSide, kind: str, found: Mapping[str, Any], prefix: str = "") -> None:
    side.values.update({(kind, f"{prefix}{name}"): value for name, value in found.items()})


def _digests(files: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {one["path"]: one["sha256"] for one in files}


def _metrics(numbers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    names = ("value", "error", "unit", "task")
    return {one["name"]: {name: one.get(name) for name in names} for one in numbers}


def _code(attempt: Attempt) -> dict[str, str]:
    if attempt.code is None:
        return {}
    return {"commit": attempt.code["commit"], "not committed": differing(attempt.code) or "nothing"}


def _environment(found: Mapping[str, Any] | None) -> dict[str, str]:
    if found is None:
        return {}
    return {**variables_of(found), "all variables": f"SHA-256 {found['sha256'][:_DIGEST]}"}


def _measures(stage: Stage) -> dict[str, Any]:
    newest = stage.attempt
    told = {"status": stage.status.value, "attempts": len(stage.attempts)}
    if newest is None:
        return told
    return {**told, "seconds": _took(newest), **_used(newest)}


def _ended(attempt: Attempt) -> dict[str, Any]:
    told = {"outcome": attempt.outcome or "under way", "exit code": attempt.exit_code,
            "host": attempt.host, "seconds": _took(attempt), **_used(attempt)}  # fmt: skip
    return {name: value for name, value in told.items() if value is not None}


def _used(attempt: Attempt) -> dict[str, float]:
    return {name.replace("_", " "): value for name, value in attempt.resources.items()}


def _took(attempt: Attempt) -> float | None:
    found = seconds(attempt.started_at, attempt.ended_at)
    return None if found is None else round(found, 1)
