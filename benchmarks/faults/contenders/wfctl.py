"""wfctl: a plan with one stage for each step, and one stage for all points of a sweep."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.faults.work import JOBS_AT_ONCE, Step

NAME = "wfctl"
PACKAGES: tuple[str, ...] = ()  # the version of this source tree
_PAGES = ("start/plans", "use/sessions", "use/sweeps", "run/recovery", "run/recovery-matrix")
DOCUMENTATION = tuple(f"docs/{page}.md" for page in _PAGES)
STATE = (".wfctl",)
#: Stages that a script may start; a script that needs more than 6 must set this budget.
BUDGET = 100
FILES = ("plan.json",)  # init also writes workflow-state.json, which is generated
TASKS = "points/tasks/name="  # followed by the name of a point


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the plan and create the workflow."""
    create_workflow(describe_plan(steps), folder, python)


def describe_plan(steps: Sequence[Step]) -> dict[str, Any]:
    """Return a plan with a stage for each step; the points of a sweep are one stage."""
    points = [step for step in steps if locate_output(step.name) != step.name]
    stages = [_describe_stage(step) for step in steps if step not in points]
    stages = [_describe_sweep(points), *stages] if points else stages
    budget = {"session_budget": BUDGET}
    return {"workflow_id": "game", "purpose": "g", "session_config": budget, "stages": stages}


def create_workflow(plan: dict[str, Any], folder: Path, python: str) -> None:
    """Create the workflow of a plan. Consent is out of scope, so the policy is trust."""
    (folder / "plan.json").write_text(json.dumps(plan, indent=2))
    init = [f"{Path(python).parent}/wfctl", "init", "plan.json", "--consent", "trust"]
    subprocess.run(init, cwd=folder, check=True, capture_output=True)


def command(folder: Path, python: str) -> list[str]:
    """Run every stage in the foreground."""
    return [f"{Path(python).parent}/wfctl", "run", "--max-parallel", str(JOBS_AT_ONCE)]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Follow docs/run/recovery.md, and recovery-matrix.md if the log was lost."""
    program, *_ = run = command(folder, python)
    if (folder / ".wfctl" / "events.db").exists():
        return [[program, "rehydrate"], run]
    restore = [[program, "import", ".", "--consent", "trust"], [program, "rehydrate"], run]
    return [["mv", ".wfctl", ".wfctl-lost"]] * (folder / ".wfctl").exists() + restore


def locate_output(path: str) -> str:
    """Return the path of an output; a task of a sweep has its own folder."""
    return TASKS + path if path.startswith("point-") else path


def _describe_stage(step: Step, **sweep: Any) -> dict[str, Any]:
    """Return a stage whose command runs in the copy of the folder that wfctl makes for a job."""
    line = f'cd "$WFCTL_ROOT" && {step.command.replace(" point-", " " + TASKS + "point-")}'
    files = {"inputs": list(map(locate_output, step.inputs)), "outputs": list(step.outputs)}
    needs = list(step.needs) if files["inputs"] == [*step.inputs] else ["points"]
    names = {"id": step.name, "name": step.name, "depends_on": needs}
    return names | files | {"parameters": {"command": line} | sweep}


def _describe_sweep(points: Sequence[Step]) -> dict[str, Any]:
    """Return a stage with a task for each point; only the names of the points differ."""
    line = points[0].command.replace("point-01/", '"$OLDPWD"/')
    line = line.replace("point-01", "$WFCTL_PARAM_name")
    step = Step("points", line, (), points[0].inputs, ("points/tasks.csv",))
    rows = {"points": [{"name": point.name} for point in points]}
    return _describe_stage(step, task_outputs=["result.txt"], at_once=JOBS_AT_ONCE, map=rows)
