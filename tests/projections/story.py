"""One fixed history: a plan run with every kind of command, including failures."""

from __future__ import annotations

from typing import Any

from lifecycle.payload import models as p
from lifecycle.payload.models import Payload

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "purpose": "See it melt.",
    "experiment_design": "design.md",
    "x-campaign": {"zeta": 1, "alpha": 2},
    "stages": [
        {
            "name": "Build",
            "id": "stage-1",
            "inputs": ["in.txt"],
            "outputs": ["stage-1/out.txt"],
            "parameters": {"command": "true", "box": {"y": 1, "x": 2.5}},
            "success_criteria": "The box is whole.",
            "x-reviewer": "Ada",
        },
        {"id": "stage-2", "name": "Schmelze äöü", "depends_on": ["stage-1"]},
        {"id": "stage-3", "name": "Analyse", "depends_on": ["stage-2"]},
    ],
}


def attempt(stage: str, number: int, mode: Any, recovers: str | None = None) -> p.AttemptStarted:
    """Return the command that starts an attempt."""
    folder = f"{stage}/.attempts/att-{number:04d}"
    return p.AttemptStarted(
        stage=stage,
        mode=mode,
        root="/somewhere",
        work_dir=f"{folder}/work",
        submission=f"{folder}/submission.json",
        submission_sha256="0" * 64,
        wrapper=f"{stage}/dpdisp-run.sh",
        session=f"dpdisp_{stage}" if mode == "tmux" else None,
        host="node-1",
        boot_id="5f0c",
        recovers=recovers,
    )


def launched(stage: str, number: int) -> p.StageLaunched:
    """Return the command that records the launch of an attempt's job."""
    return p.StageLaunched(
        stage=stage,
        attempt=f"att-{number:04d}",
        mode="tmux",
        session=f"dpdisp_{stage}",
        submission_hash="c0ffee",
        job_ids=[str(4710 + number)],
    )


def observed(stage: str, number: int) -> p.AttemptObserved:
    """Return the command that records that an attempt was lost."""
    return p.AttemptObserved(
        stage=stage,
        attempt=f"att-{number:04d}",
        row=9,
        verdict="LOST",
        action="lost",
        reason="no trace of it",
        evidence={"monitor_alive": False},
    )


def computed(stage: str, number: int) -> p.StageComputed:
    """Return the command that records the end of a computation."""
    return p.StageComputed(stage=stage, attempt=f"att-{number:04d}", exit_code=0)


COMMANDS: list[Payload] = [
    p.SessionStarted(),
    attempt("stage-1", 1, "sync"),
    computed("stage-1", 1),
    p.OutputsRecorded(stage="stage-1", outputs=["stage-1/out.txt", "stage-1/box.txt"]),
    p.StageCompleted(stage="stage-1", attempt="att-0001", evidence="I looked."),
    p.NoteLogged(text="Now the long one."),
    attempt("stage-2", 1, "tmux"),
    launched("stage-2", 1),
    p.CheckpointRecorded(stage="stage-2", checkpoint={"step": 4000, "file": "c.bin"}),
    p.StageFailed(stage="stage-2", attempt="att-0001", error="exit 137", exit_code=137),
    p.StageRetried(stage="stage-2", fix="more memory"),
    attempt("stage-2", 2, "tmux"),
    launched("stage-2", 2),
    p.AttemptRelaunched(stage="stage-2", attempt="att-0002", mode="tmux", reason="monitor gone"),
    observed("stage-2", 2),
    attempt("stage-2", 3, "tmux", recovers="att-0002"),
    launched("stage-2", 3),
    computed("stage-2", 3),
    p.StageCompleted(stage="stage-2", evidence="I looked again."),
    p.SessionEnded(reason="budget_exhausted", next="stage-3"),
]

#: The commands that complete the last stage, and with it the workflow.
REST: list[Payload] = [
    attempt("stage-3", 1, "sync"),
    computed("stage-3", 1),
    p.StageCompleted(stage="stage-3", evidence="The curve fits."),
]
