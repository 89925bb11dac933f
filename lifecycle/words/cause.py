"""Causes of refusals, values that do not fit, and versions of software."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lifecycle.words.values import (
    DRIFT_PATTERN,
    KEPT_PATTERN,
    RANGES_PATTERN,
    REPORT_PATTERN,
    STAGE_PATTERN,
)

#: Characters of a cause: a line, and what still can be read at a glance.
_LONGEST = 500
_TRACED = re.compile(r"Traceback \(most recent call last\):")
#: As Python ends: the name of an exception, with the package it is of, and what it says.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Warning)(: .*)?$")
#: As solvers, shells and schedulers begin the line that counts; a number alone is no sentence.
_ERROR = re.compile(
    r"\W*(?:[\w./-]+: )?(?:FATAL|ERROR|[Ff]atal|[Ee]rror)\b[^:]{0,60}:(?!\s*[-+\d.eE]+\s*$)"
)
_MARKS = re.compile(r"[\s^~]*$")


def cause_of(*texts: str) -> str | None:
    """Return the line that tells what went wrong, of texts of which the first says most.

    The words of an exception come before the ``ERROR:`` of a solver, and these before the last line
    of all; None where nothing was written.
    """
    return stated_in(*texts) or next((lines[-1] for lines in map(_lines, texts) if lines), None)


def stated_in(*texts: str) -> str | None:
    """Return the line in which a program says itself what went wrong; None where no line does."""
    found = (find(lines) for find in (_raised, _told) for lines in map(_lines, texts))
    return next((line[:_LONGEST] for line in found if line), None)


def in_one_line(text: str) -> tuple[str, str | None]:
    """Return the cause of a failure that somebody tells of, and the whole where it is more."""
    return (cause_of(text) or text, text) if "\n" in text.strip() else (text, None)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _raised(lines: list[str]) -> str | None:
    """Return the last exception and its message; of one without a message the code that raised."""
    traced = [n for n, line in enumerate(lines) if _TRACED.search(line)]
    below = lines[traced[-1] + 1 :] if traced else []
    after = [n for n, line in enumerate(lines) if _RAISED.match(line)]
    first = next((len(lines) - len(below) + n for n, x in enumerate(below) if x[:1] != " "), None)
    at = first if first is not None else (after[-1] if after else None)
    if at is None:
        return None
    return _whole(lines, at) if ":" in lines[at] else ": ".join([lines[at], *_code(lines[:at])])


def _code(above: list[str]) -> Iterator[str]:
    """Yield the line of code above an exception, if it is there."""
    shown = [line for line in above if not _MARKS.match(line)]
    if shown and shown[-1].startswith("    "):
        yield shown[-1].strip()


def _told(lines: list[str]) -> str | None:
    return next((_whole(lines, n) for n, line in enumerate(lines) if _ERROR.match(line)), None)


def _whole(lines: list[str], at: int) -> str:
    """Return a line, with the next one where it only announces it."""
    more = lines[at + 1 : at + 2] if lines[at].endswith(":") else []
    return " ".join(line.strip() for line in [lines[at], *more])


#: Pattern of a text → what such a text is.
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
#: Kind of the error, as pydantic names it → what was expected.
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


def misfit(error: Any) -> str:
    """Return what is wrong with a value, of one of the ``errors()`` of a `ValidationError`."""
    if error["type"] == "missing":
        return "this field is missing"
    said = str(error["msg"])
    if not said.startswith("expected"):  # none of our own checks
        said = f"expected {_expected(error)}"
    return f"{said}, found {error['input']!r:.80}"


def problem(error: Any) -> str:
    """Return the same with the place of the value before it, its steps with dots between."""
    steps = [str(step) for step in error["loc"]]
    return f"{'.'.join(steps)[:200] or 'the whole'}: {misfit(error)}"


def _expected(error: Any) -> str:
    context = error.get("ctx") or {}
    if error["type"] == "string_pattern_mismatch":
        pattern = context["pattern"]
        return _PATTERNS.get(pattern) or f"text that matches {pattern}"
    known = _EXPECTED.get(error["type"])
    return known.format(**context) if known is not None else f"another value ({error['msg']})"


#: What may be asked for → what it is.
FIELDS = {
    "modules": "a list of names for `module load`",
    "conda": "the name of a conda environment, or its absolute path",
    "venv": "the folder of a virtual environment: absolute, or with $HOME/ before it",
    "container": "an image for Apptainer: absolute, with $HOME/ before it, or a URI as docker://…",
    "container_options": "a list of options for `apptainer exec`, such as --nv",
}
_LISTS = ("modules", "container_options")
_NAME = re.compile(r"[A-Za-z0-9_][\w.+/@:=-]*", re.ASCII)
_PATH = re.compile(r"(?:/|\$HOME/)[^\x00-\x1f\x7f]+")
_URI = re.compile(r"[a-z]+://[^\s\x00-\x1f\x7f]+")
_OPTION = re.compile(r"[^\x00-\x1f\x7f]+")


def wanted(profile: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment of a stage: its profile's, and what it says itself."""
    # A stage may have a text or a number of this name, which is its command's.
    given = [one.get("environment") for one in (profile, parameters)]
    named = [pair for one in given if isinstance(one, dict) for pair in one.items()]
    return {name: value for name, value in dict(named).items() if value is not None}


def problems(given: Any) -> Iterator[str]:
    """Say what is wrong with an environment: each problem with the name of its field."""
    if not isinstance(given, dict):
        yield f"expected an object with some of {', '.join(FIELDS)}; found {given!r:.60}"
        return
    for name, value in given.items():
        if name not in FIELDS:
            yield f"{name}: expected one of {', '.join(FIELDS)}"
        elif value is not None and not _fits(name, value):
            yield f"{name}: expected {FIELDS[name]}; found {value!r:.60}"
    if given.get("conda") is not None and given.get("venv") is not None:
        yield "conda and venv: expected one of them; the later would hide the other"


def _fits(name: str, value: Any) -> bool:
    if name in _LISTS:
        form = _NAME if name == "modules" else _OPTION
        return isinstance(value, list) and all(_is(form, one) for one in value)
    if name == "venv":
        return _is(_PATH, value)
    return _is(_PATH, value) or _is(_NAME if name == "conda" else _URI, value)


def _is(form: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None
