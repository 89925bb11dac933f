"""Format the numbers and files that the plan names as the results of the workflow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import hypot, isfinite
from typing import Any, NamedTuple

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.metrics import (
    Metric,
    ResultTarget,
    lies_in,
    parse_valid_metrics,
    resolve_result,
)
from projections.words.account import FileCheckResult, find_stale_stages, list_recorded_deviations
from projections.words.format_numbers import format_quantity, format_with_error
from projections.words.result_origin import describe_deleted


class NamedResult(NamedTuple):
    """A result that the plan names: a number or a file.

    ``text`` contains the number or the path of the file. ``number`` is a `MeasuredNumber` as a
    dict, or None for a file. ``lacking`` is the reason why the result is missing or unreliable, and
    is empty for a valid result.
    """

    name: str
    stage: str
    text: str
    number: Mapping[str, Any] | None = None
    path: str = ""
    lacking: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values. Omit empty values."""
        number = {k: v for k, v in (self.number or {}).items() if v is not None}
        told = {"result": self.name, "stage": self.stage, "text": self.text, "path": self.path}
        told |= {"lacking": self.lacking}
        return {name: value for name, value in told.items() if value} | (
            {"number": number} if number else {}
        )

    def __str__(self) -> str:
        return f"{self.text} ({self.lacking})" if self.lacking else self.text


def list_named_results(state: Workflow, seen: FileCheckResult | None = None) -> list[NamedResult]:
    """Return the results that the plan names, in the order of the plan.

    ``seen`` is the result of a check of the files. Without it, the files are assumed to be as the
    log describes them. If two stages have a metric of the same name, the text includes the stage.
    """
    found = (resolve_result(text, state.stages.values()) for text in dict.fromkeys(state.results))
    named = [one for one in found if one is not None]
    names = Counter(one.metric.name for one in named if one.metric is not None)
    doubts = _find_doubts(state, seen or FileCheckResult(list_recorded_deviations(state)))
    return [
        _build_answer(
            state, one, doubts, of_many=one.metric is not None and names[one.metric.name] > 1
        )
        for one in named
    ]


def _find_doubts(state: Workflow, seen: FileCheckResult) -> dict[str, str]:
    """Return the reasons to doubt results.

    The key is the path of a result file, or the id of a stage if all its results are affected.
    """
    files = {
        one.path: f"{one.path} {_CHANGED[one.kind]} since"
        for one in seen.deviations
        if one.what == "result" and one.kind in _CHANGED
    }
    gone = {path: f"{path} is missing" for paths in seen.gone.values() for path in paths}
    return (
        {id_: f"{id_} is stale" for id_ in find_stale_stages(state, seen.deviations)} | files | gone
    )


def _build_answer(
    state: Workflow, named: ResultTarget, doubts: Mapping[str, str], *, of_many: bool
) -> NamedResult:
    stage = state.stages[named.stage]
    if named.metric is None:
        lacking = _describe_lack(stage, named.path, doubts) or _describe_deletion(stage, named.path)
        return NamedResult(named.text, stage.id, named.path, path=named.path, lacking=lacking)
    name = named.text if of_many else named.metric.name
    number = find_metric_value(stage, named.metric.name)
    if stage.status is not Status.COMPLETED or number is None:
        lacking = _describe_lack(stage, "", {}) or "not recorded"
        return NamedResult(named.text, stage.id, name, lacking=lacking)
    path = number["path"]
    text = describe_number({**number, "name": name}, named.metric)
    return NamedResult(
        named.text, stage.id, text, number, path, _describe_lack(stage, path, doubts)
    )


def _describe_lack(stage: Stage, path: str, doubts: Mapping[str, str]) -> str:
    if stage.status is not Status.COMPLETED:
        return f"{stage.id} is {stage.status.value}"
    output = next((one for one in stage.outputs if lies_in(path, one)), path)
    return doubts.get(path) or doubts.get(output) or doubts.get(stage.id, "")


def _describe_deletion(stage: Stage, path: str) -> str:
    found = (one for one in stage.deleted if lies_in(path, one["path"]))
    return next((describe_deleted(one) for one in found), "")


_CHANGED = {"changed": "has changed", "missing": "is missing"}


def find_metric_value(stage: Stage, name: str) -> Mapping[str, Any] | None:
    """Return the recorded value of a metric of the stage, or None for an unknown name."""
    return next((one for one in stage.metrics if one["name"] == name), None)


def describe_all_metrics(stage: Stage, numbers: list[dict[str, Any]]) -> list[str]:
    """Return a line of text for each metric of a stage or of one of its attempts."""
    metrics = parse_valid_metrics(stage.parameters)
    return [describe_number(one, metrics.get(one["name"])) for one in numbers]


def describe_number(number: Mapping[str, Any], metric: Metric | None = None) -> str:
    """Return a metric as text.

    An example is ``T_c = 2.261 ± 0.010 J (0.8 σ from 2.2692, Onsager)``. If the number belongs to
    the best task of a sweep, the text includes the key of this task.
    """
    text = f"{number['name']} = {format_metric_value(number)}"
    reference = metric.reference if metric is not None else None
    return f"{text} ({_compare_with_reference(number, reference)})" if reference else text


def format_metric_value(number: Mapping[str, Any]) -> str:
    """Return the value of a metric with its error, its unit and the key of its task, if any."""
    text = format_quantity(number["value"], number.get("error"), number.get("unit"))
    return f"{text} at {number['task']}" if number.get("task") else text


def _compare_with_reference(number: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    known, error = reference["value"], reference.get("error")
    source = f", {reference['source']}" if reference.get("source") else ""
    found = measure_difference(known, error, number["value"], number.get("error"))
    far = found.difference_text if found is not None else "far"
    return f"{far} from {format_with_error(known, error)}{source}"


class NumberDifference(NamedTuple):
    """The difference between two numbers.

    ``sigma`` is the absolute difference divided by the combined error. ``sigma`` and ``relative``
    are None if they are unknown or not finite.
    """

    value: float
    relative: float | None
    sigma: float | None

    @property
    def difference_text(self) -> str:
        """The difference in σ if an error is known, otherwise in percent."""
        if self.sigma is not None:
            return f"{self.sigma:.1f} σ"
        if self.relative is None:
            return f"{self.value:+.3g}"
        return f"{self.relative:+.2%}".replace("%", " %")

    def __str__(self) -> str:
        return (
            self.difference_text
            if self.sigma is None
            else f"{self.value:+.3g} ({self.difference_text})"
        )


def measure_difference(
    first: float, of_first: float | None, other: float, of_other: float | None
) -> NumberDifference | None:
    """Return the difference between two numbers, given their errors.

    Return None if the difference is not finite.
    """
    far, sigma = float(other) - float(first), hypot(of_first or 0.0, of_other or 0.0)
    if not isfinite(far):
        return None
    return NumberDifference(far, _compute_ratio(far, abs(first)), _compute_ratio(abs(far), sigma))


def _compute_ratio(value: float, of: float) -> float | None:
    found = value / of if of else None
    return found if found is not None and isfinite(found) else None
