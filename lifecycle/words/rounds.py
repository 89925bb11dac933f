"""Loops: stages that run in rounds. Each round computes points chosen after the previous one.

Loops are entries of the field ``rounds`` of a plan. A person approves the limits of a loop: the
allowed points and their number, the number of rounds, and the stopping criteria.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from lifecycle.words.mandates import (
    Bounds,
    Mandate,
    allowed_digests,
    bounds_problems,
    canonical_text,
    find_number_limit_problem,
    is_within_bounds,
    scripts_problems,
)
from lifecycle.words.metrics import is_number
from lifecycle.words.values import is_id

#: Name of the field of a plan that contains the loops.
ROUNDS = "rounds"
#: Value of ``ask`` for a loop whose points an agent or a person proposes with `wfctl round
#: propose`.
AGENT = "agent"
#: Environment variable with the number of the round that a job computes.
VARIABLE = "WFCTL_ROUND"
_FIELDS = (
    *("description", "stages", "points", "ask", "within", "each"),
    *("until", "at_most", "tasks", "core_hours", "scripts"),
)
_TESTS = ("below", "above", "relative_error", "no_better")
_UNTIL = ("metric", *_TESTS, "rounds", "better")


class LoopCriterion(NamedTuple):
    """A stopping criterion of a loop: a test that compares a metric with a limit.

    The loop ends if the metric is below or above the limit, if its relative error is at most the
    limit, or if it has not improved by the share ``limit`` for ``rounds`` rounds. ``metric`` is a
    name such as ``stage-2.tc``.
    """

    metric: str
    test: str
    limit: float
    rounds: int = 1
    better: str = ""

    def __str__(self) -> str:
        if self.test == "no_better":
            return f"{self.metric} is no better by {self.limit:g} for {self.rounds} rounds"
        return f"{self.metric} {self.test.replace('_', ' ')} {self.limit:g}"


class LoopDefinition(NamedTuple):
    """The definition of an optimization loop in a plan.

    ``points`` is the stage that gets the new points. ``ask`` is the source of the points: an output
    of one of the loop's stages, or ``agent``. ``within`` gives bounds for each value of a point.
    ``each`` is the maximum number of points of a round, or None without a limit. ``at_most`` is the
    maximum number of rounds.
    """

    name: str
    stages: tuple[str, ...]
    points: str
    ask: str
    at_most: int
    within: Mapping[str, Bounds] = MappingProxyType({})
    each: int | None = None
    until: tuple[LoopCriterion, ...] = ()
    tasks: int | None = None
    core_hours: float | None = None
    scripts: Mapping[str, Any] = MappingProxyType({})

    @property
    def has_external_proposer(self) -> bool:
        """Return whether a person or an agent proposes the points of the next round."""
        return self.ask == AGENT

    @property
    def points_source_stage(self) -> str:
        """Return the stage whose output file contains the points of the next round.

        Return "" if a person or an agent proposes them.
        """
        return "" if self.has_external_proposer else self.ask.partition("/")[0]


def stage_folder_of_round(stage: str, number: int) -> str:
    """Return the folder, relative to the root, that contains a stage's files of one loop round."""
    return f"{stage}/round-{number:02d}"


def parse_valid_loops(given: Any) -> dict[str, LoopDefinition]:
    """Return the definitions of the loops in a plan by name, without invalid ones."""
    entries = given.items() if isinstance(given, dict) else ()
    return {
        name: build_loop(name, one)
        for name, one in entries
        if not [*find_malformed_loop_parts(name, one)]
    }


def build_loop(name: str, given: Mapping[str, Any]) -> LoopDefinition:
    """Return the loop that a valid entry of the plan describes."""
    known = {key: given[key] for key in _FIELDS if key in given}
    known.pop("description", None)
    until = known.pop("until", [])
    each = until if isinstance(until, list) else [until]
    return LoopDefinition(
        name,
        tuple(known.pop("stages")),
        until=tuple(map(_build_criterion, each)),
        **known,
    )


def loop_limits_as_mandate(loop: LoopDefinition) -> Mandate:
    """Return the limits of a loop in the form of a mandate that allows no amendments.

    A mandate is a permission given in advance, with limits.
    """
    return Mandate(
        f"{ROUNDS}.{loop.name}",
        loop.stages,
        amendments=0,
        tasks=loop.tasks,
        core_hours=loop.core_hours,
        scripts=allowed_digests(loop.scripts),
    )


def _build_criterion(given: Mapping[str, Any]) -> LoopCriterion:
    """Return the stopping criterion that a valid entry of the plan describes."""
    test = next(name for name in _TESTS if name in given)
    rest = {name: given[name] for name in ("rounds", "better") if name in given}
    return LoopCriterion(given["metric"], test, given[test], **rest)


