"""Select tasks by conditions on the columns of the task table."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lifecycle.sweeps.points import UnusableMap

_CONDITION = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(<=|>=|!=|==|=|<|>)\s*(.*?)\s*")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: Columns of the table that a condition may use, in addition to parameter values and metrics.
_OTHER_COLUMNS = (
    *("key", "state", "attempts", "attempt", "exit_code", "seconds", "cpu_seconds", "memory"),
    *("folder", "why"),
)
#: Suffixes of numbers of bytes, such as ``2G``. The units are powers of 1024.
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class UnknownColumn(UnusableMap):
    """A condition is invalid or uses a column that the table of tasks does not have."""


def row_matches(row: Mapping[str, Any], conditions: Sequence[str]) -> bool:
    """Return whether a row of the table of tasks meets every condition, such as ``T>2``.

    A row without a value in the column does not meet the condition. An invalid condition is met by
    no row; `check_conditions` reports such a condition.
    """
    errors = {f"{name}_error": error for name, error in row.get("errors", {}).items()}
    given = {**row, **errors, **row["metrics"], **row["values"]}
    for found in map(_CONDITION.fullmatch, conditions):
        name, compare, text = found.groups() if found else ("", "=", "")
        value = given.get(name)
        wanted = None if value is None else _parse_like(text, value)
        if wanted is None or not _OPERATORS[compare](value, wanted):
            return False
    return True


def check_conditions(names: Sequence[str], conditions: Sequence[str]) -> None:
    """Raise `UnknownColumn` if a condition is invalid or uses an unknown column.

    ``names`` are the names of the parameter values and of the metrics.
    """
    _check_columns((*names, *_OTHER_COLUMNS), conditions)


def check_point_conditions(names: Sequence[str], conditions: Sequence[str]) -> None:
    """Raise `UnknownColumn` if a condition on means is invalid or uses an unknown column.

    ``names`` are the names of the parameter values, the metrics and their errors. A mean has no
    column of a single task, such as ``state``.
    """
    _check_columns(("key", *names), conditions)


def _check_columns(known: Sequence[str], conditions: Sequence[str]) -> None:
    for one in conditions:
        found = _CONDITION.fullmatch(one)
        if found is None or found[1] not in known:
            raise UnknownColumn(
                f"the condition {one!r} is not valid. Write a name and a comparison, such as T>2. "
                f"The possible names are: {', '.join(known)}"
            )


def _parse_like(text: str, like: Any) -> Any:
    """Convert the text of a condition to the type of the value ``like``, for a comparison.

    Returns None if this is impossible.
    """
    if isinstance(like, bool):
        return {"true": True, "false": False}.get(text.lower())
    if isinstance(like, str):
        return text.strip("'\"")
    times = _UNITS.get(text[-1:].upper(), 1)
    try:
        return float(text[:-1] if times > 1 else text) * times
    except ValueError:
        return None
