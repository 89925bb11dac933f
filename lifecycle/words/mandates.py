"""Mandates: approvals in advance, within limits. Their form and their values. Pure.

A mandate is an entry of ``mandates``, a field of the definition. A person grants a mandate by
approving the plan or an amendment. An amendment within the mandate needs no other approval.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Any, TypeAlias

from lifecycle.words.values import is_id

#: The field of a plan with its mandates, by name.
MANDATES = "mandates"
#: The parameter with the maximum run time of a stage's command in seconds.
TIME_LIMIT = "time_limit"
#: Seconds that a command may take to end after its time limit.
GRACE = 30
#: Maximum time limit in seconds (100 days), and maximum value of any other limit.
LONGEST, _MOST = 8_640_000, 10**9
_FIELDS = (
    *("description", "stages", "values", "by", "until"),
    *("amendments", "reruns", "tasks", "core_hours", "scripts"),
)
_RANGE = ({"from", "to"}, {"from", "to", "step"})
_HEX = frozenset("0123456789abcdef")
#: The version of the rules of mandates, which the proof of each approval records.
#: The first version compared every entry of a list with the first one.
RULE = 2
#: Stands for a missing value.
MISSING = object()

Bounds: TypeAlias = "Mapping[str, Any] | list[Any]"
"""A range (``from``, ``to``, optional ``step``), or the list of allowed values."""


@dataclass(frozen=True, slots=True)
class Mandate:
    """Changes that need no further approval until the mandate is used up or expires.

    ``stages`` may be computed under the mandate. ``values`` are bounds by path
    (``stage-2.parameters.dt``). ``by`` are patterns of actors, all if empty. ``until`` is a time
    with its zone. The numbers are maximum numbers of amendments, reruns, tasks and core hours, None
    without a limit. ``scripts`` gives, by path, digests that are allowed in addition to the
    approved ones.
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
    """Return the valid mandates of a definition by name."""
    entries = given.items() if isinstance(given, dict) else ()
    return {
        name: _build_mandate(name, one)
        for name, one in entries
        if not [*_find_form_problems(name, one)]
    }


def _build_mandate(name: str, given: Mapping[str, Any]) -> Mandate:
    """Return the mandate of a valid entry."""
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
        allowed_digests(given.get("scripts", {})),
    )


