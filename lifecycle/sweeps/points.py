"""Build the points of a sweep from its map. The stage's command runs once for each point.

A map defines its points in one of five ways: a list (``points``), every combination of values
(``grid``), values side by side (``zip``), a file (``file``), or the points of another stage
(``like``). Values are strings, numbers, true and false. Points may have values of different names.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from hashlib import sha256
from itertools import product
from math import isfinite, prod
from typing import Any, TypeAlias

from lifecycle.words.limits import MAX_TASKS, MAX_VARIABLE

Value: TypeAlias = "str | int | float | bool"

#: Maximum number of points of a map. Each point needs a folder and a line in the task table.
MAX_POINTS = MAX_TASKS
#: Maximum size in bytes of a point's values. Its task gets all of them in one environment variable.
MAX_POINT = MAX_VARIABLE - 1_000
#: Maximum number of names of all points together. Each name is a column of the task table.
MAX_NAMES = 1_000
#: Maximum length in bytes of a folder name. File systems allow 255 bytes, but names of temporary
#: folders are longer.
_LONGEST = 200
#: Columns of a sweep's task table, in addition to the values of the points and the metrics.
COLUMNS = (
    "key",
    "state",
    "attempts",
    "exit_code",
    "started_at",
    "ended_at",
    "seconds",
    "folder",
    "why",
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_FIT = re.compile(r"[A-Za-z0-9_.+-]+", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_RANGE = ({"from", "to"}, {"from", "to", "step"}, {"from", "to", "count"})


class UnusableMap(ValueError):
    """The definition of a sweep's points is not usable.

    The message states the expected and the actual value.
    """


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a sweep: its values by name, its key, and the folder name of its task.

    ``is_replicate`` is true if the map defines several tasks with these values, which differ in the
    value ``replicate`` only.
    """

    values: Mapping[str, Value]
    key: str
    folder: str
    is_replicate: bool = False


def build_points(
    given: Mapping[str, Any], text: str | None = None, like: Sequence[Point] = ()
) -> tuple[Point, ...]:
    """Return the points of a map in the order in which their tasks start.

    ``text`` is the content of the points file, if the map names one. ``like`` has the points of
    another stage, if the map names a stage. Raises `UnusableMap`.
    """
    if "like" in given:
        return _sort_points(given, like)
    rows = list(_build_point_values(given, text))
    _check_point_count(len(rows))
    if not rows:
        raise UnusableMap("the map contains no points, but it must contain at least one point")
    for number, row in enumerate(rows, 1):
        _check_row(number, row)
    _check_name_count(len({name for row in rows for name in row}))
    digested = given.get("folders", "named") == "digest"
    # The values are sorted by name, because an amendment may list the names in another order.
    found = tuple(_build_point(_add_types(row), digested=digested) for row in rows)
    _check_points_distinct(found)
    return _sort_points(given, found)


def list_value_names(points: Iterable[Mapping[str, Value]]) -> list[str]:
    """Return the names of all values that the points have, sorted.

    A point may lack some of these values.
    """
    return sorted({name for values in points for name in values})


def _build_point_values(given: Mapping[str, Any], text: str | None) -> Iterable[Mapping[str, Any]]:
    """Return the values of each point that a map defines."""
    if "points" in given:
        return list(_iterate_checked_objects(given["points"], "points"))
    if "grid" in given:
        columns = _read_columns(given["grid"], "grid")
        _check_point_count(prod(map(len, columns.values())))
        return (dict(zip(columns, row, strict=True)) for row in product(*columns.values()))
    if "zip" in given:
        return _zip_columns(_read_columns(given["zip"], "zip"))
    return parse_points_file(str(given.get("file")), text or "")


def _iterate_checked_objects(given: Any, way: str) -> Iterator[Mapping[str, Any]]:
    """Yield the entries of a list of objects. Raises `UnusableMap` for other values."""
    if not isinstance(given, list):
        raise UnusableMap(
            f"{way} must be a list of objects, but it is {_render_for_message(given)}"
        )
    for number, one in enumerate(given, 1):
        if not isinstance(one, dict) or not one:
            raise UnusableMap(
                f"each entry of {way} must be an object of names and values, but entry {number} "
                f"is {_render_for_message(one)}"
            )
        yield one


def _read_columns(given: Any, way: str) -> dict[str, list[Any]]:
    """Return the list of values for each name in a ``grid`` or ``zip``."""
    if not isinstance(given, dict) or not given:
        raise UnusableMap(
            f"{way} must be an object with a list for each name, but it is "
            f"{_render_for_message(given)}"
        )
    return {name: _read_column(values, f"{way}.{name}") for name, values in given.items()}


def _read_column(values: Any, place: str) -> list[Any]:
    """Return the values of a list, or the numbers of a range such as ``{"from": 1, "to": 8}``."""
    if isinstance(values, dict):
        return _expand_range(values, place)
    if not isinstance(values, list) or not values:
        raise UnusableMap(
            f"{place} must be a list with at least one value, or a range such as "
            f'{{"from": 1, "to": 8}}, but it is {_render_for_message(values)}'
        )
    return values


