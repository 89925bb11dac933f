"""What clients may pick and read: prompts, and resources by their address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import mcp_types as types

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
#: Name → what it says, its one argument if it takes one, and its text.
_PROMPTS = {
    "resume": ("Go on with the work after a lost session", "", _RESUME),
    "checkpoint": ("Leave a hand-off before the context is lost", "machine", _CHECKPOINT),
    "review_plan": ("Look at a plan before it becomes a workflow", "plan", _REVIEW),
}
PROMPTS = [
    types.Prompt(
        name=name,
        description=says,
        arguments=[types.PromptArgument(name=field, required=True)] if field else [],
    )
    for name, (says, field, _) in _PROMPTS.items()
]


def prompt_of(name: str, given: Mapping[str, str]) -> str | None:
    """Return a prompt with its argument filled in; None for an unknown name."""
    if name not in _PROMPTS:
        return None
    _, field, text = _PROMPTS[name]
    return text.replace(f"{{{field}}}", given.get(field) or f"the {field}")


#: Name, address, what it says, and the command line, in which ``{}`` is what the address holds.
_LINES = (
    ("brief", "wfctl://brief", "Where the work stands", "rehydrate --dry-run --brief=1500"),
    ("machines", "wfctl://machines", "All machines", "machine list"),
    ("stage", "wfctl://stage/{id}", "One stage", "show -- {}"),
    ("machine", "wfctl://machine/{id}", "One machine", "machine get -- {}"),
    (
        "machine-brief",
        "wfctl://machine/{id}/brief",
        "A machine after a lost session",
        "machine rehydrate --dry-run -- {}",
    ),
    ("type", "wfctl://type/{type}", "A machine's type", "machine describe -- {}"),
    ("events", "wfctl://events/{after}", "Events after a version", "events --since={}"),
)
_JSON: Any = {"mime_type": "application/json"}
RESOURCES = [
    types.Resource(name=name, uri=uri, description=says, **_JSON)
    for name, uri, says, _ in _LINES
    if "{" not in uri
]
TEMPLATES = [
    types.ResourceTemplate(name=name, uri_template=uri, description=says, **_JSON)
    for name, uri, says, _ in _LINES
    if "{" in uri
]


def resource_line(uri: str) -> list[str] | None:
    """Return the command line that an address stands for, None where it is no address of ours."""
    for _, ours, _, line in _LINES:
        found = re.fullmatch(re.sub(r"\{\w+\}", "([^/]+)", ours), uri)
        if found:
            held = unquote("".join(found.groups()))
            return [word.replace("{}", held) for word in line.split()]
    return None