def allowed_digests(given: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the allowed digests of each file, given one digest or a list."""
    return {
        path: (found,) if isinstance(found, str) else tuple(found) for path, found in given.items()
    }


def mandate_problems(given: Any, stages: Iterable[Any]) -> Iterator[str]:
    """Yield the problems of the mandates of a definition, whose stages are ``stages``."""
    if not isinstance(given, dict):
        yield f"{MANDATES}: expected an object of names and mandates, found {given!r:.80}"
        return
    known = {stage.id: stage for stage in stages}
    for name, one in given.items():
        wrong = [*_find_form_problems(name, one)]
        if name.startswith("rounds."):
            wrong.append(": a name with rounds. before it is that of a loop")
        yield from (f"{MANDATES}.{name}{problem}" for problem in wrong)
        for problem in () if wrong else _find_stage_problems(_build_mandate(name, one), known):
            yield f"{MANDATES}.{name}.{problem}"


def _find_stage_problems(mandate: Mandate, known: Mapping[str, Any]) -> Iterator[str]:
    """Yield unknown stages and missing time limits."""
    for id_ in mandate.stages:
        if id_ not in known:
            yield f"stages: no stage {id_!r}"
    yield from find_missing_time_limits(mandate, known)


def find_missing_time_limits(mandate: Mandate, known: Mapping[str, Any]) -> Iterator[str]:
    """Yield the stages of a mandate with a limit of core hours that have no time limit."""
    for id_ in mandate.stages if mandate.core_hours is not None else ():
        if id_ in known and time_limit(known[id_].parameters) is None:
            yield (
                f"core_hours: {id_} has no parameters.{TIME_LIMIT}, so nothing limits beforehand "
                "what it may use"
            )


def _find_form_problems(name: str, given: Any) -> Iterator[str]:
    """Yield the problems of an entry of ``mandates``."""
    if not is_id(name):
        yield ": expected a name of letters, digits, dot, underscore and hyphen"
    if not isinstance(given, dict):
        yield f": expected an object with stages and amendments, found {given!r:.80}"
        return
    for other in set(given) - set(_FIELDS):
        yield f".{other}: unknown field; expected {', '.join(_FIELDS)}"
    stages = given.get("stages")
    if not (_is_list_of_strings(stages) and stages):
        yield f".stages: expected the stages that it is for, found {stages!r:.80}"
    if not _is_list_of_strings(given.get("by", [])):
        yield f'.by: expected actors such as "agent:*", found {given["by"]!r:.80}'
    if "until" in given and parse_instant(given["until"]) is None:
        yield (
            '.until: expected a time with its zone, such as "2026-12-31T18:00:00Z", found '
            f"{given['until']!r:.60}"
        )
    yield from _find_limit_problems(given)
    yield from _find_value_problems(given.get("values", {}), stages)
    yield from scripts_problems(given.get("scripts", {}))


def _is_list_of_strings(given: Any) -> bool:
    """Return whether a value is a list of strings that are not empty."""
    return isinstance(given, list) and all(isinstance(one, str) and one for one in given)


def _find_limit_problems(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the numbers of a mandate."""
    if "amendments" not in given:
        yield ".amendments: expected how many amendments it is for"
    for name in ("amendments", "reruns", "tasks"):
        if name in given:
            yield from check_number_limit(given, name, 0)
    yield from check_number_limit({"core_hours": 0, **given}, "core_hours", 0, is_whole=False)


def check_number_limit(
    given: Mapping[str, Any], name: str, least: int, *, is_whole: bool = True
) -> Iterator[str]:
    """Yield a problem unless the value of a name is a number that can be a limit."""
    value = given[name]
    if not ((_is_whole if is_whole else _is_number)(value) and least <= value <= _MOST):
        kind = "whole number" if is_whole else "number"
        yield f".{name}: expected a {kind} from {least} to {_MOST}, found {value!r:.60}"


def _find_value_problems(given: Any, stages: Any) -> Iterator[str]:
    """Yield the problems of the bounds of a mandate."""
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
    """Yield the problems of bounds."""
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
    """Yield a problem unless a value gives digests by path."""
    for path, found in given.items() if isinstance(given, dict) else [("", None)]:
        digests: Any = [found] if isinstance(found, str) else found
        if not (
            _is_list_of_strings(digests)
            and all(len(one) == 64 and set(one) <= _HEX for one in digests)
        ):
            yield f".scripts: expected paths with SHA-256 digests, found {path}: {found!r:.80}"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and isfinite(value))


def parse_instant(text: Any) -> datetime | None:
    """Return the time in a text, or None unless the text is a time with its zone."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else None


def is_over(mandate: Mandate, at: str) -> bool:
    """Return whether a mandate has expired at the given time (UTC, ISO 8601)."""
    end, now = parse_instant(mandate.until), parse_instant(at)
    return mandate.until is not None and (end is None or now is None or now > end)


def is_for(mandate: Mandate, actor: str) -> bool:
    """Return whether an actor, such as ``agent:claude``, may act under a mandate."""
    from fnmatch import fnmatchcase  # needed by few calls

    return not mandate.by or any(fnmatchcase(actor, pattern) for pattern in mandate.by)


def time_limit(parameters: Mapping[str, Any]) -> int | None:
    """Return the time limit in seconds of the command of a stage or task, or None."""
    found: Any = parameters.get(TIME_LIMIT)
    return found if _is_whole(found) and 0 < found <= LONGEST else None


def limit_problems(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the time limit of a stage."""
    if TIME_LIMIT in parameters and time_limit(parameters) is None:
        found = parameters[TIME_LIMIT]
        yield (
            f"parameters.{TIME_LIMIT}: expected whole seconds from 1 to {LONGEST}, found "
            f"{found!r:.60}"
        )


