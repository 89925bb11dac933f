"""A loop that is killed repeatedly computes the same points as without kills."""

from __future__ import annotations

import csv
import json
import random
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import conftest as cluster
from tests.cluster.support import PROMPT
from tests.crash.aftermath import check_log
from tests.crash.support import PATIENCE, Workflow, ending
from tests.crash.victims import Victim, strike

pytestmark = pytest.mark.slow
slurm_conf, slurm = cluster.slurm_conf, cluster.slurm

ROUNDS = 5
#: Victims of a kill at any moment. The last two kill jobs, too.
VICTIMS = (Victim.ORCHESTRATOR, Victim.MONITOR, Victim.SESSION, Victim.JOB, Victim.EVERYTHING)
_TAKES_JOBS = (Victim.JOB, Victim.EVERYTHING)

#: The proposer proposes points near 60. Its proposals depend only on the results so far, so they
#: are reproducible.
PROPOSER = """
import csv, json, sys
rows = [(float(one["f"]), int(one["x"])) for one in csv.DictReader(open(sys.argv[1]))]
known, best = {x for _, x in rows}, min(rows)
new = [x for x in range(best[1] + 1, 101) if x not in known][:2]
new = new or [x for x in range(101) if x not in known][:2]
json.dump({"f": best[0]}, open("best.json", "w"))
with open("next.csv", "w") as file:
    file.write("x\\n" + "".join(f"{x}\\n" for x in new))
"""


def plan(root: Path, **more: Any) -> dict[str, Any]:
    """Return the stages of a loop of some rounds: a sweep, a follower, a proposer."""
    return {
        "workflow_id": "w-crash",
        "session_config": {"session_budget": 1000},
        "stages": [_leading(root), _following(root), _proposing()],
        "rounds": {
            "walk": {
                "stages": ["run", "go", "next"],
                "points": "run",
                "ask": "next/next.csv",
                "each": 2,
                "at_most": ROUNDS,
                "within": {"x": {"from": 0, "to": 100, "step": 1}},
            }
        },
        **more,
    }


def _leading(root: Path) -> dict[str, Any]:
    """Return the sweep that logs each computed task in the file `computed`."""
    task = (
        'sleep 0.3; echo "{\\"f\\": $(( (WFCTL_PARAM_x - 60) * (WFCTL_PARAM_x - 60) ))}" > f.json; '
        f'echo "$WFCTL_TASK" >> {shlex.quote(str(root / "computed"))}'
    )
    parameters = {
        "command": task,
        "map": {"points": [{"x": 0}, {"x": 50}]},
        "task_outputs": ["f.json"],
        "metrics": {"f": {"at": "f.json#/f", "better": "lower"}},
        "verify": "true",
    }
    return {"id": "run", "name": "Run", "outputs": ["run/tasks.csv"], "parameters": parameters}


def _following(root: Path) -> dict[str, Any]:
    """Return the follower (a sweep that reuses the points of the first sweep).

    It logs each computed task in the file `followed`. Its results are random numbers, so that a
    second computation of a task changes its result.
    """
    parameters = {
        "command": 'cat "${WFCTL_LIKE_FOLDER:?}/f.json" && echo $RANDOM$RANDOM > r.txt && '
        f'echo "$WFCTL_TASK" >> {shlex.quote(str(root / "followed"))}',
        "map": {"like": "run"},
        "task_outputs": ["r.txt"],
        "verify": "true",
    }
    return {
        "id": "go",
        "name": "Go on",
        "depends_on": ["run"],
        "inputs": ["run/tasks.csv"],
        "outputs": ["go/tasks.csv"],
        "parameters": parameters,
    }


def _proposing() -> dict[str, Any]:
    """Return the stage that proposes the points of the next round."""
    parameters = {
        "command": 'python3 "$WFCTL_ROOT/propose.py" "$WFCTL_ROOT/run/tasks.csv"',
        "metrics": {"best": {"at": "best.json#/f", "better": "lower"}},
        "verify": "true",
    }
    return {
        "id": "next",
        "name": "Next",
        "depends_on": ["run", "go"],
        "inputs": ["run/tasks.csv", "propose.py"],
        "outputs": ["next/next.csv", "next/best.json"],
        "parameters": parameters,
    }


