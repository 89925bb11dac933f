"""Format numbers with their errors and units, rounded to sensible digits."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, isfinite, log10
from typing import Any

#: Significant digits of an error, and of a number without an error.
_OF_ERROR, _OF_NUMBER = 2, 6


def format_quantity(value: float, error: float | None, unit: str | None) -> str:
    """Return a number with its error and its unit, such as ``2.261 ± 0.010 J``."""
    return f"{format_with_error(value, error)} {unit or ''}".rstrip()


def format_with_error(value: float, error: float | None = None) -> str:
    """Return a number rounded to the precision of its error, such as ``2.261 ± 0.010``."""
    if error is None or error < 0 or not isfinite(error):
        return _format_plain_number(value)
    if error == 0:
        return f"{_format_plain_number(value)} ± 0"
    decimals = max(_OF_ERROR - 1 - floor(log10(error)), 0)
    if decimals > 12 or abs(value) >= 1e12:
        return f"{value:.{_OF_NUMBER}g} ± {error:.{_OF_ERROR}g}"
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def _format_plain_number(value: float) -> str:
    if isfinite(value) and value == int(value) and abs(value) < 1e12:
        return f"{value:.0f}"
    return f"{value:.{_OF_NUMBER}g}"


def format_task_number(task: Mapping[str, Any], name: str, unit: str | None = None) -> str:
    """Return a metric of a task of a sweep, or an empty string if the task has no value."""
    value = task["metrics"].get(name)
    if value is None:
        return ""
    return format_quantity(value, task.get("errors", {}).get(name), unit)


def name_with_unit(name: str, unit: str | None) -> str:
    """Return the name of a metric with its unit, such as ``energy in eV``."""
    return f"{name} in {unit}" if unit else name
