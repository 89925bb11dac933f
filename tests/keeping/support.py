"""Helpers for workflows with real jobs, and for the files that these jobs leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.cli.support import HERE, Place, agree, write_plan
from tests.need import need_programs


def stage(number: int, command: str, **fields: Any) -> dict[str, Any]:
    """Return the plan entry of a stage that runs a shell command synchronously.

    Further ``parameters`` of the stage are merged with the command.
    """
    parameters = {"command": command, "expected_seconds": 1, **fields.pop("parameters", {})}
    return {"id": f"stage-{number}", "name": f"Step {number}", **fields, "parameters": parameters}


def made(folder: Path, *stages: dict[str, Any], consent: str = "terminal", **plan: Any) -> Place:
    """Create a workflow of the given stages. Under the policy `terminal`, approve its plan."""
    place = Place(folder / "root")
    place.path.mkdir(parents=True)
    document = {"workflow_id": "w", "purpose": "See it kept.", "stages": list(stages), **plan}
    assert place.call("init", str(write_plan(folder, document)), "--consent", consent).code == 0
    if consent == "terminal":
        agree(place.path)
    return place


def left(place: Path) -> set[str]:
    """Return the SHA-256 digests of all files below a folder."""
    return {sha256(path.read_bytes()).hexdigest() for path in place.rglob("*") if path.is_file()}


def recorded(place: Place) -> dict[str, dict[str, Any]]:
    """Return the leftover files of jobs that the event log records, by path."""
    events = place.done("events", "--type", "attempt.left")
    return {file["path"]: file for event in events for file in event["data"]["files"]}


def run_as_ordinary_user(place: Place, *arguments: str, code: int = 0, **environ: str) -> str:
    """Run wfctl so that file permissions apply even if the tests run as root; return its output."""
    command = [
        sys.executable,
        "-c",
        "from cli.main import main; main()",
        "--root",
        str(place.path),
        *arguments,
    ]
    if os.geteuid() == 0:
        need_programs("setpriv")
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]
    environ = {**os.environ, "PYTHONPATH": str(HERE), **environ}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout
