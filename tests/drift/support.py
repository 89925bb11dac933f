"""Helpers that edit the files as other programs do, and checks of the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from projections.files.progress_log import external_bytes
from tests.cli.support import Place, attempt_data

STATE = "workflow-state.json"
LOG = "progress.log"

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "purpose": "See it melt.",
    "experiment_design": "design.md",
    "x-reviewed_by": {"who": "ada", "on": "paper"},
    "stages": [
        {
            "id": "stage-1",
            "name": "Schmelze ä",
            "inputs": ["in.lmp"],
            "outputs": ["stage-1/out.txt"],
            "parameters": {
                "command": "echo hi > out.txt",
                "dt": 0.005,
                "steps": 2000,
                "resource_overrides": {"queue_name": "gpu", "group_size": 1},
            },
            "success_criteria": "drift below 1e-3",
            "verification": {"tool": "thermo", "bounds": [0, 1]},
        },
        {"id": "stage-2", "name": "Run", "depends_on": ["stage-1"], "outputs": ["a", "b"]},
        {"id": "stage-3", "name": "Look", "depends_on": ["stage-1", "stage-2"]},
    ],
}


def state_of(place: Place) -> dict[str, Any]:
    """Return the document in `workflow-state.json`."""
    found: dict[str, Any] = json.loads((place.path / STATE).read_bytes())
    return found


def write_state(place: Place, document: Any) -> bytes:
    """Write the document to `workflow-state.json` as another program would; return its bytes."""
    content = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
    (place.path / STATE).write_bytes(content)
    return content


def append_log(place: Place, content: bytes) -> None:
    """Append bytes to the log as ``echo >>`` does."""
    with (place.path / LOG).open("ab") as file:
        file.write(content)


def log_bytes(place: Place) -> bytes:
    """Return the content of progress.log."""
    return (place.path / LOG).read_bytes()


def kept(place: Place) -> list[bytes]:
    """Return the content of every kept copy of a file that another program changed."""
    return [path.read_bytes() for path in (place.path / ".wfctl").glob("drift/*")]


def external(place: Place) -> list[bytes]:
    """Return the bytes of every recorded line that another program wrote, in order."""
    notes = place.done("events", "--type", "note.logged")
    return [external_bytes(e["data"]) for e in notes if e["data"]["kind"] == "external"]


def detected(place: Place) -> list[dict[str, Any]]:
    """Return the data of every recorded drift event."""
    return [event["data"] for event in place.done("events", "--type", "drift.detected")]


def shown(place: Place) -> list[dict[str, Any]]:
    """Return the changes that `drift show` lists, and check its exit code."""
    answer = place.json("drift", "show")
    changes: list[dict[str, Any]] = answer.data["changes"]
    assert answer.code == (7 if changes else 0)
    return changes


def check_clean(place: Place) -> None:
    """Check that the files agree with the log and that `status` reports no other difference."""
    answer = place.call("replay", "--check")
    assert answer.code == 0, answer
    warnings = place.done("status")["files"]
    assert [text for text in warnings if " is kept as " not in text] == []


def stage_running(place: Place) -> None:
    """Bring stage-1 to the status running, with a checkpoint, in an open session."""
    place.done("append", "session.started")
    place.done("append", "attempt.started", "--data", attempt_data(mode="tmux", session="s"))
    launched = {"stage": "stage-1", "attempt": "att-0001", "mode": "tmux", "session": "s"}
    place.done("append", "stage.launched", "--data", json.dumps(launched))
    place.done("stage", "checkpoint", "stage-1", '{"step": 100, "file": "restart.100"}')


def names(folder: Path) -> list[str]:
    """Return the names of the files in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())
