"""Read the items of a comparison: attempts, stages, rounds and workflows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lifecycle.state.workflow import Stage, Workflow
from projections.files.comparison import (
    ComparedItem,
    collect_attempt_values,
    collect_round_values,
    collect_stage_values,
    collect_workflow_values,
)
from service.errors import InvalidOption, NotFound
from service.reading.log import WorkflowLog
from service.reading.point_in_history import Moment, parse_moment
from service.reading.rounds import find_round

_ATTEMPT = re.compile(r"(?P<stage>[^/]+)/(?P<attempt>att-[0-9]{4,})")
#: Function that returns a record of each finished task of a sweep (stage with one task per point).
TasksOf = Callable[[Stage], Iterable[Mapping[str, Any]]]


def build_side(
    name: str, named: str, log: WorkflowLog, state: Workflow, tasks: TasksOf
) -> ComparedItem:
    """Return the values of an item to compare.

    ``named`` is an attempt (``stage-2/att-0001``), a stage, a round (``search@2``), a moment, or
    empty for the current workflow. ``name`` is the name to show. Raises `NotFound`, `UnknownStage`
    or `UnknownLoop` for an unknown item, and `InvalidOption` for a text that names none of these.
    """
    found = _ATTEMPT.fullmatch(named)
    if not named:
        return collect_workflow_values(name, state)
    if named in state.stages:
        return collect_stage_values(name, state.stages[named], tasks(state.stages[named]))
    if (asked := find_round(state, named)) is not None:
        return collect_round_values(name, state, *asked)
    if found is None:
        return collect_workflow_values(name, log.current(_parse_side_moment(named)))
    stage, attempt = found["stage"], found["attempt"]
    known = state.stage(stage)
    side = collect_attempt_values(name, log.steps(), stage, attempt)
    if side is None:
        has = ", ".join(one.id for one in known.attempts) or "none"
        raise NotFound(f"{stage} has no attempt {attempt}; it has {has}", stage=stage)
    return side


def _parse_side_moment(text: str) -> Moment:
    """Return the moment that a text describes.

    Raises `InvalidOption` if the text is not a moment. The message lists all possible forms.
    """
    try:
        return parse_moment(text)
    except InvalidOption:
        sides = "a stage, STAGE/ATTEMPT, LOOP@ROUND, a workflow's folder or archive (.zip)"
        moments = "a moment (12, 2026-03-31T14:00, @{2 hours ago}, session:3)"
        raise InvalidOption(f"expected {sides}, or {moments}; found {text!r}", value=text) from None


def list_attempt_or_round_names(named: str, state: Workflow) -> list[str]:
    """Return the names of all attempts of a stage, or of all rounds of a loop.

    Return only the given name if it is neither a stage with attempts nor a loop.
    """
    stage, loop = state.stages.get(named), state.loops.get(named)
    if stage is None and loop is not None:
        return [f"{named}@{one.number}" for one in loop.rounds]
    attempts = stage.attempts if stage is not None else []
    return [f"{named}/{one.id}" for one in attempts] or [named]


def list_comparable_names(state: Workflow) -> list[str]:
    """Return the names of all stages, attempts, loops and rounds that can be compared.

    The newest attempts and rounds of a stage or loop come first.
    """
    found = []
    for stage in state.stages.values():
        if stage.attempts:
            found += [stage.id, *(f"{stage.id}/{one.id}" for one in reversed(stage.attempts))]
    for name, loop in state.loops.items():
        if loop.rounds:
            found += [name, *(f"{name}@{one.number}" for one in reversed(loop.rounds))]
    return found
