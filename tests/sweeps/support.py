"""Workflows with a stage of many tasks, each of a moment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.support import Place, write_plan

#: Leaves a line outside of the root for each time that a task is computed to its end.
TRACED = 'echo "$WFCTL_TASK" >> {trace}; echo "{{\\"e\\": $WFCTL_PARAM_T}}" > e.json'


def sweep(trace: Path, map_: dict[str, Any], command: str = "", **parameters: Any) -> Any:
    """Return a stage with a map, each task of which writes ``e.json``."""
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
    """Make a workflow of these stages, or see that ``init`` refuses it."""
    place = Place(folder / "root")
    place.path.mkdir()
    plan = {"workflow_id": "sweep-2026-11-23", "purpose": "Many.", "stages": stages}
    answer = place.json("init", str(write_plan(folder, plan)), "--consent", "trust")
    assert answer.code == code, answer
    return place


def ends(folder: Path) -> Iterator[str]:
    """Yield the tasks that came to their end, as often as they did, by the trace in a folder."""
    trace = folder / "trace"
    yield from trace.read_text().splitlines() if trace.exists() else []


def lines(trace: Path) -> list[str]:
    """Return the tasks that came to their end, as often as they did."""
    return sorted(trace.read_text().splitlines()) if trace.exists() else []


def amended(place: Place, **parameters: Any) -> dict[str, Any]:
    """Change parameters of the sweep by an approved amendment; return what was shown."""
    sets = [w for n, v in parameters.items() for w in ("--set", f"parameters.{n}={json.dumps(v)}")]
    made = place.done("amend", "propose", "--stage", "stage-1", "--reason", "More.", *sets)
    id_ = made["amendment"]["id"]
    shown: dict[str, Any] = place.done("amend", "show", id_)
    place.done("amend", "approve", id_)
    return shown