def _expand_range(given: Mapping[str, Any], place: str) -> list[Any]:
    """Return the numbers of a range. The end is included if the step reaches it."""
    if set(given) not in _RANGE:
        raise UnusableMap(
            f"the range {place} must have the fields from and to, and optionally step or count, "
            f"but it has {', '.join(given)}"
        )
    numbers = {name: _parse_decimal(value, f"{place}.{name}") for name, value in given.items()}
    first, last = numbers["from"], numbers["to"]
    if "count" in numbers:
        return _spread_evenly(first, last, numbers["count"], place)
    step = numbers.get("step", Decimal(1))
    if step == 0 or (last - first) / step < 0:
        raise UnusableMap(
            f"the range {place} cannot get from {first} to {last} with the step {step}"
        )
    count = int((last - first) / step) + 1
    _check_point_count(count)
    return [_simplify_number(first + n * step) for n in range(count)]


def _spread_evenly(first: Decimal, last: Decimal, count: Decimal, place: str) -> list[Any]:
    """Return ``count`` evenly spaced numbers from ``first`` to ``last``."""
    if count != int(count) or count < 2:
        raise UnusableMap(f"{place}.count must be a whole number of 2 or more, but it is {count}")
    _check_point_count(int(count))
    step = (last - first) / (count - 1)
    # Rounding to twelve digits removes rounding errors, such as in 0.30000000000000004.
    return [_simplify_number(Decimal(f"{first + n * step:.12g}")) for n in range(int(count))]


