"""Explain errors of data validation in plain words."""

from __future__ import annotations

from typing import Any

from lifecycle.words.values import (
    DRIFT_PATTERN,
    KEPT_PATTERN,
    RANGES_PATTERN,
    REPORT_PATTERN,
    STAGE_PATTERN,
)

#: Description of each pattern, for error messages.
_PATTERNS = {
    STAGE_PATTERN: (
        "stage-N, such as stage-2, or a name of letters, digits, '_' and '-', which begins with a "
        "letter and has at most 64 of them"
    ),
    DRIFT_PATTERN: "a file of .wfctl/drift/",
    REPORT_PATTERN: "a path below the root, of a .md or .txt file that is not hidden",
    KEPT_PATTERN: "the id of a stage with .vK behind it, such as stage-2.v1",
    r"^att-[0-9]{4,}$": "att-N with four digits or more, such as att-0001",
    r"^amend-[1-9][0-9]*$": "amend-N with a number from 1 on, such as amend-1",
    r"^(plan|amend-[1-9][0-9]*)$": "plan, or amend-N with a number from 1 on, such as amend-1",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$": (
        "a name of letters, digits, '.', '_' and '-', which begins with a letter or a digit and "
        "has at most 128 of them"
    ),
    r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$": (
        "a name of letters, digits, '.', '_' and '-', which begins with a letter and has at most "
        "64 of them"
    ),
    r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$": "a number as JSON spells it, such as 1e-4",
    RANGES_PATTERN: "numbers as ranges, such as 0-99,103",
    r"^[1-9][0-9]{0,5} ?[smhdw]$": "a length of time, such as 90s, 30m, 12h, 7d or 2w",
    r"^[^\r\n]+$": "text of one line",
    r"^[^\x00\r\n]+$": "a path of one line",
}
#: Description of the expected value for each type of pydantic error.
_EXPECTED = {
    "string_type": "text",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of {max_length} or fewer characters",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "bool_type": "true or false",
    "none_required": "null",
    "literal_error": "{expected}",
    "list_type": "a list",
    "too_short": "a list of {min_length} or more entries",
    "too_long": "a list of {max_length} or fewer entries",
    "dict_type": "an object",
    "model_type": "an object",
    "invalid-json-value": "a JSON value",
    "recursion_depth_exceeded": "a value that is not nested so deeply",
    "recursion_loop": "a value that does not hold itself",
    "extra_forbidden": "no field of this name",
}


def explain_validation_error(error: Any) -> str:
    """Return a message about an invalid value: the expected value, and the actual value.

    ``error`` is an entry of the ``errors()`` of pydantic's `ValidationError`.
    """
    if error["type"] == "missing":
        return "this field is missing"
    said = str(error["msg"])
    if not said.startswith("expected"):  # a check of another library
        said = f"expected {_describe_expected(error)}"
    return f"{said}, found {error['input']!r:.80}"


def get_error_path(error: Any) -> list[str | int]:
    """Return the path of an invalid value, without the types that pydantic adds to it.

    In a JSON value, pydantic puts the type of each object or list before the name of its entry, and
    the type of a number that is not finite at the end.
    """
    steps = list(error["loc"])
    if error["type"] != "finite_number" or steps[-1:] != ["float"]:
        return steps
    steps.pop()
    place = len(steps) - 2
    while place >= 0 and steps[place] in ("dict", "list"):
        del steps[place]
        place -= 2
    return steps


def explain_validation_error_at_path(error: Any) -> str:
    """Return a message about an invalid value, preceded by the dotted path of the value."""
    steps = [str(step) for step in get_error_path(error)]
    return f"{'.'.join(steps)[:200] or 'the whole'}: {explain_validation_error(error)}"


def _describe_expected(error: Any) -> str:
    """Return a phrase for the value that a validation error of pydantic expects."""
    context = error.get("ctx") or {}
    if error["type"] == "string_pattern_mismatch":
        pattern = context["pattern"]
        return _PATTERNS.get(pattern) or f"text that matches {pattern}"
    known = _EXPECTED.get(error["type"])
    return known.format(**context) if known is not None else f"another value ({error['msg']})"
