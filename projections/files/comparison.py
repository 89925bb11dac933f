"""Compare the inputs and results of attempts, stages, rounds, moments and workflows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.effort import HOUR, charged_core_seconds
from lifecycle.state.loops import Round
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.words.metrics import is_number, parse_valid_metrics
from projections.words.format_numbers import format_with_error
from projections.words.format_results import (
    NumberDifference,
    format_metric_value,
    measure_difference,
)
from projections.words.result_origin import describe_uncommitted_files, list_recorded_variables
from projections.words.rounds import attempts_of_round, points_of_round
from projections.words.text import clip_text, compute_seconds, format_byte_count, format_cell

KINDS = ("metric", "parameter", "script", "code", "input", "environment", "measure", "output")
#: Kinds of compared values that are files, represented by their SHA-256.
OF_FILES = ("script", "input", "output")
#: Measures shown in a table of runs: used resources, and the number of points that a round added.
_TOLD = ("seconds", "core hours", "points added")
#: Maximum number of characters of a value in a sentence.
_LONGEST = 120
#: Number of digits to show of a digest.
_DIGEST = 12


@dataclass(slots=True)
class ComparedItem:
    """One of the compared items, with its values by kind and name.

    The value of a file is its SHA-256. The value of a metric is an object with ``value``, ``error``
    and ``unit``.
    """

    name: str
    values: dict[tuple[str, str], Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A compared quantity: its kind and name, and its value on each side.

    The value is None for a side without this quantity.
    """

    kind: str
    name: str
    values: tuple[Any, ...]

    @property
    def is_same(self) -> bool:
        """Return whether the compared quantity has the same value on all sides."""
        return all(value == self.values[0] and value is not None for value in self.values)

    @property
    def apart(self) -> tuple[NumberDifference | None, ...]:
        """The differences between the first side's number and each other side's number.

        An element is None if the values are not numbers or have different units.
        """
        first, *others = self.values
        return tuple(_measure_difference(first, other) for other in others)

    def cell(self, place: int) -> str:
        """Return the text of a table cell, for the side at index ``place``."""
        value = self.values[place]
        if value is None:
            return "-"
        if self.kind in OF_FILES:
            return str(value)[:_DIGEST]
        if self.kind == "measure" and is_number(value):
            is_size = self.name.endswith("bytes")
            return format_byte_count(value) if is_size else format_with_error(value)
        return format_metric_value(value) if self.kind == "metric" else format_cell(value)


def _parse_number(value: Any) -> tuple[float, float | None, str | None] | None:
    """Return the value, the error and the unit of a number, or None for any other value."""
    if isinstance(value, dict) and "value" in value:
        return value["value"], value["error"], value["unit"]
    return (value, None, None) if is_number(value) else None


def _measure_difference(first: Any, other: Any) -> NumberDifference | None:
    """Return the difference of two numbers.

    Return None if a value is not a number, or if the units differ.
    """
    one, two = _parse_number(first), _parse_number(other)
    if one is None or two is None or (one[2] and two[2] and one[2] != two[2]):
        return None
    return measure_difference(*one[:2], *two[:2])


def build_comparison_rows(sides: Sequence[ComparedItem]) -> list[ComparedRow]:
    """Return one row for each quantity that any side has, in the order of `KINDS`."""
    names = dict.fromkeys(key for side in sides for key in side.values)
    ordered = sorted(names, key=lambda key: KINDS.index(key[0]))
    return [ComparedRow(*key, tuple(side.values.get(key) for side in sides)) for key in ordered]


def describe_change(row: ComparedRow, names: Sequence[str]) -> str:
    """Return a sentence about the change of a quantity from the first to the second side.

    ``names`` are the names of both sides.
    """
    kind = {"environment": "environment value"}.get(row.kind, row.kind)
    what = f"The {kind} {row.name}"
    if row.is_same:
        return f"{what} is the same."
    for place, name in enumerate(names):
        if row.values[place] is None:
            return f"{what} exists only in {names[1 - place]}, not in {name}."
    if row.kind in OF_FILES:
        return f"{what} has different content."
    first, other = (clip_text(row.cell(place), _LONGEST) for place in (0, 1))
    difference = f", by {row.apart[0]}" if row.apart[0] is not None else ""
    return f"{what} changes from {first} to {other}{difference}."


def select_run_columns(found: Sequence[ComparedRow]) -> list[ComparedRow]:
    """Return the rows to show as columns of a table of runs.

    These are all metrics, and the parameters and times that are not equal on all sides.
    """
    return [row for row in found if row.kind == "metric" or (_is_told(row) and not row.is_same)]


def _is_told(row: ComparedRow) -> bool:
    return row.kind == "parameter" or (row.kind == "measure" and row.name.endswith(_TOLD))


def build_column_headers(columns: Sequence[ComparedRow]) -> list[str]:
    """Return the header of each column. Equal names get their kind as a prefix."""
    names = Counter(["side", *(row.name for row in columns)])
    return [row.name if names[row.name] == 1 else f"{row.kind} {row.name}" for row in columns]


def get_sortable_value(value: Any) -> Any:
    """Return a value for sorting: the number of a metric, or any other value unchanged."""
    return value["value"] if isinstance(value, dict) and "value" in value else value


def compute_sort_order(values: Sequence[Any], *, down: bool = False) -> list[int]:
    """Return the indices that sort values: numbers first, then text, then missing values.

    With ``down``, the largest value comes first.
    """
    every = range(len(values))
    numbers = [n for n in every if is_number(values[n])]
    texts = [n for n in every if values[n] is not None and n not in numbers]
    numbers.sort(key=lambda n: values[n], reverse=down)
    texts.sort(key=lambda n: str(values[n]), reverse=down)
    return [*numbers, *texts, *(n for n in every if values[n] is None)]


