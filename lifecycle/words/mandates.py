"""Mandates: what a person allows beforehand, within bounds. Their form, and their values. Pure.

A mandate is an entry of ``mandates``, a field of the definition: a person grants it by agreeing to
the plan or to an amendment. An amendment within it needs no other consent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Any, TypeAlias

from lifecycle.words.values import is_id

#: The field of a plan that holds them, by name.
MANDATES = "mandates"
#: The parameter of a stage that ends its command after so many seconds.
TIME_LIMIT = "time_limit"
#: Seconds that it may take until a command whose time is over has ended.
GRACE = 30
#: Seconds of the longest time limit, which is 100 days, and the largest number of a limit.
LONGEST, _MOST = 8_640_000, 10**9
_FIELDS = (
    *("description", "stages", "values", "by", "until"),
    *("amendments", "reruns", "tasks", "core_hours", "scripts"),
)
_RANGE = ({"from", "to"}, {"from", "to", "step"})
_HEX = frozenset("0123456789abcdef")
#: In place of a value that is not there.
MISSING = object()

Bounds: TypeAlias = "Mapping[str, Any] | list[Any]"
"""A range (``from``, ``to``, perhaps ``step``), or the values that are allowed."""


@dataclass(frozen=True, slots=True)
class Mandate:
    """What may be done without another word of a person, until it is used up or over.

    ``stages`` may be computed by it; ``values`` are bounds by path (``stage-2.parameters.dt``);
    ``by`` are patterns of actors, all if empty; ``until`` is a time with its zone. The numbers are
    the most of amendments, reruns, tasks and core hours, None: no limit. ``scripts`` gives by path
    digests that the files may have beside those that were agreed to.
    """

    name: str
    stages: tuple[str, ...]
    amendments: int
    reruns: int = 0
    values: Mapping[str, Bounds] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    until: str | None = None
    tasks: int | None = None
    core_hours: float | None = None
    scripts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def mandates_of(given: Any) -> dict[str, Mandate]:
    """Return the mandates of a definition by name, without entries of another form."""
    entries = given.items() if isinstance(given, dict) else ()
    return {name: _mandate(name, one) for name, one in entries if not [*_problems(name, one)]}


def _mandate(name: str, given: Mapping[str, Any]) -> Mandate:
    return Mandate(
        name,
        tuple(given["stages"]),
        given["amendments"],
        given.get("reruns", 0),
        given.get("values", {}),
        tuple(given.get("by", ())),
        given.get("until"),
        given.get("tasks"),
        given.get("core_hours"),
        scripts_allowed(given.get("scripts", {})),
    )


def scripts_allowed(given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return by path the digests that a file may have, of one or of a list of them."""
    return {
        path: (found,) if isinstance(found, str) else tuple(found) for path, found in given.items()
    }


def mandate_problems(given: Any, stages: Iterable[Any]) -> Iterator[str]:
    """Say what is wrong with the mandates of a definition, whose stages are ``stages``."""
    if not isinstance(given, dict):
        yield f"{MANDATES}: expected an object of names and mandates, found {given!r:.80}"
        return
    known = {stage.id: stage for stage in stages}
    for name, one in given.items():
        wrong = [*_problems(name, one)]
        if name.startswith("rounds."):
            wrong.append(": a name with rounds. before it is that of a loop")
        yield from (f"{MANDATES}.{name}{problem}" for problem in wrong)
        for problem in () if wrong else _of_stages(_mandate(name, one), known):
            yield f"{MANDATES}.{name}.{problem}"


def _of_stages(mandate: Mandate, known: Mapping[str, Any]) -> Iterator[str]:
    for id_ in mandate.stages:
        if id_ not in known:
            yield f"stages: no stage {id_!r}"
    yield from limits_known(mandate, known)


def limits_known(mandate: Mandate, known: Mapping[str, Any]) -> Iterator[str]:
    """Say which stages have no time limit, where core hours are counted."""
    for id_ in mandate.stages if mandate.core_hours is not None else ():
        if id_ in known and time_limit(known[id_].parameters) is None:
            yield (
                f"core_hours: {id_} has no parameters.{TIME_LIMIT}, so nobody knows beforehand "
                "what it may use"
            )


