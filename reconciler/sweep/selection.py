"""Choosing tasks by what their table says: ``T>2``, ``state=failed``, ``seconds>=60``. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lifecycle.sweeps.points import UnusableMap

_ONE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(<=|>=|!=|==|=|<|>)\s*(.*?)\s*")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: Columns of the table that may be asked for, beside the values and the named numbers.
_ABOUT = ("key", "state", "attempts", "attempt", "exit_code", "seconds", "folder", "why")


class UnknownColumn(UnusableMap):
    """A condition that names nothing that the table of tasks has."""


def fits(row: Mapping[str, Any], conditions: Sequence[str]) -> bool:
    """Whether a row of the table fulfils every condition.

    A value that is not there fits none. Raises `UnknownColumn`.
    """
    return all(_fits(row, one) for one in conditions)


def check(names: Sequence[str], conditions: Sequence[str]) -> None:
    """Raise `UnknownColumn` for a condition on a column that is not there, or that is none.

    ``names`` are those of the values and of the named numbers.
    """
    known = (*names, *_ABOUT)
    for one in conditions:
        found = _ONE.fullmatch(one)
        if found is None or found[1] not in known:
            raise UnknownColumn(
                f"expected NAME and a comparison such as T>2, with one of {', '.join(known)}; "
                f"found {one!r}"
            )


def _fits(row: Mapping[str, Any], condition: str) -> bool:
    found = _ONE.fullmatch(condition)
    if found is None:
        return False
    name, compare, text = found.groups()
    value = {**row, **row["metrics"], **row["values"]}.get(name)
    if value is None:
        return False
    wanted = _read(text, value)
    return wanted is not None and _COMPARE[compare](value, wanted)


def _read(text: str, like: Any) -> Any:
    """Return the text as a value that can be compared with another; None where it is none."""
    if isinstance(like, bool):
        return {"true": True, "false": False}.get(text.lower())
    if isinstance(like, str):
        return text.strip("'\"")
    try:
        return float(text)
    except ValueError:
        return None
