"""Sweeps with replicates, own values, plan parameters and growing resources survive kills.

Each kind runs in shells and on a real Slurm. A kill ends its processes while the first tasks run.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.support import write_machine
from tests.crash.support import Workflow, ending, until
from tests.crash.victims import Victim, strike
from tests.sweeps.support import ends, sweep

pytestmark = [pytest.mark.slow, pytest.mark.long]
HERE = {"batch_type": "Slurm", "context_type": "LocalContext", "remote_root": "."}
Plan = tuple[dict[str, Any], dict[str, Any], str]
"""Parameters of the sweep, further fields of the plan, and the number that each task prints."""


def replicated() -> tuple[Plan, dict[str, float]]:
    """Return a sweep of two points with three replicates each."""
    plan: Plan = ({"map": {"grid": {"T": [1, 2]}, "replicates": 3}}, {}, "$WFCTL_SEED % 1000")
    return plan, dict.fromkeys((f"T={T},replicate={n}" for T in (1, 2) for n in (1, 2, 3)), 0)


def with_own_values() -> tuple[Plan, dict[str, float]]:
    """Return a sweep in which one point has a value that the others take from the stage."""
    points = [{"T": 1, "width": 5}, {"T": 2}, {"T": 3}]
    plan: Plan = ({"map": {"points": points}, "width": 1}, {}, "$WFCTL_PARAM_width")
    return plan, {"T=1,width=5": 5, "T=2": 1, "T=3": 1}


def with_plan_parameters() -> tuple[Plan, dict[str, float]]:
    """Return a sweep that uses a parameter of the plan."""
    parameters = {"map": {"grid": {"T": [1, 2, 3]}}, "use": ["size"]}
    plan: Plan = (parameters, {"parameters": {"size": 7}}, "$WFCTL_PARAM_size")
    return plan, {"T=1": 7, "T=2": 7, "T=3": 7}


def growing() -> tuple[Plan, dict[str, float]]:
    """Return a sweep in which one task needs a longer time limit than the others."""
    growth = {"time_limit": {"start": 4, "times": 5, "at_most": 20}}
    parameters = {"map": {"grid": {"T": [1, 2, 3]}}, "resources": growth}
    number = "WFCTL_PARAM_T == 3 && WFCTL_TIME_LIMIT < 20 ? $(sleep 9; echo 0) : 8"
    return (parameters, {}, number), {"T=1": 8, "T=2": 8, "T=3": 8}


KINDS: dict[str, Callable[[], tuple[Plan, dict[str, float]]]] = {
    "replicates": replicated,
    "own values": with_own_values,
    "plan parameters": with_plan_parameters,
    "growing": growing,
}


def prepared(workflow: Workflow, plan: Plan, *, on_slurm: bool) -> None:
    """Create a workflow with the sweep, whose tasks take at least a second."""
    parameters, fields, number = plan
    command = f'sleep 1; echo "{{\\"e\\": $(({number}))}}" > e.json'
    stage = sweep(workflow.root.parent / "trace", parameters["map"], **parameters)
    trace = f'echo "$WFCTL_TASK" >> "{workflow.root.parent / "trace"}"'
    stage["parameters"]["command"] = f"{command}; {trace}"
    profile = {
        "type": "remote",
        "batch_type": "Slurm",
        "config_path": write_machine(workflow, HERE),
        "resource_defaults": {"number_node": 1, "cpu_per_node": 1, "group_size": 2},
    }
    backend = {"default_backend": "cluster", "backend_profiles": {"cluster": profile}}
    document = {"workflow_id": "w", "stages": [stage], **fields, **(backend if on_slurm else {})}
    (workflow.root / "plan.json").write_text(json.dumps(document))
    workflow.succeed("init", "plan.json", "--consent", "trust")


@pytest.mark.parametrize("victim", [Victim.ORCHESTRATOR, Victim.EVERYTHING])
@pytest.mark.parametrize("on_slurm", [False, True], ids=["shell", "slurm"])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_sweep_ends_with_the_right_numbers(
    workflow: Workflow, kind: str, victim: Victim, *, on_slurm: bool
) -> None:
    """After the kill, the next run finishes the sweep, and no finished task runs again."""
    plan, numbers = KINDS[kind]()
    prepared(workflow, plan, on_slurm=on_slurm)
    with ending(workflow.start("run")) as run:
        until(lambda: any(ends(workflow.root.parent)) or run.poll() is not None)
        strike(workflow, victim)
    finished = {path.name for path in (workflow.root / "stage-1/tasks").glob("T=*")}

    workflow.succeed("run")

    assert workflow.stage("stage-1")["status"] == "completed"
    with (workflow.root / "stage-1/tasks.csv").open() as file:
        rows = {row["key"]: row for row in csv.DictReader(file)}
    assert rows.keys() == numbers.keys()
    expected = {key: int(row.get("seed") or 0) % 1000 or numbers[key] for key, row in rows.items()}
    assert {key: float(row["energy"]) for key, row in rows.items()} == expected
    computed = [*ends(workflow.root.parent)]
    assert [key for key in finished if computed.count(key) > 1] == []
    workflow.succeed("fsck", "--protocol")
