"""All workflows of an account share one answer of Slurm for the query interval."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cluster.support import (
    Slurm,
    Sshd,
    init,
    traced,
    verdicts,
    watched,
    write_machine,
)
from tests.cluster.test_slurm import HERE, ONCE, check_completed
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow, until
from tests.crash.victims import Victim, find, kill, strike

pytestmark = [pytest.mark.slow, pytest.mark.long]
HOLD = ["#SBATCH --hold"]
#: The query interval of these tests in seconds. Preparing a test takes a part of it.
INTERVAL = 20
#: Wrapper of squeue that records each query of wfctl, but not those of DPDispatcher.
COUNTED = """#!/bin/bash
case "$*" in *'%i|%T'*) date +%s.%N >> "{calls}" ;; esac
exec {squeue} "$@"
"""


def counted(workflow: Workflow) -> Workflow:
    """Put a squeue on the PATH that records the times of wfctl's queries."""
    tools = workflow.root.parent / "tools"
    tools.mkdir()
    squeue = shutil.which("squeue")
    (tools / "squeue").write_text(COUNTED.format(calls=tools / "calls", squeue=squeue))
    (tools / "squeue").chmod(0o755)
    path = {"PATH": f"{tools}:{workflow.environ['PATH']}"}
    return replace(workflow, environ={**workflow.environ, **path})


def queries(workflow: Workflow, since: float = 0) -> list[float]:
    """Return the times of wfctl's queries of Slurm, oldest first."""
    calls = workflow.root.parent / "tools/calls"
    lines = calls.read_text().splitlines() if calls.exists() else []
    return [moment for moment in map(float, lines) if moment >= since]


def prepared(workflow: Workflow, interval: int, command: str = "echo 1 > out.txt") -> Workflow:
    """Create a workflow with one held job, and submit the job."""
    init(
        workflow,
        write_machine(workflow, HERE),
        traced(workflow, command),
        query_interval=interval,
        custom_flags=HOLD,
    )
    workflow.succeed("dispatch", "stage-1")
    until(lambda: watched(workflow))
    return workflow


def neighbours(workflow: Workflow, number: int) -> Iterator[Workflow]:
    """Yield empty roots of the same account next to the root of a workflow."""
    for count in range(number):
        root = workflow.root.with_name(f"root-{count}")
        root.mkdir()
        yield replace(workflow, root=root)


def test_many_workflows_with_waiting_jobs_share_one_query_per_interval(
    workflow: Workflow, slurm: Slurm
) -> None:
    """Monitors and commands of all workflows together ask Slurm once per interval."""
    counting = counted(workflow)
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda one: prepared(one, INTERVAL), neighbours(counting, 6)))
        assert len(slurm.jobs(workflow.root.parent)) == 6
        began = time.time()
        while time.time() < began + 2.5 * INTERVAL:
            list(pool.map(lambda one: one.succeed("reconcile"), made))
    found = queries(counting, began)
    assert 2 <= len(found) <= 3
    assert all(after - before >= INTERVAL for before, after in pairwise(found))
    assert all(one.trace() == [] for one in made)
    kill(find(workflow, Victim.EVERYTHING))


def test_processes_that_start_together_ask_once(workflow: Workflow) -> None:
    """After the interval, only one of several simultaneous commands asks Slurm."""
    made = prepared(counted(workflow), 3)
    strike(made, Victim.SESSION)
    time.sleep(3)
    began = time.time()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: made.succeed("reconcile", "--dry-run"), range(4)))
    assert len(queries(made, began)) == 1


def test_job_submitted_after_a_query_is_not_lost(workflow: Workflow, slurm: Slurm) -> None:
    """A job that the last answer cannot contain is found by a new query."""
    first, second = (replace(one) for one in neighbours(counted(workflow), 2))
    prepared(first, 3600)
    prepared(second, 3600)
    for one in (first, second):
        one.succeed("reconcile")
        assert not {"VANISHED", "NEVER_RAN", "JOB_LOST"} & {*verdicts(one)}
    for id_ in slurm.jobs(workflow.root.parent):
        slurm.ask("scontrol", "release", id_)
    # The end of each job is found by its own record, although the answer of Slurm is old.
    for one in (first, second):
        one.succeed("run", "--time-limit", "60")
        check_completed(one, ONCE)


