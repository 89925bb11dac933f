"""The resources that a plan requests for a stage, and how they grow after a failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import ceil, isfinite
from typing import Any, NamedTuple

from lifecycle.words.mandates import LONGEST, TIME_LIMIT

#: Name of the field with the requested resources, in a backend profile and in the parameters of a
#: stage.
RESOURCES = "resources"
#: Maximum value of each resource. The memory is in GB (1024³ bytes) per node, the time limit in
#: seconds, and the cores are those of one node.
_MAXIMA: Mapping[str, int] = {
    "memory_gb": 1_000_000,
    TIME_LIMIT: LONGEST,
    "nodes": 100_000,
    "cores": 100_000,
}
RESOURCE_NAMES = tuple(_MAXIMA)
#: Resources that may be fractions. All others are whole numbers.
_FRACTIONAL = frozenset({"memory_gb"})
#: For each shortage that ends an attempt, the resources that help against it, best first.
REMEDIES: Mapping[str, tuple[str, ...]] = {
    "memory": ("memory_gb", "nodes"),
    "time": (TIME_LIMIT, "cores", "nodes"),
}
#: Maximum number of attempts until a resource reaches its ceiling.
_MAX_STEPS = 20
_FIELDS = frozenset({"start", "times", "plus", "at_most"})
#: For each resource, the fields of DPDispatcher's resources that request the same.
_SAME_FIELDS: Mapping[str, str] = {"nodes": "number_node", "cores": "cpu_per_node"}
#: For each resource, the options of schedulers that request the same.
_SAME_OPTIONS: Mapping[str, re.Pattern[str]] = {
    "memory_gb": re.compile(r"\s--mem\b|\s-M\b|\b(mem|pmem|vmem|h_vmem)="),
    TIME_LIMIT: re.compile(r"\s--time\b|^#SBATCH\s+-t|\s-W\b|\b(walltime|h_rt)="),
}


class ResourceRequest(NamedTuple):
    """The amount of one resource that the first attempt requests, and how the amount grows."""

    start: float
    at_most: float
    times: float = 1
    plus: float = 0
    is_whole: bool = True

    @property
    def can_grow(self) -> bool:
        """Return whether an attempt may ever request more than the first one."""
        return self.at_most > self.start

    def grow(self, amount: float) -> float:
        """Return the amount that follows ``amount``, which is at most the ceiling."""
        grown = amount * self.times + self.plus
        return min(ceil(grown) if self.is_whole else round(grown, 6), self.at_most)


def parse_resources(*given: Any) -> dict[str, ResourceRequest]:
    """Return the valid requests in objects of resources, by name.

    A later object overrides the entries of the earlier ones. Invalid entries are left out.
    """
    entries = {name: one for each in given if isinstance(each, dict) for name, one in each.items()}
    return {
        name: _build_request(name, one)
        for name, one in entries.items()
        if name in _MAXIMA and not [*_find_request_problems(name, one)]
    }


def _build_request(name: str, given: Any) -> ResourceRequest:
    """Return the request that a valid entry describes: a number or an object."""
    is_whole = name not in _FRACTIONAL
    if not isinstance(given, dict):
        return ResourceRequest(given, given, is_whole=is_whole)
    growth = {way: given[way] for way in ("times", "plus") if way in given}
    return ResourceRequest(given["start"], given["at_most"], **growth, is_whole=is_whole)


def find_resource_problems(given: Any) -> Iterator[str]:
    """Yield the problems of an object of resources, each after the path of its field."""
    if not isinstance(given, dict):
        yield f": expected an object such as {{memory_gb = 4}}, found {given!r:.60}"
        return
    for name, one in given.items():
        if name not in _MAXIMA:
            yield f".{name}: unknown resource; expected {', '.join(_MAXIMA)}"
        else:
            yield from (f".{name}{problem}" for problem in _find_request_problems(name, one))


def _find_request_problems(name: str, given: Any) -> Iterator[str]:
    """Yield the problems of one entry of an object of resources."""
    if not isinstance(given, dict):
        yield from _find_amount_problem(name, "", given)
        return
    yield from (
        f".{other}: unknown field; expected start, times or plus, and at_most"
        for other in sorted(set(given) - _FIELDS)
    )
    missing = [field for field in ("start", "at_most") if field not in given]
    yield from (f".{field}: this field is missing" for field in missing)
    if ("times" in given) == ("plus" in given):
        yield ": expected either times or plus, which states how the amount grows"
        return
    wrong = [
        *_find_growth_problem(given),
        *(
            problem
            for field in ("start", "at_most")
            if field in given
            for problem in _find_amount_problem(name, f".{field}", given[field])
        ),
    ]
    yield from wrong
    if not wrong and not missing:
        yield from _find_ceiling_problem(_build_request(name, given))


def _find_amount_problem(name: str, field: str, value: Any) -> Iterator[str]:
    """Yield a problem unless a value is an amount of the resource."""
    is_fitting = _is_number(value) if name in _FRACTIONAL else _is_whole(value)
    if not (is_fitting and 0 < value <= _MAXIMA[name]):
        kind = "number above 0" if name in _FRACTIONAL else "whole number from 1"
        yield f"{field}: expected a {kind} to {_MAXIMA[name]}, found {value!r:.60}"


def _find_growth_problem(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem unless the factor is above 1, or the summand above 0."""
    way, least = ("times", 1) if "times" in given else ("plus", 0)
    value = given[way]
    if not (_is_number(value) and least < value <= max(_MAXIMA.values())):
        yield f".{way}: expected a number above {least}, found {value!r:.60}"


