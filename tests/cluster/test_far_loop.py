"""Sweeps and loops over SSH: points are uploaded, and results are downloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.support import PROMPT, Sshd, init, let_go, write_machine
from tests.cluster.test_ssh import machine
from tests.crash.placing import strike as strike_there
from tests.crash.support import PATIENCE, Workflow, ending, until
from tests.crash.victims import Victim, strike
from tests.rounds import first, rounds

pytestmark = pytest.mark.slow

#: Command of the proposer. It proposes the next two points, numbered after the finished points in
#: the uploaded task table.
_NEXT = (
    'case "$WFCTL_ROOT" in {far}/*) ;; *) exit 7 ;; esac; '
    'n=$(grep -c ,done "$WFCTL_INPUT_1"); printf "x\\n%s\\n%s\\n" "$n" $((n + 1)) > next.csv; '
    '{{ cat "${{WFCTL_ROUND_BEFORE:-/dev}}/next.csv" || echo first; }} > before.csv; '
    'echo "{{\\"rounds\\": $WFCTL_ROUND}}" > best.json'
)


def sweep(workflow: Workflow, command: str, points: int) -> dict[str, Any]:
    """Return a sweep in which each task writes its key to the trace at its end."""
    trace = workflow.root.parent / "ends"
    told = f'echo "{{\\"f\\": $WFCTL_PARAM_x}}" > f.json; echo "$WFCTL_TASK" >> "{trace}"'
    return {
        "id": "run",
        "name": "Run",
        "outputs": ["run/tasks.csv"],
        "parameters": {
            "command": f"{command}; {told}",
            "map": {"points": [{"x": n} for n in range(points)]},
            "task_outputs": ["f.json"],
            "metrics": {"f": {"at": "f.json#/f", "better": "lower"}},
            "at_once": 2,
        },
    }


def ends(workflow: Workflow) -> list[str]:
    """Return the keys of the ended tasks, including repeated ones."""
    trace = workflow.root.parent / "ends"
    return sorted(trace.read_text().split()) if trace.exists() else []


def tasks(workflow: Workflow, stage: str) -> dict[str, Any]:
    """Return the tasks of a stage from the JSON output of `tasks`."""
    told: dict[str, Any] = json.loads(workflow.succeed("-o", "json", "tasks", stage, "-n", "0"))
    return dict(told["data"])


@pytest.mark.long
@pytest.mark.parametrize("batch_type", first(["Shell", "Slurm"]))
def test_sweep_over_ssh_runs_once(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, batch_type: str
) -> None:
    """Each task runs once over SSH, and its results, metrics and logs are downloaded."""
    given = sweep(workflow, 'echo "here is $WFCTL_TASK"; [ "$WFCTL_PARAM_x" != 3 ] || exit 4', 6)
    given["parameters"] |= {"tolerate": 0.2}
    del given["parameters"]["metrics"]
    path = write_machine(workflow, machine(sshd, tmp_path / "far", batch_type))
    follow: dict[str, Any] = {
        "id": "follow",
        "name": "Follow",
        "depends_on": ["run"],
        "inputs": ["run/tasks.csv"],
        "outputs": ["follow/tasks.csv"],
        "parameters": {
            "command": 'cat "${WFCTL_LIKE_FOLDER:-/dev}/f.json" > g.json',
            "map": {"like": "run"},
            "task_outputs": ["g.json"],
            "tolerate": 0.2,
        },
    }
    init(workflow, path, given, follow)
    workflow.succeed("run")
    assert ends(workflow) == [f"x={n}" for n in (0, 1, 2, 4, 5)]
    told = tasks(workflow, "run")
    assert (told["counts"]["done"], told["counts"]["failed"]) == (5, 1)
    assert workflow.succeed("logs", "run", "--task", "x=3") == "here is x=3\n"
    assert tasks(workflow, "follow")["counts"]["done"] == 5
    assert json.loads((workflow.root / "follow/tasks/x=5/g.json").read_text()) == {"f": 5}
    assert not list((workflow.root / "run").glob(".attempts/*/left/run"))
    workflow.succeed("fsck", "--protocol")


def loop(workflow: Workflow, far: Path) -> list[dict[str, Any]]:
    """Return the stages of a loop: a sweep that waits in round 2, and its proposer."""
    go = workflow.root / "go"
    holds = f'while [ "$WFCTL_PARAM_x" = 4 ] && [ ! -e "{go}" ]; do sleep 0.1; done'
    begins = f'echo "$WFCTL_TASK" >> "{workflow.root.parent}/begins"'
    following = {
        "id": "next",
        "name": "Next",
        "depends_on": ["run"],
        "inputs": ["run/tasks.csv"],
        "outputs": ["next/next.csv", "next/best.json", "next/before.csv"],
        "parameters": {
            "command": _NEXT.format(far=far),
            "metrics": {"rounds": "best.json#/rounds"},
        },
    }
    return [sweep(workflow, f"{begins}; {holds}", 3), following]


LOOP = {
    "stages": ["run", "next"],
    "points": "run",
    "ask": "next/next.csv",
    "each": 2,
    "at_most": 9,
    "until": {"metric": "next.rounds", "above": 1.5},
    "within": {"x": {"from": 0, "to": 9, "step": 1}},
}


def begun(workflow: Workflow) -> list[str]:
    """Return the keys of the started tasks, including repeated ones."""
    trace = workflow.root.parent / "begins"
    return trace.read_text().split() if trace.exists() else []


@pytest.mark.long
@pytest.mark.parametrize("batch_type", ["Shell", "Slurm"])
def test_killed_loop_over_ssh_computes_each_point_once(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, batch_type: str
) -> None:
    """After kills on both machines, only unfinished tasks run again."""
    path = write_machine(workflow, machine(sshd, tmp_path / "work", batch_type))
    init(workflow, path, *loop(workflow, tmp_path / "work"), rounds={"walk": LOOP})
    with ending(workflow.start("run")) as run:
        until(lambda: run.poll() is not None or "x=4" in begun(workflow))
        until(lambda: run.poll() is not None or "x=3" in ends(workflow))
        assert run.poll() is None, workflow.call("status").stdout
        strike(workflow, Victim.MONITOR)
        strike(workflow, Victim.ORCHESTRATOR)
        run.wait(PATIENCE)
    strike_there(workflow, Victim.JOB)
    let_go(workflow)
    with ending(workflow.start("run", **PROMPT)) as run:
        assert run.wait(PATIENCE) == 0, workflow.said()
    assert begun(workflow).count("x=4") == 2
    assert ends(workflow) == [f"x={n}" for n in range(5)]
    told = tasks(workflow, "run")
    assert told["counts"]["done"] == 5
    [shown] = json.loads(workflow.succeed("-o", "json", "round", "list"))["data"]
    assert shown["round"] == 2
    assert (workflow.root / "next/before.csv").read_text() == "x\n3\n4\n"
    workflow.succeed("fsck", "--protocol")
    workflow.succeed("replay", "--check")


def _follower(workflow: Workflow, id_: str, partner: str, file: str) -> dict[str, Any]:
    """Return a follower (a sweep that reuses the points of another stage).

    Its results are random, so that a repeated task is detected. The task x=4 waits until the file
    `go` exists.
    """
    folder = workflow.root.parent
    held = f'while [ "$WFCTL_PARAM_x" = 4 ] && [ ! -e "{workflow.root}/go" ]; do sleep 0.1; done'
    return {
        "id": id_,
        "name": id_.title(),
        "depends_on": [partner],
        "inputs": [f"{partner}/tasks.csv"],
        "outputs": [f"{id_}/tasks.csv"],
        "parameters": {
            "command": f'cat "${{WFCTL_LIKE_FOLDER:?}}/{file}" && '
            f'echo "$WFCTL_TASK" >> "{folder}/begins.{id_}"; {held}; '
            'echo "{\\"r\\": $RANDOM$RANDOM}" > r.json; '
            f'echo "$WFCTL_TASK" >> "{folder}/ends.{id_}"',
            "map": {"like": partner},
            "task_outputs": ["r.json"],
            "metrics": {"r": "r.json#/r"},
            "at_once": 2,
        },
    }


#: Pairs of a batch system and the place where processes are killed ("" means no kill). The first
#: two pairs differ in both values and are tested most often.
_STRUCK = [
    ("Slurm", ""),
    ("Shell", "job"),
    *(("Slurm", "here"), ("Slurm", "job"), ("Shell", ""), ("Shell", "here")),
]


def _traced(workflow: Workflow, name: str) -> list[str]:
    trace = workflow.root.parent / name
    return sorted(trace.read_text().split()) if trace.exists() else []


def _numbers(workflow: Workflow, stage: str) -> dict[str, float]:
    """Return the metric of each finished task."""
    return {
        one["key"]: one["metrics"]["r"]
        for one in tasks(workflow, stage)["tasks"]
        if one["state"] == "done"
    }


@pytest.mark.parametrize(("batch_type", "struck"), rounds(_STRUCK, few=2))
def test_followers_in_a_loop_over_ssh_run_each_task_once(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, batch_type: str, struck: str
) -> None:
    """After a kill in the second round, finished tasks are not computed again."""
    path = write_machine(workflow, machine(sshd, tmp_path / "work", batch_type))
    leading, proposing = loop(workflow, tmp_path / "work")
    leading["parameters"]["command"] = sweep(workflow, "true", 3)["parameters"]["command"]
    followers = [
        _follower(workflow, "follow", "run", "f.json"),
        _follower(workflow, "more", "follow", "r.json"),
    ]
    proposing |= {"depends_on": ["run", "more"]}
    walk = {**LOOP, "stages": ["run", "follow", "more", "next"]}
    walk["until"] = {"metric": "next.rounds", "above": 2.5}
    init(workflow, path, leading, *followers, proposing, rounds={"walk": walk})
    with ending(workflow.start("run", **PROMPT)) as run:
        until(lambda: run.poll() is not None or "x=4" in _traced(workflow, "begins.follow"))
        until(lambda: run.poll() is not None or "x=3" in _traced(workflow, "ends.follow"))
        assert run.poll() is None, workflow.call("status").stdout
        first_round = {id_: _numbers(workflow, id_) for id_ in ("follow", "more")}
        assert [len(one) for one in first_round.values()] >= [3, 3]
        if struck:
            strike(workflow, Victim.MONITOR)
            strike(workflow, Victim.ORCHESTRATOR)
            run.wait(PATIENCE)
        if struck == "job":
            strike_there(workflow, Victim.JOB)
        let_go(workflow)
        if not struck:
            assert run.wait(PATIENCE) == 0, workflow.said()
    if struck:
        with ending(workflow.start("run", **PROMPT)) as run:
            assert run.wait(PATIENCE) == 0, workflow.said()
    every = [f"x={n}" for n in range(7)]
    assert ends(workflow) == every
    for id_, known in first_round.items():
        assert _traced(workflow, f"ends.{id_}") == every
        assert _numbers(workflow, id_).items() >= known.items()
    assert _traced(workflow, "begins.follow").count("x=4") == 1 + (struck == "job")
    starts = [one["data"] for one in workflow.events("attempt.started")]
    given = [one.get("tasks") for one in starts if one["stage"] == "more"]
    assert given == [3, 2, 2]
    workflow.succeed("verify", "--deep")
    workflow.succeed("fsck", "--protocol")
    workflow.succeed("replay", "--check")
