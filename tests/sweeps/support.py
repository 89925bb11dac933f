"""Helpers: workflows with a sweep, which is a stage of many short tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.support import Place, write_plan

#: Shell command that adds the task's key to a trace file when a task ends.
TRACED = 'echo "$WFCTL_TASK" >> {trace}; echo "{{\\"e\\": $WFCTL_PARAM_T}}" > e.json'


def sweep(trace: Path, map_: dict[str, Any], command: str = "", **parameters: Any) -> Any:
    """Return a sweep with the given map of points; each task writes ``e.json``."""
    traced = TRACED.format(trace=trace)
    return {
        "id": "stage-1",
        "name": "Sweep",
        "outputs": ["stage-1/tasks.csv"],
        "parameters": {
            "command": f"{command}{' && ' if command else ''}{{ {traced}; }}",
            "map": map_,
            "task_outputs": ["e.json"],
            "metrics": {"energy": "e.json#/e"},
            **parameters,
        },
    }


def begun(folder: Path, *stages: Any, code: int = 0) -> Place:
    """Create a workflow of the given stages, and check the exit code of ``init``."""
    place = Place(folder / "root")
    place.path.mkdir(exist_ok=True)
    plan = {"workflow_id": "sweep-2026-11-23", "purpose": "Many.", "stages": stages}
    answer = place.json("init", str(write_plan(folder, plan)), "--consent", "trust")
    assert answer.code == code, answer
    return place


def ends(folder: Path) -> Iterator[str]:
    """Yield the keys of ended tasks from the trace file, with repetitions."""
    trace = folder / "trace"
    yield from trace.read_text().splitlines() if trace.exists() else []


def lines(trace: Path) -> list[str]:
    """Return the sorted keys of ended tasks from a trace file, with repetitions."""
    return sorted(trace.read_text().splitlines()) if trace.exists() else []


def amended(place: Place, **parameters: Any) -> dict[str, Any]:
    """Change parameters of the sweep by an approved amendment; return its earlier record."""
    sets = [w for n, v in parameters.items() for w in ("--set", f"parameters.{n}={json.dumps(v)}")]
    made = place.done("amend", "propose", "--stage", "stage-1", "--reason", "More.", *sets)
    id_ = made["amendment"]["id"]
    shown: dict[str, Any] = place.done("amend", "show", id_)
    place.done("amend", "approve", id_)
    return shown