def _problems(name: str, given: Any) -> Iterator[str]:
    if not is_id(name):
        yield ": expected a name of letters, digits, dot, underscore and hyphen"
    if not isinstance(given, dict):
        yield f": expected an object with stages and amendments, found {given!r:.80}"
        return
    for other in set(given) - set(_FIELDS):
        yield f".{other}: unknown field; expected {', '.join(_FIELDS)}"
    stages = given.get("stages")
    if not (_is_texts(stages) and stages):
        yield f".stages: expected the stages that it is for, found {stages!r:.80}"
    if not _is_texts(given.get("by", [])):
        yield f'.by: expected actors such as "agent:*", found {given["by"]!r:.80}'
    if "until" in given and instant(given["until"]) is None:
        yield (
            '.until: expected a time with its zone, such as "2026-12-31T18:00:00Z", found '
            f"{given['until']!r:.60}"
        )
    yield from _of_limits(given)
    yield from _of_values(given.get("values", {}), stages)
    yield from scripts_problems(given.get("scripts", {}))


def _is_texts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) and one for one in given)


def _of_limits(given: Mapping[str, Any]) -> Iterator[str]:
    if "amendments" not in given:
        yield ".amendments: expected how many amendments it is for"
    for name in ("amendments", "reruns", "tasks"):
        if name in given:
            yield from limit_of_number(given, name, 0)
    yield from limit_of_number({"core_hours": 0, **given}, "core_hours", 0, is_whole=False)


def limit_of_number(
    given: Mapping[str, Any], name: str, least: int, *, is_whole: bool = True
) -> Iterator[str]:
    """Say what keeps the value of a name from being a limit."""
    value = given[name]
    if not ((_is_whole if is_whole else _is_number)(value) and least <= value <= _MOST):
        kind = "whole number" if is_whole else "number"
        yield f".{name}: expected a {kind} from {least} to {_MOST}, found {value!r:.60}"


def _of_values(given: Any, stages: Any) -> Iterator[str]:
    if not isinstance(given, dict):
        yield f".values: expected an object of paths and bounds, found {given!r:.80}"
        return
    for path, bounds in given.items():
        stage, _, rest = path.partition(".")
        if not (rest.startswith("parameters.") and rest[11:] and stage in (stages or ())):
            yield (
                f".values.{path}: expected a parameter of one of its stages, such as "
                "stage-2.parameters.dt"
            )
        yield from (f".values.{path}: {why}" for why in bounds_problems(bounds))


def bounds_problems(given: Any) -> Iterator[str]:
    """Say what keeps a value from being bounds."""
    if isinstance(given, list):
        if not given:
            yield "expected at least one value"
    elif not isinstance(given, dict) or set(given) not in _RANGE:
        yield f"expected a list of values, or from and to, perhaps with step; found {given!r:.80}"
    elif not all(map(_is_number, given.values())):
        yield f"expected numbers, found {given!r:.80}"
    elif given["from"] > given["to"] or given.get("step", 1) <= 0:
        yield f"expected from not above to, and a step above 0; found {given!r:.80}"


def scripts_problems(given: Any) -> Iterator[str]:
    """Say what keeps a value from giving digests by path."""
    for path, found in given.items() if isinstance(given, dict) else [("", None)]:
        digests: Any = [found] if isinstance(found, str) else found
        if not (_is_texts(digests) and all(len(one) == 64 and set(one) <= _HEX for one in digests)):
            yield f".scripts: expected paths with SHA-256 digests, found {path}: {found!r:.80}"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and isfinite(value))


def instant(text: Any) -> datetime | None:
    """Return the time that a text says, None unless it says one with its zone."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else None


def is_over(mandate: Mandate, at: str) -> bool:
    """Whether a mandate's time is over at a time (UTC, ISO 8601)."""
    end, now = instant(mandate.until), instant(at)
    return mandate.until is not None and (end is None or now is None or now > end)


