"""Workflows with an optimization loop, for tests of the rules."""

from __future__ import annotations

from typing import Any

from lifecycle.payload import models as p
from lifecycle.state.workflow import Workflow
from tests.lifecycle import support as s

LOOP: dict[str, Any] = {
    "stages": ["run", "next"],
    "points": "run",
    "ask": "agent",
    "at_most": 3,
    "within": {"x": {"from": 0, "to": 40}},
}
#: Metric that the stage `next` reads from its output.
METRIC = {"f": {"at": "f.json#/f", "better": "lower"}}


def create_workflow(time_limit: int | None = None, **loops: dict[str, Any]) -> Workflow:
    """Return the state of a new workflow with these loops, each with its changes of `LOOP`."""
    limit = {} if time_limit is None else {"time_limit": time_limit}
    points = {"map": {"points": [{"x": 0}]}, "command": "run", **limit}
    stages: list[dict[str, Any]] = [
        {"id": "run", "name": "Run", "outputs": ["run/tasks.csv"], "parameters": points},
        {
            "id": "next",
            "name": "Next",
            "depends_on": ["run"],
            "outputs": ["next/f.json"],
            "parameters": {"command": "next", "metrics": METRIC, **limit},
        },
        {"id": "tell", "name": "Tell", "depends_on": ["next"]},
        {"id": "other", "name": "Other", "outputs": ["other/tasks.csv"], "parameters": points},
    ]
    rounds = {name: {**LOOP, **changes} for name, changes in (loops or {"search": {}}).items()}
    return s.given(plan={"workflow_id": "search", "rounds": rounds, "stages": stages})


def start(state: Workflow, stage: str) -> Workflow:
    """Return the state after the start of an attempt."""
    return s.follow(state, s.attempt(stage, "sync"))


def finish_round(state: Workflow, f: float = 5, at: str = s.AT) -> Workflow:
    """Return the state after both stages of the loop `search` are computed.

    Each stage ends at the time ``at``. ``f`` is the value of the metric.
    """
    value: dict[str, Any] = {"name": "f", "path": "next/f.json", "pointer": "/f", "value": f}
    for id_, metrics in (("run", []), ("next", [p.MeasuredNumber(**value)])):
        state = start(state, id_)
        attempt = state.stage(id_).attempts[-1].id
        complete = p.StageCompleted(stage=id_, evidence="looked at it", metrics=metrics)
        state = s.follow(state, s.computed(id_, attempt), complete, at=at)
    return state


def begin_round(state: Workflow, x: int) -> Workflow:
    """Return the state after the start of a round with one point."""
    return s.follow(state, p.RoundBegun(loop="search", points=[{"x": x}], by="agent:x"))


def with_rounds(count: int, **changes: Any) -> Workflow:
    """Return the state of a loop after the given number of completed rounds."""
    state = finish_round(create_workflow(search=changes))
    for x in range(1, count):
        state = finish_round(begin_round(state, x))
    return state
