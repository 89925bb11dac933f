"""Mandates: permissions that a person gives in advance, with limits.

Mandates are entries of the field ``mandates`` of a plan. A person grants a mandate by approving the
plan or an amendment. An amendment within the limits of a mandate needs no other approval.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from lifecycle.words.values import is_id

#: Name of the field of a plan that contains the mandates.
MANDATES = "mandates"
#: Name of the parameter with the maximum run time, in seconds, of a stage's command.
TIME_LIMIT = "time_limit"
#: Seconds that a command gets to exit after its time limit.
GRACE = 30
#: Maximum time limit in seconds (100 days), and maximum value of any other limit.
LONGEST, _MOST = 8_640_000, 10**9
_FIELDS = (
    *("description", "stages", "values", "by", "until"),
    *("amendments", "reruns", "tasks", "core_hours", "scripts"),
)
_RANGE = ({"from", "to"}, {"from", "to", "step"})
_HEX = frozenset("0123456789abcdef")
#: Version of the mandate rules, which the proof of each approval records. In version 1, every entry
#: of a list was compared with the first entry.
RULE = 2
#: Represents a key that an object does not have.
MISSING = object()

Bounds: TypeAlias = "Mapping[str, Any] | list[Any]"
"""A range (``from``, ``to``, optional ``step``), or the list of allowed values."""


class Mandate(NamedTuple):
    """A permission for changes that need no other approval, within limits.

    ``stages`` may be computed under the mandate. ``values`` gives bounds by path
    (``stage-2.parameters.dt``). ``by`` has patterns of the actors who may use the mandate; if it is
    empty, all may. ``until`` is the expiry time, with a time zone. ``amendments``, ``reruns``,
    ``tasks`` and ``core_hours`` are maximum numbers, and None means no limit. ``scripts`` gives, by
    path, digests that are allowed in addition to the approved ones.
    """

    name: str
    stages: tuple[str, ...]
    amendments: int
    reruns: int = 0
    values: Mapping[str, Bounds] = MappingProxyType({})
    by: tuple[str, ...] = ()
    until: str | None = None
    tasks: int | None = None
    core_hours: float | None = None
    scripts: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def parse_valid_mandates(given: Any) -> dict[str, Mandate]:
    """Return the mandates in a plan by name, without invalid ones."""
    entries = given.items() if isinstance(given, dict) else ()
    return {
        name: _build_mandate(name, one)
        for name, one in entries
        if not [*_find_form_problems(name, one)]
    }


def _build_mandate(name: str, given: Mapping[str, Any]) -> Mandate:
    """Return the mandate that a valid entry of the plan describes."""
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
    """Return a tuple of allowed digests for each file.

    The plan may give one digest or a list for a file.
    """
    return {
        path: (found,) if isinstance(found, str) else tuple(found) for path, found in given.items()
    }


def mandate_problems(given: Any, stages: Iterable[Any]) -> Iterator[str]:
    """Yield the problems of the mandates in a plan with the given stages."""
    if not isinstance(given, dict):
        yield f"{MANDATES}: expected an object of names and mandates, found {given!r:.80}"
        return
    known = {stage.id: stage for stage in stages}
    for name, one in given.items():
        wrong = [*_find_form_problems(name, one)]
        if name.startswith("rounds."):
            wrong.append(": a name with rounds. before it is that of a loop")
        yield from (f"{MANDATES}.{name}{problem}" for problem in wrong)
        for problem in (
            () if wrong else _find_stage_and_time_limit_problems(_build_mandate(name, one), known)
        ):
            yield f"{MANDATES}.{name}.{problem}"


def _find_stage_and_time_limit_problems(
    mandate: Mandate, known: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a problem for each unknown stage or missing time limit of a mandate's stages."""
    for id_ in mandate.stages:
        if id_ not in known:
            yield f"stages: no stage {id_!r}"
    yield from find_missing_time_limits(mandate, known)