def find_malformed_loop_parts(name: str, given: Any) -> Iterator[str]:
    """Yield the problems of one entry in the field ``rounds`` of a plan."""
    if not is_id(name):
        yield ": expected a name of letters, digits, dot, underscore and hyphen"
    if not isinstance(given, dict):
        yield f": expected an object with stages, points, ask and at_most, found {given!r:.80}"
        return
    for other in set(given) - set(_FIELDS):
        yield f".{other}: unknown field; expected {', '.join(_FIELDS)}"
    stages = given.get("stages")
    if not (isinstance(stages, list) and stages and all(isinstance(one, str) for one in stages)):
        yield f".stages: expected the stages of the loop, found {stages!r:.80}"
    for key in ("points", "ask"):
        if not isinstance(given.get(key), str):
            yield f".{key}: expected text, found {given.get(key)!r:.60}"
    yield from _find_number_problems(given)
    yield from _find_bounds_problems(given.get("within", {}))
    yield from scripts_problems(given.get("scripts", {}))
    until = given.get("until", [])
    for one in until if isinstance(until, list) else [until]:
        yield from (f".until{why}" for why in _find_criterion_problems(one))


def _find_number_problems(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the numeric limits of a loop."""
    if "at_most" not in given:
        yield ".at_most: expected the most of rounds; a loop has an end"
    for key in ("at_most", "each", "tasks"):
        if key in given:
            yield from find_number_limit_problem(given, key, 1 if key != "tasks" else 0)
    yield from find_number_limit_problem(
        {"core_hours": 0, **given}, "core_hours", 0, is_whole=False
    )


def _find_bounds_problems(given: Any) -> Iterator[str]:
    """Yield the problems of the bounds that a loop gives for its points."""
    if not isinstance(given, dict) or not given:
        yield f".within: expected bounds for each value of a point, found {given!r:.80}"
        return
    for name, bounds in given.items():
        yield from (f".within.{name}: {why}" for why in bounds_problems(bounds))


def _find_criterion_problems(given: Any) -> Iterator[str]:
    """Yield the problems of a stopping criterion of a loop."""
    tests = [name for name in _TESTS if isinstance(given, dict) and name in given]
    if not isinstance(given, dict) or not isinstance(given.get("metric"), str) or len(tests) != 1:
        yield f": expected a metric and one of {', '.join(_TESTS)}, found {given!r:.80}"
        return
    for other in set(given) - set(_UNTIL):
        yield f".{other}: unknown field; expected {', '.join(_UNTIL)}"
    if not is_number(given[tests[0]]):
        yield f".{tests[0]}: expected a number, found {given[tests[0]]!r:.60}"
    if given.get("better", "lower") not in ("lower", "higher"):
        yield f".better: expected lower or higher, found {given['better']!r:.60}"
    if "rounds" in given or tests[0] == "no_better":
        yield from find_number_limit_problem({"rounds": 1, **given}, "rounds", 1)


def find_values_outside_envelope(
    loop: LoopDefinition, point: Mapping[str, Any], optional: Collection[str] = ()
) -> Iterator[str]:
    """Yield a problem for each value of a point that is outside the bounds of the loop.

    A point may lack the values with the names in ``optional``.
    """
    names = {*loop.within}
    if not point or not names - {*optional} <= {*point} <= names:
        found = ", ".join(map(str, point)) or "none"
        yield f"expected values for {', '.join(sorted(names))}, found {found}"
        return
    for name, value in point.items():
        if not is_within_bounds(loop.within[name], value):
            bounds = canonical_text(loop.within[name])
            yield f"{name}: {canonical_text(value):.60} is not within {bounds:.80}"


Numbers = Mapping[str, Mapping[str, Any]]
"""The numbers of a round: ``stage-2.tc`` → its ``value``, and its ``error`` if known."""


def is_criterion_met(until: LoopCriterion, rounds: Sequence[Numbers], better: str) -> bool:
    """Return whether the metrics of the rounds so far meet a stopping criterion of the loop.

    ``rounds`` has the metrics of each round, the oldest first. ``better`` is the direction in which
    the metric improves, lower or higher.
    """
    found = [one.get(until.metric) for one in rounds]
    last = found[-1] if found else None
    if last is None:
        return False
    value, error = float(last["value"]), last.get("error")
    match until.test:
        case "below":
            return value < until.limit
        case "above":
            return value > until.limit
        case "relative_error":
            return error is not None and value != 0 and abs(error / value) <= until.limit
    return _has_stopped_improving(
        until, [None if one is None else one["value"] for one in found], better
    )


def _has_stopped_improving(
    until: LoopCriterion, values: Sequence[float | None], better: str
) -> bool:
    """Return whether the best value has not improved enough in the last rounds."""
    sign = -1.0 if (until.better or better) == "higher" else 1.0
    known = [None if value is None else sign * value for value in values]
    before = [one for one in known[: -until.rounds] if one is not None]
    since = [one for one in known[-until.rounds :] if one is not None]
    if not before or len(since) < until.rounds:
        return False
    return min(since) >= min(before) - until.limit * abs(min(before))
