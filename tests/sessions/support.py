"""Helpers: workflows whose stages are short jobs, and agents that are shell scripts."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.support import HERE, Place, agree, write_plan

#: A shell command that runs wfctl.
WFCTL = f"env PYTHONPATH={HERE} {sys.executable} -m cli.main"


def stage(number: int, command: str = "true", **fields: Any) -> dict[str, Any]:
    """Return a stage whose job writes out.txt if the given command succeeds."""
    id_ = f"stage-{number}"
    after = [f"stage-{n}" for n in fields.pop("after", [])]
    own = fields.pop("parameters", {})
    return {
        "id": id_,
        "name": f"Part {number}",
        "depends_on": after,
        "outputs": [f"{id_}/out.txt"],
        "parameters": {"command": f"{command} && echo hi > out.txt", **own},
        **fields,
    }


def silent(number: int, **fields: Any) -> dict[str, Any]:
    """Return a stage that has no command, so that an agent must compute it."""
    return {**stage(number, **fields), "parameters": {}}


def workflow(
    folder: Path,
    *stages: dict[str, Any],
    consent: str = "terminal",
    profiles: dict[str, Any] | None = None,
    **config: Any,
) -> Place:
    """Create a workflow; the options ``config`` become its session_config."""
    made = Place(folder / "root")
    made.path.mkdir(parents=True, exist_ok=True)
    plan: dict[str, Any] = {
        "workflow_id": "w-2026-05-04",
        "purpose": "See it run.",
        "stages": list(stages),
    }
    if profiles is not None:
        plan["backend_profiles"] = profiles
    if config:
        plan["session_config"] = config
    made.done("init", str(write_plan(folder, plan)), "--consent", consent)
    if consent == "terminal":
        agree(made.path)
    return made


def agent(folder: Path, script: str) -> str:
    """Write a shell script that acts as an agent, and return its path."""
    path = folder / "agent.sh"
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def statuses(place: Place) -> list[str]:
    """Return the status of each stage."""
    return [found["status"] for found in place.done("status")["stages"]]


def events(place: Place, type_: str) -> list[dict[str, Any]]:
    """Return all recorded events of a type."""
    return list(place.done("events", "--type", type_))


def started(place: Place, *arguments: str, **environ: str) -> subprocess.Popen[str]:
    """Start a wfctl command in a child process."""
    return subprocess.Popen(
        [sys.executable, "-m", "cli.main", "--root", str(place.path), "-o", "json", *arguments],
        env={**os.environ, "PYTHONPATH": str(HERE), **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> Any:
    """Wait for the end of a started command, and return the data of its JSON answer."""
    out, _ = process.communicate(timeout=120)
    return json.loads(out)["data"]
