"""Replicates: several tasks for each point of a sweep, which differ only in their random seed.

The map option ``replicates`` sets their number. Each task has the additional value ``replicate``,
and the mean of its metric over the replicates of a point has a standard error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from lifecycle.words.limits import MAX_TASKS

if TYPE_CHECKING:
    from lifecycle.sweeps.points import Point

#: Map option with the number of replicates of each point.
REPLICATES = "replicates"
#: Name of the value that numbers the replicates of a point, starting at 1.
REPLICATE = "replicate"
#: Environment variable with the seed of a task, and the column of the task table that records it.
SEED_VARIABLE, SEED = "WFCTL_SEED", "seed"
#: Largest number of replicates of a point.
_MOST = 10_000
#: Number of values of a seed. Most random number generators accept seeds below 2^31.
_SEEDS = 2**31


class Mean(NamedTuple):
    """The mean of a metric over the replicates of a point, and its standard error.

    The error is that of the values' spread, or None for a single replicate.
    """

    value: float
    error: float | None


def find_replicates_problem(given: Mapping[str, Any]) -> str | None:
    """Return the problem of the option ``replicates`` of a map, or None if it is valid."""
    count = given.get(REPLICATES)
    if count is None:
        return None
    if "like" in given:
        return (
            f"parameters.map.{REPLICATES}: a map with `like` cannot set replicates, because it has "
            "a task for each replicate of the stage in `like`"
        )
    if isinstance(count, int) and not isinstance(count, bool) and 2 <= count <= _MOST:
        return None
    return (
        f"parameters.map.{REPLICATES}: expected a whole number from 2 to {_MOST:,}, found {count!r}"
    )


def count_replicates(given: Mapping[str, Any]) -> int:
    """Return how many tasks a map defines for each of its points. Without the option, 1."""
    return 1 if find_replicates_problem(given) else given.get(REPLICATES) or 1


def replicate_points(given: Mapping[str, Any], points: Sequence[Point]) -> tuple[Point, ...]:
    """Return one point for each replicate of the given points, or the points if none are defined.

    The replicates of a point follow each other. Raises `UnusableMap` if there are too many, or if
    a point already has a value with the name ``replicate``.
    """
    count = count_replicates(given)
    if count == 1:
        return tuple(points)
    from lifecycle.sweeps.points import UnusableMap, build_points

    if len(points) * count > MAX_TASKS:
        raise UnusableMap(
            f"{len(points):,} points with {count:,} replicates each are more than the "
            f"{MAX_TASKS:,} tasks that a sweep can have. Use fewer replicates"
        )
    reserved = {REPLICATE, SEED}.intersection(name for point in points for name in point.values)
    if reserved:
        raise UnusableMap(
            f"with `replicates`, each task has the values {REPLICATE} and {SEED}. Choose another "
            f"name for the value {min(reserved)}, or remove `replicates`"
        )
    options = {name: given[name] for name in ("folders",) if name in given}
    rows = [{**point.values, REPLICATE: n + 1} for point in points for n in range(count)]
    found = build_points({"points": rows, **options})
    return tuple(replace(point, is_replicate=True) for point in found)


def derive_seed(stage: str, key: str) -> int:
    """Return the seed of a task, a whole number below 2^31.

    The seed depends only on the stage and on the task's key, so that every attempt uses the same.
    """
    return int.from_bytes(sha256(f"{stage}\0{key}".encode()).digest()[:8]) % _SEEDS


def strip_replicate(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a task's point without the number of its replicate."""
    return {name: value for name, value in values.items() if name != REPLICATE}


def compute_mean(values: Sequence[float]) -> Mean:
    """Return the mean of at least one value, with the standard error of the mean."""
    from statistics import fmean, variance  # few commands need it

    count = len(values)
    error = sqrt(variance(values) / count) if count > 1 else None
    return Mean(fmean(values), error)


def average_replicates(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each point from the rows of the task table, in the order of the points.

    ``metrics`` contains the means over the replicates, ``errors`` their standard errors, and
    ``replicates`` the number of tasks. Rows of sweeps without replicates are returned unchanged.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(_base_key(row), []).append(row)
    return [_average_group(key, group) for key, group in groups.items()]


def _base_key(row: Mapping[str, Any]) -> str:
    """Return the key of a row's point, without the number of the replicate."""
    if SEED not in row:
        return str(row["key"])
    from lifecycle.sweeps.points import format_key

    return format_key(strip_replicate(row["values"]))


def _average_group(key: str, group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row of one point from the rows of its replicates."""
    first = group[0]
    if SEED not in first:
        return dict(first)
    names = dict.fromkeys(name for row in group for name in row["metrics"])
    means = {
        name: compute_mean([row["metrics"][name] for row in group if name in row["metrics"]])
        for name in names
    }
    return {
        "key": key,
        "values": strip_replicate(first["values"]),
        REPLICATES: len(group),
        "metrics": {name: mean.value for name, mean in means.items()},
        "errors": {name: mean.error for name, mean in means.items() if mean.error is not None},
        **({"round": first["round"]} if "round" in first else {}),
    }


def find_identical_replicates(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys of the points whose replicates all have the same files or the same metrics.

    Their command probably ignores its seed. Points with fewer than two finished replicates, or
    without output files and metrics, are left out.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if SEED in row:
            groups.setdefault(_base_key(row), []).append(row)
    return [
        key
        for key, group in groups.items()
        if _are_equal([_list_digests(row) for row in group])
        or _are_equal([row["metrics"] for row in group])
    ]


def _list_digests(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(one["path"], one["sha256"]) for one in row["outputs"]]


def _are_equal(values: Sequence[Any]) -> bool:
    """Return whether there are several values, and all are equal and not empty."""
    return len(values) > 1 and all(one and one == other for one, other in pairwise(values))