def _find_ceiling_problem(request: ResourceRequest) -> Iterator[str]:
    """Yield a problem if the ceiling is below the start, or takes too many attempts to reach."""
    if request.at_most < request.start:
        yield f".at_most: expected at least {request.start:g}, which is start"
        return
    amount, steps = request.start, 0
    while amount < request.at_most and steps <= _MAX_STEPS:
        amount, steps = request.grow(amount), steps + 1
    if steps > _MAX_STEPS:
        yield (
            f": more than {_MAX_STEPS} attempts would lie between start and at_most; choose a "
            "larger step"
        )


def find_conflicting_requests(
    requests: Mapping[str, Any], defaults: Any, overrides: Any
) -> Iterator[str]:
    """Yield a problem for each resource that the settings of DPDispatcher request as well.

    ``defaults`` are the resources of the backend profile, and ``overrides`` those of the stage.
    """
    for name in requests:
        other = _SAME_FIELDS.get(name, "")
        if isinstance(overrides, dict) and other in overrides:
            yield f"{name} is also set by resource_overrides.{other}; remove one of them"
        pattern = _SAME_OPTIONS.get(name)
        for line in _list_custom_flags(defaults, overrides) if pattern is not None else ():
            if pattern is not None and pattern.search(line):
                yield f"{name} is also set by the line {line!r} of custom_flags; remove one of them"


def _list_custom_flags(defaults: Any, overrides: Any) -> list[str]:
    """Return the lines for the scheduler that a job gets."""
    for given in (overrides, defaults):
        if isinstance(given, dict) and isinstance(given.get("custom_flags"), list):
            return [str(line) for line in given["custom_flags"]]
    return []


def format_amount(name: str, amount: float) -> str:
    """Return the amount of a resource with its unit, such as ``8 GB of memory per node``."""
    units = {
        "memory_gb": "GB of memory per node",
        TIME_LIMIT: "s of run time",
        "nodes": "node" if amount == 1 else "nodes",
        "cores": f"core{'' if amount == 1 else 's'} per node",
    }
    # An event may contain the name of a resource that only a later version knows.
    return f"{amount:.12g} {units.get(name, name)}"


def format_short_amount(name: str, amount: float) -> str:
    """Return the amount of a resource with a short unit, such as ``8 GB``."""
    return format_amount(name, amount).partition(" of ")[0]


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number, and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_whole(value: Any) -> bool:
    """Return whether a value is an integer, and not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool)
