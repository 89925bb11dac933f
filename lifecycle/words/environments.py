"""The software environment of a stage: its fields, their defaults and their problems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

#: Fields of a software environment, each with a description of valid values.
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


def merge_environments(profile: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the software environment of a stage.

    The stage's own fields override the fields of its backend profile.
    """
    # The parameter is ignored unless it is an object. It is then a parameter of the stage's
    # command.
    given = [one.get("environment") for one in (profile, parameters)]
    named = [pair for one in given if isinstance(one, dict) for pair in one.items()]
    return {name: value for name, value in dict(named).items() if value is not None}


def find_environment_problems(given: Any) -> Iterator[str]:
    """Yield the problems of a software environment in a plan, each with the name of the field."""
    if not isinstance(given, dict):
        yield f"expected an object with some of {', '.join(FIELDS)}; found {given!r:.60}"
        return
    for name, value in given.items():
        if name not in FIELDS:
            yield f"{name}: expected one of {', '.join(FIELDS)}"
        elif value is not None and not _is_valid_field(name, value):
            yield f"{name}: expected {FIELDS[name]}; found {value!r:.60}"
    if given.get("conda") is not None and given.get("venv") is not None:
        yield "conda and venv: expected one of them; the later would hide the other"


def _is_valid_field(name: str, value: Any) -> bool:
    """Return whether a value is valid for the named field of a software environment."""
    if name in _LISTS:
        form = _NAME if name == "modules" else _OPTION
        return isinstance(value, list) and all(_matches_pattern(form, one) for one in value)
    if name == "venv":
        return _matches_pattern(_PATH, value)
    return _matches_pattern(_PATH, value) or _matches_pattern(
        _NAME if name == "conda" else _URI, value
    )


def _matches_pattern(form: re.Pattern[str], value: Any) -> bool:
    """Return whether the value is a string and matches the whole pattern."""
    return isinstance(value, str) and form.fullmatch(value) is not None
