"""Agents that write the files of a machine as its protocol says, for tests that kill them."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TRACK = Path("conductor/tracks/auth")
REPORTS, STATE = Path("memory/reports"), Path("memory/state")
FOLLOWING = {
    "BRAINSTORM": "PLAN",
    "PLAN": "EVALUATE_PLAN",
    "EVALUATE_PLAN": "EXECUTE",
    "EXECUTE": "EVALUATE_EXECUTION",
    "EVALUATE_EXECUTION": "COMPLETE",
}
#: Number of tasks that an agent carries out.
TASKS = 12


def now() -> str:
    """Return the current time in the format that agents write."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def replaced(path: Path, document: Any) -> None:
    """Write a JSON document to a temporary file, and rename it to the given path."""
    other = path.with_name(f".{path.name}.{os.getpid()}")
    other.write_text(json.dumps(document, indent=2), "utf-8")
    other.replace(path)


def noted(root: Path, token: str) -> None:
    """Record that a token was written to a file, so that the test can look for the token."""
    with (root / "written.txt").open("a", encoding="utf-8") as file:
        file.write(token + "\n")


def orchestrate(root: Path) -> None:
    """Write the steps of a track to its file until the track is complete, one change per write."""
    file, lock = root / TRACK / "metadata.json", root / TRACK / ".metadata.lock"
    while True:
        try:
            lock.mkdir()
        except FileExistsError:
            time.sleep(0.005)
            continue
        document = json.loads(file.read_text("utf-8"))
        token = _turn(document)
        if token is not None:
            document["journal"] = [*document.get("journal", []), token]
            replaced(file, document)
            noted(root, token)
        lock.rmdir()
        if token is None:
            return
        time.sleep(0.01)


def _turn(document: dict[str, Any]) -> str | None:
    """Make the next change of the track, and return its token, or None if the track is complete."""
    loop = document["loop_state"]
    step, token = loop["current_step"], f"w-{time.monotonic_ns()}"
    if step == "COMPLETE":
        return None
    checkpoint = loop["checkpoints"].setdefault(step, {})
    if loop["step_status"] != "IN_PROGRESS":
        loop["step_status"], loop["step_started_at"] = "IN_PROGRESS", now()
        checkpoint |= {"status": "IN_PROGRESS", "started_at": now(), "agent": f"loop-{step}"}
    elif step == "EXECUTE" and len(checkpoint.get("commits", [])) < TASKS:
        done = len(checkpoint.get("commits", [])) + 1
        commits = [*checkpoint.get("commits", []), {"sha": token, "task": f"1.{done}"}]
        checkpoint |= {"commits": commits, "last_task": f"1.{done}", "tasks_completed": done}
    else:
        checkpoint |= {"status": "PASSED", "completed_at": now()}
        loop["current_step"], loop["step_status"] = FOLLOWING[step], "NOT_STARTED"
        loop["checkpoints"].setdefault(FOLLOWING[step], {"status": "NOT_STARTED"})
    return token


def execute(root: Path) -> None:
    """Carry out all tasks one after the other, and write each output before its status."""
    file = root / STATE / "execution.json"
    while True:
        document = json.loads(file.read_text("utf-8"))
        task = next((t for t in document["tasks"] if t["status"] != "verified"), None)
        if task is None:
            return
        token = f"t-{time.monotonic_ns()}"
        output = REPORTS / f"{task['id']}.json"
        if task["status"] == "pending":
            task |= {"status": "running", "started_at": now()}
        elif task["status"] == "running":
            replaced(root / output, {"task_id": task["id"], "status": "pre_complete"})
            task |= {"status": "pre_complete", "output": str(output), "note": token}
        else:
            task["status"] = "verified"
        replaced(file, document)
        if task.get("note") == token:
            noted(root, token)
        time.sleep(0.01)


def lie(root: Path) -> None:
    """Write into phase.json that the last phase is complete, without any output."""
    file = root / STATE / "phase.json"
    document = json.loads(file.read_text("utf-8"))
    document |= {"current_phase": "REFLECTION", "phase_status": "complete"}
    replaced(file, document)
