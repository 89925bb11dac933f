"""A plan in words: all that a person agrees to who lets a workflow compute by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lifecycle.state.budget import budget_of, estimate
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import MAP, is_sweep
from lifecycle.sweeps.points import UnusableMap, points

#: Letters of a value that a person is shown.
_LONG = 2000


def plan_lines(state: Workflow) -> list[str]:
    """Return the plan in full, a line each: stages, back ends, who may agree, what it may cost."""
    return [
        f"Plan: {state.id}, for {state.purpose or 'a purpose that nobody gave'}",
        *_given("experiment design", state.experiment_design),
        *_given("workflow plan", state.workflow_plan),
        *(line for stage in state.stages.values() for line in _stage(state, stage)),
        *(f"Back end {name}: {_json(one)}" for name, one in state.backend_profiles.items()),
        f"Sessions: {_json(_steering(state))}",
        f"Who may agree to later changes: by {state.consent}{_signers(state)}",
        f"May cost: {_cost(state)}",
    ]


def _given(name: str, text: str | None) -> list[str]:
    return [f"{name[0].upper()}{name[1:]}: {text}"] if text else []


def _steering(state: Workflow) -> dict[str, Any]:
    """Return what of the sessions' configuration is said beforehand, and not counted later."""
    counted = ("session_count", "session_id", "session_cost", "exit_reason")
    return {name: one for name, one in state.session_config.items() if name not in counted}


def _stage(state: Workflow, stage: Stage) -> Iterator[str]:
    after = f", after {', '.join(stage.depends_on)}" if stage.depends_on else ""
    yield f"Stage {stage.id} ({stage.name}){after}, on {stage.backend or state.default_backend}"
    given = {"inputs": stage.inputs, "outputs": stage.outputs}
    for name, value in {**stage.parameters, **given}.items():
        if value not in ([], None):
            yield f"  {name}: {value if isinstance(value, str) else _json(value)}"
    if stage.success_criteria:
        yield f"  success criteria: {stage.success_criteria}"


def _signers(state: Workflow) -> str:
    return f", of {'; '.join(state.signers)}" if state.signers else ""


def _cost(state: Workflow) -> str:
    """Return what wfctl knows beforehand of what the plan may use."""
    stages = list(state.stages.values())
    weight = sum(estimate(state, stage) for stage in stages)
    tasks = sum(_tasks(stage) for stage in stages)
    seconds = [stage.parameters.get("expected_seconds") for stage in stages]
    said = sum(one for one in seconds if isinstance(one, int | float))
    parts = [
        f"{weight:g} where a session has a budget of {budget_of(state):g}",
        *([f"{tasks:,} tasks of sweeps"] if tasks else []),
        *([f"{said:g} s of computing by what its stages say"] if said else []),
    ]
    return ", ".join(parts)


def _tasks(stage: Stage) -> int:
    """Return how many points a sweep has; those that a file or another stage names count none."""
    if not is_sweep(stage.parameters):
        return 0
    given = stage.parameters[MAP]
    try:
        return len(points(given)) if {"points", "grid", "zip"} & set(given) else 0
    except UnusableMap:
        return 0  # an imported file may hold anything


def _json(value: Any) -> str:
    """Return a value as JSON; of a long one the beginning: `amend show --statement` has it all."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text):,} letters of JSON)"