def test_cancelled_job_is_noticed_after_the_interval(workflow: Workflow, slurm: Slurm) -> None:
    """A cancelled job counts as waiting until the interval ends, and then as lost."""
    made = prepared(counted(workflow), 8)
    strike(made, Victim.SESSION)
    made.succeed("reconcile", "--dry-run")
    [id_] = slurm.jobs(made.root)
    slurm.ask("scancel", id_)
    found = json.loads(made.succeed("reconcile", "--dry-run", "-o", "json"))
    assert "ORPHAN_RUNNING" in json.dumps(found)
    time.sleep(8)
    found = json.loads(made.succeed("reconcile", "--dry-run", "-o", "json"))
    assert "JOB_TAKEN" in json.dumps(found)


def test_ended_stage_leaves_no_job_although_the_last_answer_is_old(
    workflow: Workflow, slurm: Slurm
) -> None:
    """`stage fail --stop` asks Slurm itself, and the next attempt starts immediately."""
    made = prepared(counted(workflow), 3600)
    made.succeed("reconcile")
    made.succeed("stage", "fail", "stage-1", "--error", "wrong", "--stop")
    assert slurm.jobs(made.root) == []
    made.succeed("stage", "retry", "stage-1", "--fix", "none")
    made.succeed("dispatch", "stage-1")
    [id_] = slurm.jobs(made.root)
    slurm.ask("scontrol", "release", id_)
    made.succeed("run", "--time-limit", "60")
    assert made.trace() == ["w-far/stage-1/att-0002"]
    assert made.stage("stage-1")["status"] == "completed"


@pytest.mark.parametrize("damage", ["text", "mode", "future"])
def test_damaged_answer_is_not_used(workflow: Workflow, damage: str) -> None:
    """wfctl asks again if the stored answer is damaged, open to others or from the future."""
    made = counted(workflow)
    state = workflow.root.parent / "state"
    made = prepared(replace(made, environ={**made.environ, "XDG_STATE_HOME": str(state)}), 3600)
    strike(made, Victim.SESSION)
    before = len(queries(made))
    made.succeed("reconcile", "--dry-run")
    assert len(queries(made)) == before
    [answer] = (one for one in state.glob("wfctl/scheduler/jobs-*") if one.suffix != ".lock")
    assert (answer.stat().st_mode & 0o777, answer.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    if damage == "mode":
        answer.chmod(0o644)
    else:
        replace_time(answer, is_signed=damage == "future")
    made.succeed("reconcile", "--dry-run")
    assert len(queries(made)) == before + 1


def replace_time(answer: Path, *, is_signed: bool) -> None:
    """Move the time of a stored answer into the future, and correct its digest if required."""
    body, _, digest = answer.read_text().rstrip("\n").rpartition("\n")
    body = f"9{body[1:]}"
    if is_signed:
        digest = sha256(f"{body}\n".encode()).hexdigest() + "  -"
    answer.write_text(f"{body}\n{digest}\n")


def test_workflows_over_ssh_share_the_answer_of_their_machine(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """Two workflows of one account on a cluster use the same answer of its Slurm."""
    counting = counted(workflow)
    # The shell of each login reads this file.
    path = f"export PATH={shlex.quote(str(tmp_path / 'tools'))}:$PATH\n"
    (sshd.folder / "home/.bashrc").write_text(path)
    made = list(neighbours(counting, 2))
    for one in made:
        place = write_machine(one, machine(sshd, tmp_path / "far", "Slurm"))
        stage = traced(one, "echo 1 > out.txt")
        init(one, place, stage, query_interval=3600, custom_flags=HOLD)
        one.succeed("dispatch", "stage-1")
        until(partial(watched, one))
    before = len(queries(counting))
    assert before > 0
    for one in made:
        one.succeed("reconcile")
        assert "JobHeldUser" in one.succeed("status")
    assert len(queries(counting)) == before
    kill(find(workflow, Victim.EVERYTHING))