def find_uncovered_places(
    path: str, before: Any, after: Any, values: Mapping[str, Bounds], *, is_added: bool = False
) -> Iterator[str]:
    """Yield a sentence for each place of a changed value that no bounds of ``values`` cover.

    A place is a key of an object or an entry of a list; the entries of a list share its path. A
    bound that lists an object or a list covers the object or list as a whole. Otherwise a list must
    not become shorter, and an added entry (``is_added``, with the list's first entry as ``before``)
    must have the shape of the first entry and a bound for each of its values.
    """
    bounds = values.get(path)
    if (not is_added and canonical_text(before) == canonical_text(after)) or _is_listed(
        bounds, after
    ):
        return
    has_places = bool(after) or not is_added
    if isinstance(after, list) and isinstance(before, list) and has_places:
        yield from _find_uncovered_entries(path, before, after, values, is_added=is_added)
    elif isinstance(after, dict) and isinstance(before, dict) and has_places:
        for key in sorted({*before, *after}):
            was, new = before.get(key, MISSING), after.get(key, MISSING)
            yield from find_uncovered_at_key(path, key, was, new, values, is_added=is_added)
    elif bounds is None:
        yield f"{path}: no bounds are given for it"
    elif isinstance(before, (dict, list)):
        shapes = f"{canonical_text(after):.60} has another shape than {canonical_text(before):.60}"
        yield f"{path}: {shapes}, and no bounds list it"
    elif not is_within_bounds(bounds, after):
        yield f"{path}: {canonical_text(after):.60} is not within {canonical_text(bounds):.80}"


def _is_listed(bounds: Bounds | None, value: Any) -> bool:
    """Return whether bounds name an object or a list as a whole."""
    return (
        isinstance(bounds, list)
        and isinstance(value, (dict, list))
        and is_within_bounds(bounds, value)
    )


def _find_uncovered_entries(
    path: str, before: list[Any], after: list[Any], values: Mapping[str, Bounds], *, is_added: bool
) -> Iterator[str]:
    """Yield as `find_uncovered_places` does, for entries at the same place of two lists."""
    for was, new in zip(before, after, strict=False):
        yield from find_uncovered_places(path, was, new, values, is_added=is_added)
    first = before[0] if before else MISSING
    for new in after[len(before) :]:
        yield from find_uncovered_places(path, first, new, values, is_added=True)
    if len(after) < len(before) and not is_added:
        yield (
            f"{path}: no bounds allow a shorter list; it has {len(before)} entries and would have "
            f"{len(after)}"
        )


def find_uncovered_at_key(
    path: str,
    key: str,
    before: Any,
    after: Any,
    values: Mapping[str, Bounds],
    *,
    is_added: bool = False,
) -> Iterator[str]:
    """Yield as `find_uncovered_places` does, for the value at a key of an object.

    A value is `MISSING` if the object does not have the key.
    """
    place = f"{path}.{key}"
    if after is MISSING:
        yield f"{place}: no bounds allow to take it away"
    elif "." not in key:
        yield from find_uncovered_places(place, before, after, values, is_added=is_added)
    elif is_added or canonical_text(before) != canonical_text(
        after
    ):  # the bound would be ambiguous
        yield f"{place}: no bounds are given for it"


def is_within_bounds(bounds: Bounds, value: Any) -> bool:
    """Return whether a value is listed, or is a number in a range and on its steps.

    A range of whole numbers with a whole step contains only whole numbers.
    """
    if isinstance(bounds, list):
        return canonical_text(value) in map(canonical_text, bounds)
    if not _is_number(value) or not bounds["from"] <= value <= bounds["to"]:
        return False
    if "step" not in bounds:
        return True
    if all(map(_is_whole, bounds.values())) and not _is_whole(value):
        return False
    numbers: tuple[Any, ...] = (bounds["from"], bounds["step"], value)
    if not all(map(_is_whole, numbers)):
        from fractions import Fraction  # uses the exact decimal text

        numbers = tuple(Fraction(str(one)) for one in numbers)
    first, step, found = numbers
    return bool((found - first) % step == 0)


def canonical_text(value: Any) -> str:
    """Return a value as JSON. Different values have different texts: 1, 1.0 and true differ."""
    return "nothing" if value is MISSING else json.dumps(value, sort_keys=True, ensure_ascii=False)


def format_count(count: float, one: str) -> str:
    """Return a number with its noun: ``1 task``, ``0 tasks``, ``2.5 core hours``."""
    return f"{format_number(count)} {one}{'' if format_number(count) == '1' else 's'}"


def format_number(count: float) -> str:
    """Return a number with four digits, or without a fraction from 1000 on."""
    return f"{count:.4g}" if count < 1000 else f"{count:.0f}"