def _parse_decimal(value: Any, place: str) -> Decimal:
    """Return a number as a decimal. Raises `UnusableMap` for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise UnusableMap(f"{place} must be a number, but it is {_render_for_message(value)}")
    try:
        return Decimal(str(value))
    except InvalidOperation as error:
        raise UnusableMap(
            f"{place} must be a number, but it is {_render_for_message(value)}"
        ) from error


def _simplify_number(value: Decimal) -> int | float:
    """Return a decimal without a decimal point as an integer, and any other as a float."""
    return int(value) if value == int(value) and "." not in str(value) else float(value)


def _zip_columns(columns: Mapping[str, list[Any]]) -> list[Mapping[str, Any]]:
    """Return the values of each point of a ``zip``, which combines lists of equal length."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise UnusableMap(f"all lists of zip must have the same length, but {said}")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def parse_points_file(path: str, text: str) -> list[Mapping[str, Any]]:
    """Return the values of each point in a file in CSV or JSON Lines format.

    A point has no value for an empty cell, a missing field or null. Raises `UnusableMap` if the
    file is not valid.
    """
    if path.endswith(".csv"):
        return list(_parse_csv(path, text))
    rows: list[Mapping[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{path}, line {number}"
        try:
            found = _iterate_checked_objects([json.loads(line)] if line.strip() else [], place)
            rows += map(drop_missing_values, found)
        except json.JSONDecodeError as error:
            raise UnusableMap(f"{place}: expected JSON, found {line!r:.60}") from error
    return rows


def drop_missing_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a point without those that are null."""
    return {name: value for name, value in values.items() if value is not None}


def _parse_csv(path: str, text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the values of each point in a CSV text."""
    lines = csv.reader(text.splitlines(keepends=True))
    names = next(lines, [])
    if len(set(names)) != len(names):
        raise UnusableMap(
            f"{path}: each name must occur once, but the names are {', '.join(names):.80}"
        )
    for number, cells in enumerate(lines, 2):
        if cells and len(cells) != len(names):
            raise UnusableMap(
                f"{path}, line {number}: expected {len(names)} cells, found {len(cells)}"
            )
        if cells:
            filled = [(name, one) for name, one in zip(names, cells, strict=True) if one]
            yield {n: json.loads(one) if _NUMBER.fullmatch(one) else one for n, one in filled}


def _check_point_count(count: int) -> None:
    """Raise `UnusableMap` if a map has more points than allowed."""
    if count > MAX_POINTS:
        raise UnusableMap(
            f"the map has {count:,} points, but at most {MAX_POINTS:,} points are allowed. Compute "
            "several points in each task, or divide the points among several stages"
        )


def _check_name_count(count: int) -> None:
    """Raise `UnusableMap` if the points have more different names than allowed."""
    if count > MAX_NAMES:
        raise UnusableMap(
            f"the values of the points have {count:,} different names, but at most {MAX_NAMES:,} "
            "are allowed. Write the values into files, and put the paths of the files into the map"
        )


def _check_row(number: int, row: Mapping[str, Any]) -> None:
    """Raise `UnusableMap` if a point has no values, or unusable names or values."""
    if not row:
        raise UnusableMap(f"point {number} has no values, but it must have at least one")
    for name, value in row.items():
        if not _NAME.fullmatch(name):
            raise UnusableMap(
                f"the name {name!r:.60} of point {number} is not valid. Use only letters, digits "
                "and _, because each task gets the value as WFCTL_PARAM_<name>"
            )
        if name in COLUMNS:
            raise UnusableMap(
                f"the name {name} of point {number} is already a column of the table of tasks. "
                "Choose another name"
            )
        if not _is_usable_value(value):
            raise UnusableMap(
                f"the value {name} of point {number} must be text of one line, a finite number, "
                f"true or false, but it is {_render_for_message(value)}"
            )


def _is_usable_value(value: Any) -> bool:
    """Return whether a value is printable text, a finite number, true or false."""
    if isinstance(value, str):
        return value.isprintable() and bool(value)
    return isinstance(value, int | float) and isfinite(value)


def render_value(value: Value) -> str:
    """Return a value as a command gets it: strings unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def format_key(values: Mapping[str, Value]) -> str:
    """Return the key of a point: its values, sorted by name."""
    return ",".join(f"{name}={render_value(values[name])}" for name in sorted(values))


def _add_types(row: Mapping[str, Value]) -> tuple[tuple[str, type[Value], Value], ...]:
    """Return the values of a point sorted by name, each with its type.

    The type is needed because Python treats 1, 1.0 and True as equal.
    """
    return tuple((name, type(row[name]), row[name]) for name in sorted(row))


@lru_cache(maxsize=10_000)  # the fold compares each round of a loop with all earlier points
def _build_point(typed: tuple[tuple[str, type[Value], Value], ...], *, digested: bool) -> Point:
    """Return a point with its key and the folder name of its task.

    Raises `UnusableMap` if the key is too long or cannot be the name of a folder.
    """
    row = {name: value for name, _, value in typed}
    key = format_key(row)
    # The size is limited, because a task gets its key as one environment variable.
    size = len(key.encode())
    if size > MAX_POINT:
        raise UnusableMap(
            f"the values of the point {key:.80} have {size:,} bytes, but at most {MAX_POINT:,} "
            "bytes are allowed. Write long values into files, and put the paths of the files "
            "into the map"
        )
    if digested:
        return Point(row, key, sha256(key.encode()).hexdigest()[:16])
    unfit = [n for n, v in row.items() if not _FIT.fullmatch(render_value(v))]
    if unfit or len(key.encode()) > _LONGEST:
        why = (
            f"{unfit[0]} is {row[unfit[0]]!r:.60}" if unfit else f"the name has {len(key)} letters"
        )
        raise UnusableMap(
            f"the key {key:.80} of a point cannot be the name of a folder, because {why}. Use "
            f"values of letters, digits and ._+- with at most {_LONGEST} bytes in total, or set "
            'folders = "digest" in the map'
        )
    return Point(row, key, key)


def identify_values(values: Mapping[str, Value]) -> Hashable:
    """Return an object that is equal for points with equal values.

    1 and 1.0 are equal, but true and 1 are not.
    """
    return tuple((name, isinstance(values[name], bool), values[name]) for name in sorted(values))


def _check_points_distinct(found: Sequence[Point]) -> None:
    """Raise `UnusableMap` if two points have equal values or the same folder."""
    values: dict[Hashable, int] = {}
    folders: dict[str, int] = {}
    for number, point in enumerate(found, 1):
        first = values.setdefault(identify_values(point.values), number)
        if first != number:
            raise UnusableMap(
                f"points {first} and {number} have the same values ({found[first - 1].key} and "
                f"{point.key}). Remove one of these points"
            )
        first = folders.setdefault(point.folder.lower(), number)
        if first != number:
            raise UnusableMap(
                f"points {first} and {number} differ only in upper and lower case ({point.key}), "
                "and some file systems cannot distinguish their folders. Change one of these "
                "points"
            )


def _sort_points(given: Mapping[str, Any], found: Sequence[Point]) -> tuple[Point, ...]:
    """Return the points sorted by the column that the map names as ``order``.

    Points without a value in this column come last. Without ``order``, keep the order. Raises
    `UnusableMap` if no such column exists.
    """
    column = given.get("order")
    if column is None:
        return tuple(found)
    name = str(column).removeprefix("-")
    names = list_value_names(point.values for point in found)
    if name not in names:
        known = ", ".join(names) or "none"
        raise UnusableMap(
            f"order must be one of the names {known}, but it is {name}. To start with the largest "
            "value, write - before the name"
        )

    def rank(point: Point) -> tuple[bool, float, str]:
        value = point.values[name]
        return (True, 0.0, value) if isinstance(value, str) else (False, float(value), "")

    with_value = [point for point in found if name in point.values]
    without_value = [point for point in found if name not in point.values]
    return (*sorted(with_value, key=rank, reverse=str(column).startswith("-")), *without_value)


def _render_for_message(value: Any) -> str:
    """Return the first characters of a value as JSON, for an error message."""
    return f"{json.dumps(value)[:60]}"
