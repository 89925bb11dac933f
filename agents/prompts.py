"""What clients may pick and read: prompts, and resources by their address."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote

import mcp_types as types


class _Prompt(NamedTuple):
    says: str
    arguments: tuple[str, ...]
    text: str


_RESUME = (
    "Call `recover`, then `brief`. Say in two sentences where the work stands and what waits for a "
    "person. Then carry out the calls in `next`, one at a time, until only a person or a running "
    "job can go on. Before you stop, call `checkpoint`."
)
_CHECKPOINT = (
    "Call `checkpoint` for {machine} now. In `summary` say what is done and how it was checked. In "
    "`next` give the next steps in order, each so that somebody who knows nothing else can take it."
)
_REVIEW = (
    "Call `check` with action `plan` and plan {plan}, and mend what it names. Then read it as "
    "the scientist who has to trust its results. Does each stage say what it needs, which files it "
    "writes and when it is good (`parameters.verify`)? Are units and seeds stated? Does each "
    "dependency hold? List what you would ask them before `begin`."
)
_PROMPTS = {
    "resume": _Prompt("Go on with the work after a lost session", (), _RESUME),
    "checkpoint": _Prompt("Leave a hand-off before the context is lost", ("machine",), _CHECKPOINT),
    "review_plan": _Prompt("Look at a plan before it becomes a workflow", ("plan",), _REVIEW),
}

PROMPTS = [
    types.Prompt(
        name=name,
        description=one.says,
        arguments=[types.PromptArgument(name=field, required=True) for field in one.arguments],
    )
    for name, one in _PROMPTS.items()
]


def prompt_of(name: str, given: Mapping[str, str]) -> str | None:
    """Return a prompt with the arguments filled in; None for an unknown name."""
    if name not in _PROMPTS:
        return None
    prompt = _PROMPTS[name]
    text = prompt.text
    for field in prompt.arguments:
        text = text.replace(f"{{{field}}}", given.get(field) or f"the {field}")
    return text


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
