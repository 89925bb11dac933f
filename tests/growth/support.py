"""Helpers: workflows with a stage that requests resources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.support import Place, write_plan

#: Shell command that notes the requested memory, and then needs the given number of GB.
NEEDS = 'echo "$WFCTL_MEMORY_GB" >> {trace}; [ "$WFCTL_MEMORY_GB" -ge {gb} ] || {end}'
#: The description of this machine for DPDispatcher.
LOCAL = {
    "batch_type": "Shell",
    "context_type": "LocalContext",
    "local_root": ".",
    "remote_root": ".",
}
GROWTH = {"start": 1, "times": 2, "at_most": 64}


def make_stage(command: str, resources: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    """Return a stage with the given command, which writes ``out.txt``, and its resources."""
    return {
        "id": "stage-1",
        "name": "Grow",
        "outputs": ["stage-1/out.txt"],
        "parameters": {
            "command": f"{command}\necho ok > out.txt",
            "verify": "true",
            "resources": resources,
            **parameters,
        },
    }


def make_plan(stage: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a plan with one stage."""
    plan = {"workflow_id": "grow-2026-11-23", "purpose": "Grow.", "stages": [stage]}
    return {**plan, **fields}


def create_workflow(folder: Path, stage: dict[str, Any], **fields: Any) -> Place:
    """Create a workflow of one stage."""
    place = Place(folder / "root")
    place.path.mkdir(exist_ok=True)
    plan = write_plan(folder, make_plan(stage, **fields))
    place.done("init", str(plan), "--consent", "trust")
    return place


def list_attempts(place: Place) -> list[dict[str, Any]]:
    """Return the attempts of the stage."""
    attempts: list[dict[str, Any]] = place.done("audit", "attempts")
    return attempts


def list_requests(place: Place, name: str = "memory_gb") -> list[float]:
    """Return the amount of a resource that each attempt requested."""
    return [one[f"requested_{name}"] for one in list_attempts(place)]


def get_stage(place: Place) -> dict[str, Any]:
    """Return the stage as ``wfctl show`` prints it."""
    stage: dict[str, Any] = place.done("show", "stage-1")
    return stage


def approve_change(place: Place, path: str, value: Any) -> None:
    """Change a parameter of the stage by an approved amendment."""
    change = ("--stage", "stage-1", "--set", f"parameters.{path}={json.dumps(value)}")
    made = place.done("amend", "propose", *change, "--reason", "More.")
    place.done("amend", "approve", made["amendment"]["id"])
