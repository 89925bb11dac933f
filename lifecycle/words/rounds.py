"""Loops: stages that are computed in rounds, each for points that the round before led to. Pure.

A loop is an entry of ``rounds``, a field of the definition. A person agrees to its envelope: what
points may be, how many, how often, and when it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lifecycle.words.mandates import (
    Bounds,
    Mandate,
    bounds_problems,
    fits,
    limit_of_number,
    scripts_allowed,
    scripts_problems,
    spelling,
)
from lifecycle.words.metrics import is_number
from lifecycle.words.values import is_id

#: The field of a plan that holds the loops, by name.
ROUNDS = "rounds"
#: In place of a file: somebody proposes the points by `wfctl round propose`.
AGENT = "agent"
#: The variable in which a job sees the number of its round.
VARIABLE = "WFCTL_ROUND"
_FIELDS = (
    *("description", "stages", "points", "ask", "within", "each"),
    *("until", "at_most", "tasks", "core_hours", "scripts"),
)
_TESTS = ("below", "above", "relative_error", "no_better")
_UNTIL = ("metric", *_TESTS, "rounds", "better")


@dataclass(frozen=True, slots=True)
class Until:
    """When a loop ends: ``metric`` (``stage-2.tc``) is below or above ``limit``, its relative error
    at most that, or no better by that share for some ``rounds``.
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


@dataclass(frozen=True, slots=True)
class LoopDefinition:
    """A loop: its stages, the one whose map gets the points, and where those come from.

    ``ask`` is an output of one of its stages, or ``agent``. ``within`` gives bounds by the name of
    a value; ``each`` is the most of points that a round adds, None: no limit. ``at_most`` counts
    rounds.
    """

    name: str
    stages: tuple[str, ...]
    points: str
    ask: str
    at_most: int
    within: Mapping[str, Bounds] = field(default_factory=dict)
    each: int | None = None
    until: tuple[Until, ...] = ()
    tasks: int | None = None
    core_hours: float | None = None
    scripts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def asks_somebody(self) -> bool:
        """Whether no stage says which points come next."""
        return self.ask == AGENT

    @property
    def asked(self) -> str:
        """The stage whose output says which points come next; empty if somebody does."""
        return "" if self.asks_somebody else self.ask.partition("/")[0]


def folder_of(stage: str, number: int) -> str:
    """Return the folder that holds what a stage left in an earlier round, relative to the root."""
    return f"{stage}/round-{number:02d}"


def loops_of(given: Any) -> dict[str, LoopDefinition]:
    """Return the loops of a definition by name, without entries of another form."""
    entries = given.items() if isinstance(given, dict) else ()
    return {name: loop_of(name, one) for name, one in entries if not [*misshapen_loop(name, one)]}


def loop_of(name: str, given: Mapping[str, Any]) -> LoopDefinition:
    """Return the loop of an entry that is one."""
    known = {key: given[key] for key in _FIELDS if key in given}
    known.pop("description", None)
    until = known.pop("until", [])
    each = until if isinstance(until, list) else [until]
    return LoopDefinition(
        name,
        tuple(known.pop("stages")),
        until=tuple(map(_until, each)),
        **known,
    )


def envelope_of(loop: LoopDefinition) -> Mandate:
    """Return what a loop may use, as a mandate: it is for no amendment."""
    return Mandate(
        f"{ROUNDS}.{loop.name}",
        loop.stages,
        amendments=0,
        tasks=loop.tasks,
        core_hours=loop.core_hours,
        scripts=scripts_allowed(loop.scripts),
    )


def _until(given: Mapping[str, Any]) -> Until:
    test = next(name for name in _TESTS if name in given)
    rest = {name: given[name] for name in ("rounds", "better") if name in given}
    return Until(given["metric"], test, given[test], **rest)


def misshapen_loop(name: str, given: Any) -> Iterator[str]:
    """Say what keeps an entry from being a loop."""
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
    yield from _of_numbers(given)
    yield from _of_within(given.get("within", {}))
    yield from scripts_problems(given.get("scripts", {}))
    until = given.get("until", [])
    for one in until if isinstance(until, list) else [until]:
        yield from (f".until{why}" for why in _of_until(one))


def _of_numbers(given: Mapping[str, Any]) -> Iterator[str]:
    if "at_most" not in given:
        yield ".at_most: expected the most of rounds; a loop has an end"
    for key in ("at_most", "each", "tasks"):
        if key in given:
            yield from limit_of_number(given, key, 1 if key != "tasks" else 0)
    yield from limit_of_number({"core_hours": 0, **given}, "core_hours", 0, is_whole=False)


def _of_within(given: Any) -> Iterator[str]:
    if not isinstance(given, dict) or not given:
        yield f".within: expected bounds for each value of a point, found {given!r:.80}"
        return
    for name, bounds in given.items():
        yield from (f".within.{name}: {why}" for why in bounds_problems(bounds))


def _of_until(given: Any) -> Iterator[str]:
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
        yield from limit_of_number({"rounds": 1, **given}, "rounds", 1)


def outside_of(loop: LoopDefinition, point: Mapping[str, Any]) -> Iterator[str]:
    """Say which values of a point are not within the envelope of a loop."""
    names = {*loop.within}
    if {*point} != names:
        yield f"expected values for {', '.join(sorted(names))}, found {', '.join(map(str, point))}"
        return
    for name, value in point.items():
        if not fits(loop.within[name], value):
            yield f"{name}: {spelling(value):.60} is not within {spelling(loop.within[name]):.80}"


Numbers = Mapping[str, Mapping[str, Any]]
"""What a round came to: ``stage-2.tc`` → its ``value``, its ``error`` if there is one."""


def is_met(until: Until, rounds: Sequence[Numbers], better: str) -> bool:
    """Whether the numbers of the rounds so far, the oldest first, end a loop.

    ``better`` is that of the metric, lower or higher.
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
    return _is_no_better(until, [None if one is None else one["value"] for one in found], better)


def _is_no_better(until: Until, values: Sequence[float | None], better: str) -> bool:
    sign = -1.0 if (until.better or better) == "higher" else 1.0
    known = [None if value is None else sign * value for value in values]
    before = [one for one in known[: -until.rounds] if one is not None]
    since = [one for one in known[-until.rounds :] if one is not None]
    if not before or len(since) < until.rounds:
        return False
    return min(since) >= min(before) - until.limit * abs(min(before))