#: The points of a run without kills: two at first, then two after the best one in each round.
EXPECTED = [0, 50, 51, 52, 53, 54, 55, 56, 57, 58]


@pytest.fixture(params=["Shell", "Slurm"])
def looped(request: pytest.FixtureRequest, workflow: Workflow) -> Iterator[Workflow]:
    """Create the workflow of a loop on each backend."""
    more: dict[str, Any] = {}
    if request.param == "Slurm":
        scheduler = request.getfixturevalue("slurm")
        workflow = replace(workflow, environ={**workflow.environ, **scheduler.environ, **PROMPT})
        machine = {"batch_type": "Slurm", "context_type": "LocalContext", "local_root": "."}
        profile = {
            "type": "remote",
            "config": {**machine, "remote_root": "."},
            "resource_defaults": {"number_node": 1, "cpu_per_node": 1, "group_size": 1},
        }
        more = {"default_backend": "queue", "backend_profiles": {"queue": profile}}
    (workflow.root / "plan.json").write_text(json.dumps(plan(workflow.root, **more)))
    (workflow.root / "propose.py").write_text(PROPOSER)
    workflow.succeed("init", "plan.json", "--consent", "trust")
    yield workflow
    if request.param == "Slurm":
        scheduler = request.getfixturevalue("slurm")
        for id_ in scheduler.jobs(workflow.root.parent):
            scheduler.ask("scancel", id_)


def killed(workflow: Workflow, choose: random.Random) -> list[Victim]:
    """Run the loop to its end, with kills at random moments of the first runs."""
    struck: list[Victim] = []
    for _ in range(40):
        with ending(workflow.start("run")) as run:
            if len(struck) < 5:
                over = time.monotonic() + choose.uniform(0.2, 6)
                while run.poll() is None and time.monotonic() < over:
                    time.sleep(0.01)
                if run.poll() is None:
                    struck.append(choose.choice(VICTIMS))
                    strike(workflow, struck[-1])
            try:
                code = run.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                raise AssertionError(workflow.said()) from None
        workflow.succeed("rehydrate")
        if code == 0 and json.loads(workflow.succeed("status", "-o", "json"))["data"]["status"] == (
            "completed"
        ):
            return struck
    raise AssertionError(f"it never came through: {struck} {workflow.said()[-3000:]}")


def lines(workflow: Workflow, name: str) -> list[str]:
    """Return the lines that jobs wrote to a file of the root."""
    path = workflow.root / name
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 4))]
)
def test_loop_survives_any_kill(looped: Workflow, seed: int) -> None:
    """The rounds have the expected points, each point is computed once, and no round repeats."""
    struck = killed(looped, random.Random(seed))
    begun = [one["data"] for one in looped.events("round.begun")]
    assert [one["round"] for one in begun] == [*range(2, ROUNDS + 1)]
    assert [p["x"] for one in begun for p in one["points"]] == EXPECTED[2:]
    table = [*csv.DictReader((looped.root / "run/tasks.csv").read_text().splitlines())]
    assert [int(one["x"]) for one in table] == EXPECTED
    assert [int(one["round"]) for one in table] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert {one["state"] for one in table} == {"done"}
    ends = [Counter(lines(looped, name)) for name in ("computed", "followed")]
    assert [{*one} for one in ends] == [{f"x={x}" for x in EXPECTED}] * 2
    # A task may run again if it was killed after it had written its last line and before its end
    # was recorded.
    again = sum(one.total() for one in ends) - 2 * len(EXPECTED)
    assert again <= sum(victim in _TAKES_JOBS for victim in struck), (ends, struck)
    check_log(looped)
    looped.succeed("fsck", "--protocol")
