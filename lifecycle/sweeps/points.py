"""The points of a map: what one stage is computed for, each with a key made of its values. Pure.

A map names its points in one of five ways: a list (``points``), every combination of values
(``grid``), values side by side (``zip``), a file (``file``), or the points of another stage
(``like``). Values are text, numbers, or true and false.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from itertools import product
from math import isfinite, prod
from typing import Any, TypeAlias

from lifecycle.words.values import MAX_TASKS, MAX_VARIABLE

Value: TypeAlias = "str | int | float | bool"

#: Points of one map at most: each has a folder and a line in the stage's table.
MOST = MAX_TASKS
#: Maximum number of bytes of the values of a point: its task sees all of them as one variable.
MAX_POINT = MAX_VARIABLE - 1_000
#: Bytes of a folder's name; file systems take 255, and temporary names are longer.
_LONGEST = 200
#: What the table of a sweep says of each task, beside its values and numbers.
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
    """A map without usable points; the text says what was expected and found."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point: its values by name, its key, and the name of the folder of its task."""

    values: Mapping[str, Value]
    key: str
    folder: str


def points(
    given: Mapping[str, Any], text: str | None = None, like: Sequence[Point] = ()
) -> tuple[Point, ...]:
    """Return the points of a map in the order in which they are begun.

    ``text`` is what the file of the map holds, ``like`` are the points of the stage that it names.
    Raises `UnusableMap`.
    """
    if "like" in given:
        return _ordered(given, like)
    rows = list(_rows(given, text))
    _check_size(len(rows))
    if not rows:
        raise UnusableMap("it has no points; expected at least one")
    names = list(rows[0])
    for number, row in enumerate(rows, 1):
        _check_row(number, row, names)
    digested = given.get("folders", "named") == "digest"
    # By name: an amendment may state the names in another order, and its points are the same.
    found = tuple(_point(dict(sorted(row.items())), digested=digested) for row in rows)
    _check_keys(found)
    return _ordered(given, found)


def _rows(given: Mapping[str, Any], text: str | None) -> Iterable[Mapping[str, Any]]:
    if "points" in given:
        return list(_objects(given["points"], "points"))
    if "grid" in given:
        columns = _columns(given["grid"], "grid")
        _check_size(prod(map(len, columns.values())))
        return (dict(zip(columns, row, strict=True)) for row in product(*columns.values()))
    if "zip" in given:
        return _zip(_columns(given["zip"], "zip"))
    return rows_of(str(given.get("file")), text or "")


