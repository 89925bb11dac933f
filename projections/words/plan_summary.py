"""Summarise the stages of a plan for its approval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lifecycle.state.session_budget import estimate_stage_cost, maximum_session_cost
from lifecycle.state.workflow import Stage, Workflow

#: Maximum number of characters of a value in the text that a person reads before approving.
_LONG = 2000


def plan_lines(state: Workflow) -> list[str]:
    """Return the complete plan as lines: stages, backends, allowed approvers and cost."""
    counted = ("session_count", "session_id", "session_cost", "exit_reason")
    steering = {name: one for name, one in state.session_config.items() if name not in counted}
    signers = f", of {'; '.join(state.signers)}" if state.signers else ""
    return [
        f"Plan: {state.id}, for {state.purpose or 'an unknown purpose'}",
        *([f"Experiment design: {design}"] if (design := state.experiment_design) else []),
        *([f"Workflow plan: {plan}"] if (plan := state.workflow_plan) else []),
        *(
            f"Parameter {name}: {_format_shortened_json(value)}"
            for name, value in state.parameters.items()
        ),
        *(line for stage in state.stages.values() for line in _describe_stage(state, stage)),
        *(
            f"Backend {name}: {_format_shortened_json(one)}"
            for name, one in state.backend_profiles.items()
        ),
        f"Sessions: {_format_shortened_json(steering)}",
        f"Later changes are approved by {state.consent}{signers}",
        *(
            line
            for name, one in state.mandates.items()
            for line in _describe_allowance(f"Mandate {name}", one)
        ),
        *(
            line
            for name, one in state.rounds.items()
            for line in _describe_allowance(f"Loop {name}", one)
        ),
        f"May cost: {_describe_cost(state)}",
    ]


def _describe_stage(state: Workflow, stage: Stage) -> Iterator[str]:
    after = f", after {', '.join(stage.depends_on)}" if stage.depends_on else ""
    yield f"Stage {stage.id} ({stage.name}){after}, on {stage.backend or state.default_backend}"
    given = {"inputs": stage.inputs, "outputs": stage.outputs}
    for name, value in {**stage.parameters, **given}.items():
        if value not in ([], None):
            yield f"  {name}: {value if isinstance(value, str) else _format_shortened_json(value)}"
    if start := stage.work.describe_start():
        yield f"  start: {start}"
    if stage.success_criteria:
        yield f"  success criteria: {stage.success_criteria}"


def _describe_allowance(name: str, given: Any) -> Iterator[str]:
    """Yield one line for each limit of a mandate (permission given in advance)."""
    yield f"{name}, which allows stages to run without asking a person"
    for field, value in given.items() if isinstance(given, dict) else [("is", given)]:
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for key, one in parts:
            yield f"  {field}{f' {key}' if key else ''}: {_format_shortened_json(one)}"


def _describe_cost(state: Workflow) -> str:
    """Return the expected cost of the plan: its budget weight, tasks and computing time."""
    stages = list(state.stages.values())
    weight = sum(estimate_stage_cost(state, stage) for stage in stages)
    tasks = sum(_count_listed_points(stage) for stage in stages)
    seconds = [stage.parameters.get("expected_seconds") for stage in stages]
    said = sum(one for one in seconds if isinstance(one, int | float))
    parts = [
        f"{weight:g} where a session has a budget of {maximum_session_cost(state):g}",
        *([f"{tasks:,} tasks of sweeps"] if tasks else []),
        *([f"{said:g} s of computing, as its stages state"] if said else []),
    ]
    return ", ".join(parts)


def _count_listed_points(stage: Stage) -> int:
    """Return the number of points that the definition of a sweep lists.

    Return 0 if the points come from a file, from another stage or are not known yet.
    """
    from lifecycle.sweeps.points import UnusableMap

    try:
        return len(stage.work.listed_points()) * stage.work.replicates
    except UnusableMap:
        return 0  # an imported file may contain anything


def _format_shortened_json(value: Any) -> str:
    """Return a value as JSON, shortened if it is long.

    The command `wfctl amend show --statement` prints the complete value.
    """
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text):,} characters of JSON)"
