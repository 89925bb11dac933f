"""Prompts that a person picks in their client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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
    """Return a prompt with the arguments filled in, None where there is none of the name."""
    if name not in _PROMPTS:
        return None
    prompt = _PROMPTS[name]
    text = prompt.text
    for field in prompt.arguments:
        text = text.replace(f"{{{field}}}", given.get(field) or f"the {field}")
    return text
