"""What clients may read by its address: each address stands for a command line that only reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import unquote

import mcp_types as types

_ID = r"([^/]+)"
_LINES: tuple[tuple[str, str, str, Callable[[str], list[str]]], ...] = (
    (
        "brief",
        "wfctl://brief",
        "Where the work stands",
        lambda _: ["rehydrate", "--dry-run", "--brief=1500"],
    ),
    ("machines", "wfctl://machines", "All machines", lambda _: ["machine", "list"]),
    ("stage", "wfctl://stage/{id}", "One stage", lambda id_: ["show", "--", id_]),
    ("machine", "wfctl://machine/{id}", "One machine", lambda id_: ["machine", "get", "--", id_]),
    (
        "machine-brief",
        "wfctl://machine/{id}/brief",
        "A machine after a lost session",
        lambda id_: ["machine", "rehydrate", "--dry-run", "--", id_],
    ),
    (
        "type",
        "wfctl://type/{type}",
        "A machine's type",
        lambda type_: ["machine", "describe", "--", type_],
    ),
    (
        "events",
        "wfctl://events/{after}",
        "Events after a version",
        lambda after: ["events", f"--since={after}"],
    ),
)

RESOURCES = [
    types.Resource(name=name, uri=uri, description=says, mime_type="application/json")
    for name, uri, says, _ in _LINES
    if "{" not in uri
]
TEMPLATES = [
    types.ResourceTemplate(
        name=name, uri_template=uri, description=says, mime_type="application/json"
    )
    for name, uri, says, _ in _LINES
    if "{" in uri
]
_PATTERNS = [(re.compile(re.sub(r"\{\w+\}", _ID, uri)), line) for _, uri, _, line in _LINES]


def resource_line(uri: str) -> list[str] | None:
    """Return the command line that an address stands for, None where it is no address of ours."""
    for pattern, line in _PATTERNS:
        found = pattern.fullmatch(uri)
        if found:
            return line(unquote(found[1]) if found.groups() else "")
    return None