def find_missing_time_limits(mandate: Mandate, known: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem for each stage without a time limit, if the mandate limits core hours.

    Without a time limit, the core hours of the stage cannot be estimated.
    """
    for id_ in mandate.stages if mandate.core_hours is not None else ():
        if id_ in known and not _has_time_limit(known[id_].parameters):
            yield (
                f"core_hours: {id_} has no parameters.{TIME_LIMIT}, so nothing limits beforehand "
                "what it may use"
            )


def _has_time_limit(parameters: Mapping[str, Any]) -> bool:
    """Return whether a stage limits its run time, as a parameter or as a requested resource."""
    requested = parameters.get("resources")
    is_requested = isinstance(requested, dict) and TIME_LIMIT in requested
    return is_requested or time_limit(parameters) is not None


def _find_form_problems(name: str, given: Any) -> Iterator[str]:
    """Yield the problems of one entry in the field ``mandates`` of a plan."""
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
    """Return whether a value is a list of non-empty strings."""
    return isinstance(given, list) and all(isinstance(one, str) and one for one in given)


def _find_limit_problems(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the numeric limits of a mandate."""
    if "amendments" not in given:
        yield ".amendments: expected how many amendments it is for"
    for name in ("amendments", "reruns", "tasks"):
        if name in given:
            yield from find_number_limit_problem(given, name, 0)
    yield from find_number_limit_problem(
        {"core_hours": 0, **given}, "core_hours", 0, is_whole=False
    )


def find_number_limit_problem(
    given: Mapping[str, Any], name: str, least: int, *, is_whole: bool = True
) -> Iterator[str]:
    """Yield a problem unless the value named ``name`` is a number that can be a limit."""
    value = given[name]
    if not ((_is_whole if is_whole else _is_number)(value) and least <= value <= _MOST):
        kind = "whole number" if is_whole else "number"
        yield f".{name}: expected a {kind} from {least} to {_MOST}, found {value!r:.60}"


def _find_value_problems(given: Any, stages: Any) -> Iterator[str]:
    """Yield the problems of the bounds that a mandate gives for parameters."""
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
    """Yield the problems of bounds, which are a range or a list of allowed values."""
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
    """Yield a problem unless the value maps paths of scripts to SHA-256 digests."""
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
    """Return the time in a text, or None if the text is not a time with a time zone."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else None


def is_mandate_expired(mandate: Mandate, at: str) -> bool:
    """Return whether a mandate has expired at the given time (UTC, ISO 8601)."""
    end, now = parse_instant(mandate.until), parse_instant(at)
    return mandate.until is not None and (end is None or now is None or now > end)


def can_actor_use_mandate(mandate: Mandate, actor: str) -> bool:
    """Return whether an actor, such as ``agent:claude``, may act under a mandate."""
    from fnmatch import fnmatchcase  # needed by few calls

    return not mandate.by or any(fnmatchcase(actor, pattern) for pattern in mandate.by)


def time_limit(parameters: Mapping[str, Any]) -> int | None:
    """Return the time limit in seconds of the command of a stage or task, or None."""
    found: Any = parameters.get(TIME_LIMIT)
    return found if _is_whole(found) and 0 < found <= LONGEST else None


def time_limit_problems(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem if the time limit of a stage is not valid."""
    if TIME_LIMIT in parameters and time_limit(parameters) is None:
        found = parameters[TIME_LIMIT]
        yield (
            f"parameters.{TIME_LIMIT}: expected whole seconds from 1 to {LONGEST}, found "
            f"{found!r:.60}"
        )


def find_uncovered_places(
    path: str, before: Any, after: Any, values: Mapping[str, Bounds], *, is_added: bool = False
) -> Iterator[str]:
    """Yield a sentence for each place of a changed value that the bounds ``values`` do not allow.

    A place is a key of an object or an entry of a list. The entries of a list share its path. If
    bounds list an object or a list as an allowed value, they cover it as a whole. Otherwise a list
    must not become shorter. An added entry must have the same structure as the first entry, and
    bounds for each of its values. ``is_added`` is set for such an entry, with the first entry as
    ``before``.
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
    """Return whether the bounds contain this object or list as an allowed value."""
    return (
        isinstance(bounds, list)
        and isinstance(value, (dict, list))
        and is_within_bounds(bounds, value)
    )


def _find_uncovered_entries(
    path: str, before: list[Any], after: list[Any], values: Mapping[str, Bounds], *, is_added: bool
) -> Iterator[str]:
    """Yield the problems of `find_uncovered_places` for the entries of two lists.

    Entries at the same index are compared.
    """
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
    """Yield the parts of a value at one key of an object that a mandate does not cover.

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
    """Return whether bounds allow a value.

    Bounds are a list of allowed values, or a range of numbers with an optional step. A range of
    whole numbers with a whole step allows only whole numbers.
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
    """Return a value as JSON text for exact comparison.

    Unlike Python values, the texts of 1, 1.0 and true differ.
    """
    return "nothing" if value is MISSING else json.dumps(value, sort_keys=True, ensure_ascii=False)


def format_count(count: float, one: str) -> str:
    """Return a number with its noun, such as ``1 task``, ``0 tasks`` or ``2.5 core hours``."""
    return f"{format_number(count)} {one}{'' if format_number(count) == '1' else 's'}"


def format_number(count: float) -> str:
    """Return a number with four significant digits. From 1000 on, it has no fraction."""
    return f"{count:.4g}" if count < 1000 else f"{count:.0f}"
