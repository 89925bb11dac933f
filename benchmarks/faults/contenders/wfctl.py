"""wfctl: the stages of a plan, with one stage for each step."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.faults.work import JOBS_AT_ONCE, Step

NAME = "wfctl"
PACKAGES: tuple[str, ...] = ()  # the version of this source tree
DOCUMENTATION = (
    "docs/start/plans.md",
    "docs/use/sessions.md",
    "docs/run/recovery.md",
    "docs/run/recovery-matrix.md",
)
STATE = (".wfctl",)
#: Stages that a script may start; a script that needs more than 6 must set this budget.
BUDGET = 100
FILES = ("plan.json",)  # init also writes workflow-state.json, which is generated


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the plan and create the workflow."""
    create_workflow(describe_plan(steps), folder, python)


def describe_plan(steps: Sequence[Step]) -> dict[str, Any]:
    """Return a plan with one stage for each step."""
    return {
        "workflow_id": "game",
        "purpose": "play a fault game",
        "session_config": {"session_budget": BUDGET},
        "stages": [_describe_stage(step) for step in steps],
    }


def create_workflow(plan: dict[str, Any], folder: Path, python: str) -> None:
    """Create the workflow of a plan. Consent is out of scope, so the policy is trust."""
    (folder / "plan.json").write_text(json.dumps(plan, indent=2))
    init = [_program(python), "init", "plan.json", "--consent", "trust"]
    subprocess.run(init, cwd=folder, check=True, capture_output=True)


def command(folder: Path, python: str) -> list[str]:
    """Run every stage in the foreground."""
    return [_program(python), "run", "--max-parallel", str(JOBS_AT_ONCE)]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Follow docs/run/recovery.md, and recovery-matrix.md if the log was lost."""
    program, run = _program(python), command(folder, python)
    if not (folder / ".wfctl" / "events.db").exists():
        restore = [[program, "import", ".", "--consent", "trust"]]
        if (folder / ".wfctl").exists():
            restore.insert(0, ["mv", ".wfctl", ".wfctl-lost"])
        return [*restore, [program, "rehydrate"], run]
    return [[program, "rehydrate"], run]


def _describe_stage(step: Step) -> dict[str, Any]:
    """Return a stage whose command runs in the copy of the folder that wfctl makes for a job."""
    return {
        "id": step.name,
        "name": step.name,
        "depends_on": list(step.needs),
        "inputs": list(step.inputs),
        "outputs": list(step.outputs),
        "parameters": {"command": f'cd "$WFCTL_ROOT" && {step.command}'},
    }


def _program(python: str) -> str:
    return str(Path(python).parent / "wfctl")
