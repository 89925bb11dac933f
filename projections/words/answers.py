"""The numbers and files that answer the question of a workflow, in words."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, hypot, log10
from typing import Any, NamedTuple

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.metrics import Metric, Named, metrics_of, resolved

#: Significant digits of an error, and of a number without one.
_OF_ERROR, _OF_NUMBER = 2, 6


class Answer(NamedTuple):
    """One entry of ``results``: ``text`` tells the number, or the path of the file.

    ``number`` is as `MeasuredNumber` has it, None of a file. ``lacking`` says why it is not there,
    or not to be relied on; it is empty if the answer holds.
    """

    name: str
    stage: str
    text: str
    number: Mapping[str, Any] | None = None
    path: str = ""
    lacking: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, without those that say nothing."""
        number = {k: v for k, v in (self.number or {}).items() if v is not None}
        told = {"result": self.name, "stage": self.stage, "text": self.text, "path": self.path}
        told |= {"lacking": self.lacking}
        return {name: value for name, value in told.items() if value} | (
            {"number": number} if number else {}
        )

    def __str__(self) -> str:
        return f"{self.text} ({self.lacking})" if self.lacking else self.text


def answers(state: Workflow) -> list[Answer]:
    """Return the results that the plan names, in its order; of a plan that names none, nothing."""
    found = ((text, resolved(text, state.stages.values())) for text in state.results)
    return [_answer(state, named) for _, named in found if named is not None]


def _answer(state: Workflow, named: Named) -> Answer:
    stage = state.stages[named.stage]
    if named.metric is None:
        return Answer(
            named.text, stage.id, named.path, path=named.path, lacking=_lacking(stage, named.path)
        )
    number = number_of(stage, named.metric.name)
    if stage.status is not Status.COMPLETED or number is None:
        lacking = _lacking(stage, "") or "not recorded"
        return Answer(named.text, stage.id, named.metric.name, lacking=lacking)
    text = told(number, named.metric)
    return Answer(
        named.text, stage.id, text, number, number["path"], _lacking(stage, number["path"])
    )


def _lacking(stage: Stage, path: str) -> str:
    if stage.status is not Status.COMPLETED:
        return f"{stage.id} is {stage.status.value}"
    found = next((one for one in stage.changed if one["path"] == path), None)
    return f"{path} {_CHANGED[found['kind']]} since" if found is not None else ""


_CHANGED = {"changed": "has changed", "missing": "is missing"}


def number_of(stage: Stage, name: str) -> Mapping[str, Any] | None:
    """Return a number of the stage as it was recorded; None if it has none of that name."""
    return next((one for one in stage.metrics if one["name"] == name), None)


def told_all(stage: Stage, numbers: list[dict[str, Any]]) -> list[str]:
    """Return a line for each number of a stage or of one of its attempts."""
    metrics = metrics_of(stage.parameters)
    return [told(one, metrics.get(one["name"])) for one in numbers]


def told(number: Mapping[str, Any], metric: Metric | None = None) -> str:
    """Return ``T_c = 2.261 ± 0.010 J (0.8 σ from 2.2692, Onsager)``.

    Of the best task of a sweep its key follows.
    """
    text = f"{number['name']} = {with_error(number['value'], number.get('error'))}"
    text += f" {number['unit']}" if number.get("unit") else ""
    text += f" at {number['task']}" if number.get("task") else ""
    reference = metric.reference if metric is not None else None
    return f"{text} ({_compared(number, reference)})" if reference else text


def with_error(value: float, error: float | None) -> str:
    """Return a number as far as its error lets it be known: ``2.261 ± 0.010``."""
    if not error or error < 0:
        return _plain(value)
    decimals = max(_OF_ERROR - 1 - floor(log10(error)), 0)
    if decimals > 12 or abs(value) >= 1e12:
        return f"{value:.{_OF_NUMBER}g} ± {error:.{_OF_ERROR}g}"
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def _plain(value: float) -> str:
    if value == int(value) and abs(value) < 1e12:
        return f"{value:.0f}"
    return f"{value:.{_OF_NUMBER}g}"


def _compared(number: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    known, error = reference["value"], reference.get("error")
    source = f", {reference['source']}" if reference.get("source") else ""
    apart = _distance(number["value"], number.get("error"), known, error)
    return f"{apart} from {with_error(known, error)}{source}"


def _distance(value: float, error: float | None, other: float, of_other: float | None) -> str:
    apart, sigma = value - other, hypot(error or 0.0, of_other or 0.0)
    relative = apart / abs(other) if other else None
    return told_distance(apart, relative, abs(apart) / sigma if sigma > 0 else None)


def told_distance(apart: float, relative: float | None, sigma: float | None) -> str:
    """Return how far two numbers are apart: in σ if an error is known, else in per cent."""
    if sigma is not None:
        return f"{sigma:.1f} σ"
    return f"{apart:+.3g}" if relative is None else f"{relative:+.2%}".replace("%", " %")
