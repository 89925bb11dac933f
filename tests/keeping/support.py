"""Workflows of stages that really run, and what they left."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.cli.support import Place, agree, write_plan


def stage(number: int, command: str, **fields: Any) -> dict[str, Any]:
    """Return a stage that runs a command, synchronously; ``parameters`` are added."""
    parameters = {"command": command, "expected_seconds": 1, **fields.pop("parameters", {})}
    return {"id": f"stage-{number}", "name": f"Step {number}", **fields, "parameters": parameters}


def made(folder: Path, *stages: dict[str, Any], consent: str = "terminal", **plan: Any) -> Place:
    """Make a workflow of these stages."""
    place = Place(folder / "root")
    place.path.mkdir(parents=True)
    document = {"workflow_id": "w", "purpose": "See it kept.", "stages": list(stages), **plan}
    assert place.call("init", str(write_plan(folder, document)), "--consent", consent).code == 0
    if consent == "terminal":
        agree(place.path)
    return place


def left(place: Path) -> set[str]:
    """Return the digests of every file below a folder."""
    return {sha256(path.read_bytes()).hexdigest() for path in place.rglob("*") if path.is_file()}


def recorded(place: Place) -> dict[str, dict[str, Any]]:
    """Return what attempts left as the log names it, by path."""
    events = place.done("events", "--type", "attempt.left")
    return {file["path"]: file for event in events for file in event["data"]["files"]}