def collect_workflow_values(name: str, state: Workflow) -> ComparedItem:
    """Return the values of all stages of a workflow for a comparison.

    The name of each value starts with the id of its stage.
    """
    side = ComparedItem(name)
    for stage in state.stages.values():
        _put_stage(side, stage, f"{stage.id}.")
    _add_values(
        side, "measure", {"status": state.workflow_status or "active", "plan": state.version}
    )
    return side


def collect_stage_values(
    name: str, stage: Stage, tasks: Iterable[Mapping[str, Any]] = ()
) -> ComparedItem:
    """Return the fields and metrics of a stage, for a comparison with other stages.

    The name of each metric of its ``tasks`` starts with the key of the task.
    """
    side, metrics = ComparedItem(name), parse_valid_metrics(stage.parameters)
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
        _add_values(side, "metric", _map_metrics(numbers), f"{task['key']} ")
    return side


def _put_stage(side: ComparedItem, stage: Stage, prefix: str = "") -> None:
    source = stage.source
    _add_values(side, "metric", _map_metrics(stage.metrics), prefix)
    _add_values(side, "parameter", stage.parameters, prefix)
    if source is not None:
        _add_values(side, "script", source.scripts)
        _add_values(side, "code", _describe_code(source), prefix)
        _add_values(side, "input", _map_digests(source.inputs))
    _add_values(side, "measure", _collect_stage_values(stage), prefix)
    _add_values(side, "output", _map_digests(stage.results))


def collect_attempt_values(
    name: str, steps: Iterable[tuple[RecordedEvent, Workflow]], stage: str, attempt: str
) -> ComparedItem | None:
    """Return the values of an attempt for a comparison, or None if it does not exist.

    The parameters are those with which the attempt ran.
    """
    side = None
    for event, state in steps:
        if event.data.get("stage") != stage:
            continue
        found = next((one for one in state.stages[stage].attempts if one.id == attempt), None)
        if found is None:
            continue
        if event.type == "attempt.started" and event.data.get("attempt") == attempt:
            side = ComparedItem(name)
            _add_values(side, "parameter", state.stages[stage].parameters)
            _add_values(side, "script", found.scripts)
            _add_values(side, "code", _describe_code(found))
            _add_values(side, "input", _map_digests(found.inputs))
            _add_values(side, "environment", _describe_environment(found.environment))
        if side is not None:
            _add_values(side, "measure", _collect_attempt_values(found))
            _add_values(side, "metric", _map_metrics(found.metrics))
            _add_values(side, "output", _map_digests(found.results))
    return side


def collect_round_values(name: str, state: Workflow, loop: str, of: Round) -> ComparedItem:
    """Return the values of a round of an optimization loop for a comparison.

    They include its metrics, its points, the author of the points, and its attempts and times.
    """
    side, attempts = ComparedItem(name), attempts_of_round(state, loop, of.number)
    numbers = [{"name": number, **value} for number, value in of.numbers.items()]
    ended = [attempt for attempt in attempts if attempt.ended_at is not None]
    points = points_of_round(state, loop, of.number)
    measures = {
        "points added": len(points),
        "proposer": of.by or "the plan",
        "reason": of.reason,
        "attempts": len(attempts),
        "seconds": round(sum(_compute_seconds(attempt) or 0 for attempt in ended), 1),
        "core hours": round(
            sum(charged_core_seconds(one) for one in ended if one.charged) / HOUR, 6
        ),
    }
    _add_values(side, "metric", _map_metrics(numbers))
    _add_values(side, "parameter", {"points": points})
    _add_values(side, "input", of.data)
    _add_values(
        side, "measure", {key: value for key, value in measures.items() if value is not None}
    )
    return side


def _add_values(side: ComparedItem, kind: str, found: Mapping[str, Any], prefix: str = "") -> None:
    side.values.update({(kind, f"{prefix}{name}"): value for name, value in found.items()})


def _map_digests(files: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {one["path"]: one["sha256"] for one in files}


def _map_metrics(numbers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    names = ("value", "error", "unit", "task")
    return {one["name"]: {name: one.get(name) for name in names} for one in numbers}


def _describe_code(attempt: Attempt) -> dict[str, str]:
    if attempt.code is None:
        return {}
    return {
        "commit": attempt.code["commit"],
        "not committed": describe_uncommitted_files(attempt.code) or "nothing",
    }


def _describe_environment(found: Mapping[str, Any] | None) -> dict[str, str]:
    if found is None:
        return {}
    return {
        **list_recorded_variables(found),
        "all variables": f"SHA-256 {found['sha256'][:_DIGEST]}",
    }


def _collect_stage_values(stage: Stage) -> dict[str, Any]:
    newest = stage.attempt
    told = {"status": stage.status.value, "attempts": len(stage.attempts)}
    if newest is None:
        return told
    return {**told, "seconds": _compute_seconds(newest), **_collect_resources(newest)}


def _collect_attempt_values(attempt: Attempt) -> dict[str, Any]:
    values = {
        "outcome": attempt.outcome or "under way",
        "exit code": attempt.exit_code,
        "host": attempt.host,
        "seconds": _compute_seconds(attempt),
        **_collect_resources(attempt),
    }
    return {name: value for name, value in values.items() if value is not None}


def _collect_resources(attempt: Attempt) -> dict[str, float]:
    return {name.replace("_", " "): value for name, value in attempt.resources.items()}


def _compute_seconds(attempt: Attempt) -> float | None:
    found = compute_seconds(attempt.started_at, attempt.ended_at)
    return None if found is None else round(found, 1)