def _objects(given: Any, way: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(given, list):
        raise UnusableMap(f"{way}: expected a list of objects, found {_shown(given)}")
    for number, one in enumerate(given, 1):
        if not isinstance(one, dict) or not one:
            raise UnusableMap(
                f"{way}: expected an object of names and values, found {_shown(one)} as number "
                f"{number}"
            )
        yield one


def _columns(given: Any, way: str) -> dict[str, list[Any]]:
    if not isinstance(given, dict) or not given:
        raise UnusableMap(f"{way}: expected an object of names and lists, found {_shown(given)}")
    return {name: _column(values, f"{way}.{name}") for name, values in given.items()}


def _column(values: Any, place: str) -> list[Any]:
    if isinstance(values, dict):
        return _range(values, place)
    if not isinstance(values, list) or not values:
        raise UnusableMap(
            f"{place}: expected a list with a value, or a range such as "
            f'{{"from": 1, "to": 8}}, found {_shown(values)}'
        )
    return values


def _range(given: Mapping[str, Any], place: str) -> list[Any]:
    """Return the numbers of a range; both ends are in it, where the step meets the last."""
    if set(given) not in _RANGE:
        raise UnusableMap(
            f"{place}: expected from and to, perhaps with step or count, found {', '.join(given)}"
        )
    numbers = {name: _decimal(value, f"{place}.{name}") for name, value in given.items()}
    first, last = numbers["from"], numbers["to"]
    if "count" in numbers:
        return _spread(first, last, numbers["count"], place)
    step = numbers.get("step", Decimal(1))
    if step == 0 or (last - first) / step < 0:
        raise UnusableMap(f"{place}: step {step} never leads from {first} to {last}")
    count = int((last - first) / step) + 1
    _check_size(count)
    return [_number(first + n * step) for n in range(count)]


def _spread(first: Decimal, last: Decimal, count: Decimal, place: str) -> list[Any]:
    if count != int(count) or count < 2:
        raise UnusableMap(f"{place}.count: expected a whole number of 2 or more, found {count}")
    _check_size(int(count))
    step = (last - first) / (count - 1)
    # Twelve digits: a third of a step is no number that anybody would write.
    return [_number(Decimal(f"{first + n * step:.12g}")) for n in range(int(count))]


def _decimal(value: Any, place: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise UnusableMap(f"{place}: expected a number, found {_shown(value)}")
    try:
        return Decimal(str(value))
    except InvalidOperation as error:
        raise UnusableMap(f"{place}: expected a number, found {_shown(value)}") from error


def _number(value: Decimal) -> int | float:
    return int(value) if value == int(value) and "." not in str(value) else float(value)


def _zip(columns: Mapping[str, list[Any]]) -> list[Mapping[str, Any]]:
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise UnusableMap(f"zip: expected lists of one length, found that {said}")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def rows_of(path: str, text: str) -> list[Mapping[str, Any]]:
    """Return the values of each point of a file of CSV or of JSON lines, whatever they are.

    Raises `UnusableMap`.
    """
    if path.endswith(".csv"):
        return list(_of_csv(path, text))
    rows: list[Mapping[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        place = f"{path}, line {number}"
        try:
            rows += _objects([json.loads(line)] if line.strip() else [], place)
        except json.JSONDecodeError as error:
            raise UnusableMap(f"{place}: expected JSON, found {line!r:.60}") from error
    return rows


def _of_csv(path: str, text: str) -> Iterator[Mapping[str, Any]]:
    lines = csv.reader(text.splitlines(keepends=True))
    names = next(lines, [])
    if len(set(names)) != len(names):
        raise UnusableMap(f"{path}: expected each name once, found {', '.join(names):.80}")
    for number, cells in enumerate(lines, 2):
        if cells and len(cells) != len(names):
            raise UnusableMap(
                f"{path}, line {number}: expected {len(names)} cells, found {len(cells)}"
            )
        if cells:
            values = (json.loads(one) if _NUMBER.fullmatch(one) else one for one in cells)
            yield dict(zip(names, values, strict=True))


def _check_size(count: int) -> None:
    if count > MOST:
        raise UnusableMap(
            f"it has {count:,} points; expected {MOST:,} at most. Have each task compute several, "
            "or share them out among stages"
        )


def _check_row(number: int, row: Mapping[str, Any], names: list[str]) -> None:
    if list(row) != names and set(row) != set(names):
        raise UnusableMap(
            f"point {number}: expected values for {', '.join(names)}, found {', '.join(row)}"
        )
    for name, value in row.items():
        if not _NAME.fullmatch(name):
            raise UnusableMap(
                f"point {number}: {name!r:.60} is no name; expected letters, digits and _, for "
                "WFCTL_PARAM_<name>"
            )
        if name in COLUMNS:
            raise UnusableMap(
                f"point {number}: {name} is a column of the table of tasks; choose another name"
            )
        if not _is_plain(value):
            raise UnusableMap(
                f"point {number}: {name}: expected text of one line, a finite number, or true or "
                f"false, found {_shown(value)}"
            )


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return value.isprintable() and bool(value)
    return isinstance(value, int | float) and isfinite(value)


def spelled(value: Value) -> str:
    """Return a value as a task's command sees it: text as it is, all else as JSON spells it."""
    return value if isinstance(value, str) else json.dumps(value)


def _point(row: Mapping[str, Any], *, digested: bool) -> Point:
    key = ",".join(f"{name}={spelled(value)}" for name, value in row.items())
    # A task sees the values one by one, and its key.
    size = len(key.encode())
    if size > MAX_POINT:
        raise UnusableMap(
            f"{key:.80}: expected {MAX_POINT:,} bytes at most for all values of a point, found "
            f"{size:,}; put the long ones into files, and their paths into the map"
        )
    if digested:
        return Point(row, key, sha256(key.encode()).hexdigest()[:16])
    unfit = [n for n, v in row.items() if not _FIT.fullmatch(spelled(v))]
    if unfit or len(key.encode()) > _LONGEST:
        why = f"{unfit[0]} is {row[unfit[0]]!r:.60}" if unfit else f"it has {len(key)} letters"
        raise UnusableMap(
            f"{key:.80}: it cannot be the name of a folder, as {why}; expected values of letters, "
            f'digits and ._+- with {_LONGEST} bytes in all, or folders = "digest" in the map'
        )
    return Point(row, key, key)


def _check_keys(found: Sequence[Point]) -> None:
    values: dict[tuple[tuple[str, type[bool] | None, Value], ...], int] = {}
    folders: dict[str, int] = {}
    for number, point in enumerate(found, 1):
        row = tuple((n, bool if isinstance(v, bool) else None, v) for n, v in point.values.items())
        first = values.setdefault(tuple(sorted(row, key=lambda one: one[0])), number)
        if first != number:
            raise UnusableMap(
                f"points {first} and {number} are one and the same: {found[first - 1].key} and "
                f"{point.key}"
            )
        first = folders.setdefault(point.folder.lower(), number)
        if first != number:
            raise UnusableMap(
                f"points {first} and {number} differ in case alone ({point.key}); some disks take "
                "their folders for one"
            )


def _ordered(given: Mapping[str, Any], found: Sequence[Point]) -> tuple[Point, ...]:
    column = given.get("order")
    if column is None:
        return tuple(found)
    name = str(column).removeprefix("-")
    if not found or name not in found[0].values:
        known = ", ".join(found[0].values) if found else "none"
        raise UnusableMap(f"order: expected one of {known}, with - the largest first; found {name}")

    def rank(point: Point) -> tuple[bool, float, str]:
        value = point.values[name]
        return (True, 0.0, value) if isinstance(value, str) else (False, float(value), "")

    return tuple(sorted(found, key=rank, reverse=str(column).startswith("-")))


def _shown(value: Any) -> str:
    return f"{json.dumps(value)[:60]}"