def is_for(mandate: Mandate, actor: str) -> bool:
    """Whether an actor, such as ``agent:claude``, may act by a mandate."""
    from fnmatch import fnmatchcase  # few calls ask

    return not mandate.by or any(fnmatchcase(actor, pattern) for pattern in mandate.by)


def time_limit(parameters: Mapping[str, Any]) -> int | None:
    """Return the seconds after which the command of a stage, or of a task, is ended."""
    found: Any = parameters.get(TIME_LIMIT)
    return found if _is_whole(found) and 0 < found <= LONGEST else None


def limit_problems(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Say what is wrong with the time limit of a stage."""
    if TIME_LIMIT in parameters and time_limit(parameters) is None:
        found = parameters[TIME_LIMIT]
        yield (
            f"parameters.{TIME_LIMIT}: expected whole seconds from 1 to {LONGEST}, found "
            f"{found!r:.60}"
        )


def outside(path: str, before: Any, after: Any, values: Mapping[str, Bounds]) -> Iterator[str]:
    """Say which parts of a value that changes are not within the bounds of ``values``.

    An object is looked at key by key, and each entry of a list, as the first one was before. What
    is taken away, and what becomes an object or a list, is within no bounds.
    """
    bounds = values.get(path)
    if spelling(before) == spelling(after) or (bounds is not None and fits(bounds, after)):
        return
    if isinstance(after, list) and isinstance(before, list) and before and after:
        for one in after:
            yield from outside(path, before[0], one, values)
    elif isinstance(after, dict) and isinstance(before, dict) and bounds is None:
        for key in sorted({*before, *after}):
            was, new = before.get(key, MISSING), after.get(key, MISSING)
            yield from outside_at(path, key, was, new, values)
    elif bounds is None:
        yield f"{path}: no bounds are given for it"
    else:
        yield f"{path}: {spelling(after):.60} is not within {spelling(bounds):.80}"


def outside_at(
    path: str, key: str, before: Any, after: Any, values: Mapping[str, Bounds]
) -> Iterator[str]:
    """As `outside`, for what stands at a key of an object; `MISSING` if nothing does."""
    place = f"{path}.{key}"
    if after is MISSING:
        yield f"{place}: no bounds allow to take it away"
    elif "." in key:  # it would be spelled as a key of a key
        yield f"{place}: no bounds are given for it"
    else:
        yield from outside(place, before, after, values)


def fits(bounds: Bounds, value: Any) -> bool:
    """Whether a value is one that is allowed, or a number within a range and on its steps.

    A range of whole numbers with a whole step holds whole numbers alone.
    """
    if isinstance(bounds, list):
        return spelling(value) in map(spelling, bounds)
    if not _is_number(value) or not bounds["from"] <= value <= bounds["to"]:
        return False
    if "step" not in bounds:
        return True
    if all(map(_is_whole, bounds.values())) and not _is_whole(value):
        return False
    numbers: tuple[Any, ...] = (bounds["from"], bounds["step"], value)
    if not all(map(_is_whole, numbers)):
        from fractions import Fraction  # as they are spelled: no digit is lost

        numbers = tuple(Fraction(str(one)) for one in numbers)
    first, step, found = numbers
    return bool((found - first) % step == 0)


def spelling(value: Any) -> str:
    """Return a value so that only the same value is spelled so; JSON tells 1 from true and 1.0."""
    return "nothing" if value is MISSING else json.dumps(value, sort_keys=True, ensure_ascii=False)


def counted(count: float, one: str) -> str:
    """Return a number of something: ``1 task``, ``0 tasks``, ``2.5 core hours``."""
    return f"{number(count)} {one}{'' if number(count) == '1' else 's'}"


def number(count: float) -> str:
    """Return a number as people read it: to four digits, or without a fraction."""
    return f"{count:.4g}" if count < 1000 else f"{count:.0f}"
