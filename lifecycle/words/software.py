"""The software environment that a plan asks for: modules, conda or venv, a container.

It stands in a backend profile as ``environment``, and in ``parameters.environment`` of a stage,
whose entries win; null takes one away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

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
    own, of_all = parameters.get("environment"), profile.get("environment")
    given = {**_object(of_all), **_object(own)}
    return {name: value for name, value in given.items() if value is not None}


def _object(value: Any) -> dict[str, Any]:
    # A stage may have a text or a number of this name, which is its command's.
    return value if isinstance(value, dict) else {}


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
