"""Stages on a real Slurm: every job runs once, and its end is reported correctly."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cli.support import call
from tests.cluster.support import (
    PROMPT,
    Slurm,
    init,
    let_go,
    traced,
    verdicts,
    waiting,
    watched,
    write_machine,
)
from tests.crash.support import PATIENCE, Workflow, ending, until
from tests.crash.victims import Victim, strike
from tests.rounds import first

pytestmark = pytest.mark.slow
HERE = {"batch_type": "Slurm", "context_type": "LocalContext", "remote_root": "."}
ONCE = ["w-far/stage-1/att-0001"]
TWICE = [*ONCE, "w-far/stage-1/att-0002"]


def prepared(workflow: Workflow, command: str, **resources: Any) -> Workflow:
    """Create a workflow of one stage on Slurm."""
    init(workflow, write_machine(workflow, HERE), traced(workflow, command), **resources)
    return workflow


def check_completed(workflow: Workflow, trace: list[str]) -> None:
    """Check that the stage is completed without a retry and with the given trace."""
    found = workflow.stage("stage-1")
    assert (found["status"], found["retry_count"]) == ("completed", 0)
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n"
    assert workflow.trace() == trace


@pytest.mark.long
def test_stage_runs_on_slurm(workflow: Workflow) -> None:
    """The job is submitted once, its result is collected, and its launch is recorded."""
    prepared(workflow, "echo 1 > out.txt").succeed("run")
    check_completed(workflow, ONCE)
    [launched] = workflow.events("stage.launched")
    found = launched["data"]
    assert found["job_ids"][0].isdigit()
    assert found["work_dir"].endswith(found["submission_hash"])
    assert found["dpdispatcher_version"].startswith("1.1")


@pytest.mark.long
def test_failed_job_reports_its_cause(workflow: Workflow) -> None:
    """The last error has the job id, the exit code and the last lines of stderr."""
    done = prepared(workflow, "echo the tap is dry >&2; exit 3").call("run")
    assert done.returncode == 6, done
    found = workflow.stage("stage-1")
    assert found["status"] == "failed"
    [id_] = workflow.events("stage.launched")[0]["data"]["job_ids"]
    assert f"exit code 3 (job {id_}, FAILED by its scheduler)" in found["last_error"]
    assert "the tap is dry" in found["last_error"]
    assert workflow.trace() == ONCE


@pytest.mark.long
def test_unknown_partition_is_a_refusal(workflow: Workflow) -> None:
    """Slurm refuses a job for an unknown partition, and the error quotes Slurm's message."""
    done = prepared(workflow, "echo 1 > out.txt", queue_name="nowhere").call("run")
    assert done.returncode == 6, done
    assert verdicts(workflow)[-1] == "REJECTED"
    assert "invalid partition" in workflow.stage("stage-1")["last_error"]
    assert workflow.trace() == []


@pytest.mark.parametrize("victim", first([Victim.SESSION, Victim.MONITOR]))
def test_job_outlives_its_monitor(workflow: Workflow, victim: Victim) -> None:
    """The job continues in Slurm, and another monitor collects its result."""
    prepared(workflow, waiting(workflow))
    with ending(workflow.start("run")) as run:
        until(workflow.trace)
        until(lambda: workflow.committed("stage.launched"))
        strike(workflow, victim)
        if victim is Victim.SESSION:
            run.wait(PATIENCE)
            workflow.succeed("rehydrate")
        until(lambda: "ORPHAN_RUNNING" in verdicts(workflow))
        let_go(workflow)
        if victim is Victim.MONITOR:
            assert run.wait(PATIENCE) == 0, workflow.said()
    workflow.succeed("run")
    check_completed(workflow, ONCE)


@pytest.mark.long
def test_pending_job_is_awaited(workflow: Workflow, slurm: Slurm) -> None:
    """A queued job counts as active, although none of its processes has started."""
    prepared(workflow, "echo 1 > out.txt", custom_flags=["#SBATCH --begin=now+3600"])
    workflow.succeed("dispatch", "stage-1")
    [id_] = slurm.jobs(workflow.root)
    strike(workflow, Victim.SESSION)
    workflow.succeed("rehydrate")
    assert verdicts(workflow)[-1] == "ORPHAN_RUNNING"
    assert slurm.jobs(workflow.root) == [id_]
    slurm.ask("scontrol", "update", f"jobid={id_}", "starttime=now")
    workflow.succeed("run")
    check_completed(workflow, ONCE)


@pytest.mark.long
@pytest.mark.parametrize(
    ("own", "requeue"), [([], "Requeue=0"), (["#SBATCH --requeue"], "Requeue=1")]
)
def test_job_is_not_requeued_unless_its_flags_say_so(
    workflow: Workflow, slurm: Slurm, own: list[str], requeue: str
) -> None:
    """wfctl tells Slurm not to requeue a job, unless the user's flags request it."""
    flags = ["#SBATCH --begin=now+3600", *own]
    prepared(workflow, "echo 1 > out.txt", custom_flags=flags)
    workflow.succeed("dispatch", "stage-1")
    until(lambda: slurm.jobs(workflow.root))
    [id_] = slurm.jobs(workflow.root)
    assert requeue in slurm.ask("scontrol", "show", "job", id_)


@pytest.mark.long
def test_queue_position_is_shown_during_a_run(
    workflow: Workflow, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` shows the position of a pending job in Slurm's queue."""
    prepared(workflow, "echo 1 > out.txt", custom_flags=["#SBATCH --begin=now+3600"])
    workflow.succeed("dispatch", "stage-1")
    assert slurm.jobs(workflow.root)
    for name, value in workflow.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("cli.terminal.progress_lines._FIRST", 0.3)
    told = call("--root", str(workflow.root), "run", "--time-limit", "4").err
    assert re.search(r"stage-1 running, .+: job \d+ of \d+ in the queue", told), told


@pytest.mark.long
def test_unrecorded_job_is_found_by_its_folder(workflow: Workflow, slurm: Slurm) -> None:
    """If a kill happened before the job id was stored, no second job is submitted."""
    prepared(workflow, waiting(workflow))
    workflow.succeed("dispatch", "stage-1")
    until(workflow.trace)
    strike(workflow, Victim.SESSION)
    for path in workflow.root.glob("stage-1/.attempts/*/work/*/*"):
        if path.name.endswith(("_job_id", ".json")):
            path.unlink()
    workflow.succeed("rehydrate")
    assert len(slurm.jobs(workflow.root)) == 1
    let_go(workflow)
    workflow.succeed("run")
    check_completed(workflow, ONCE)


@pytest.mark.long
def test_cancelled_job_is_lost_and_gets_a_new_attempt(workflow: Workflow, slurm: Slurm) -> None:
    """A job that was cancelled in Slurm counts as lost, and a new attempt starts."""
    prepared(workflow, waiting(workflow))
    with ending(workflow.start("run", **PROMPT)) as run:
        until(workflow.trace)
        slurm.ask("scancel", *slurm.jobs(workflow.root))
        until(lambda: workflow.trace() == TWICE)
        let_go(workflow)
        assert run.wait(PATIENCE) == 0, workflow.said()
    check_completed(workflow, TWICE)


@pytest.mark.long
def test_job_cancelled_twice_fails_the_stage(workflow: Workflow, slurm: Slurm) -> None:
    """A lost job gets one new attempt, and the second loss is a failure."""
    prepared(workflow, waiting(workflow))
    with ending(workflow.start("run", **PROMPT)) as run:
        until(lambda: workflow.trace() == ONCE)
        slurm.ask("scancel", *slurm.jobs(workflow.root))
        until(lambda: workflow.trace() == TWICE)
        slurm.ask("scancel", *slurm.jobs(workflow.root))
        assert run.wait(PATIENCE) == 6, workflow.said()
    found = workflow.stage("stage-1")
    assert (found["status"], found["retry_count"]) == ("failed", 0)
    assert "lost twice" in found["last_error"]
    assert workflow.trace() == TWICE


@pytest.mark.long
def test_job_past_its_time_limit_fails_the_stage(workflow: Workflow) -> None:
    """A job that exceeds its time limit fails the stage, and no new attempt starts."""
    prepared(workflow, waiting(workflow), custom_flags=["#SBATCH --time=0:01"])
    with ending(workflow.start("run", **PROMPT)) as run:
        # Slurm checks time limits twice a minute and rounds them up to minutes, so the test waits
        # for long.
        assert run.wait(240) == 6
    assert "TIMEOUT" in workflow.stage("stage-1")["last_error"]
    assert workflow.trace() == ONCE


@pytest.mark.long
def test_a_silent_scheduler_is_asked_again(workflow: Workflow, slurm: Slurm) -> None:
    """While Slurm does not answer, the stage stays running. Later its result is collected."""
    prepared(workflow, waiting(workflow))
    with ending(workflow.start("run", WFCTL_PATIENCE="1")) as run:
        until(lambda: watched(workflow))
        with slurm.silent():
            until(lambda: "UNKNOWN" in verdicts(workflow))
            assert workflow.stage("stage-1")["status"] == "running"
        let_go(workflow)
        assert run.wait(PATIENCE) == 0, workflow.said()
    check_completed(workflow, ONCE)


@pytest.mark.long
def test_diagnostic_run_collects_log_and_err_from_slurm(workflow: Workflow) -> None:
    """A diagnostic run fails the stage and stores the command's output as log and err."""
    prepared(workflow, "echo so far; echo the tap is dry >&2; exit 3").call("run")
    workflow.succeed("stage", "diagnose", "stage-1", "--submit", "--sync")
    found = workflow.stage("stage-1")
    assert (found["status"], found["retry_count"]) == ("failed", 1)
    assert (workflow.root / "stage-1/log").read_text() == "so far\n"
    assert (workflow.root / "stage-1/err").read_text().endswith("diagnostic run: exit code 3\n")
    assert workflow.events("stage.failed")[-1]["data"]["category"] == "unknown"


@pytest.mark.long
def test_command_that_signals_its_own_group_succeeds_on_slurm(
    workflow: Workflow,
) -> None:
    """The signal also ends the batch script, which records the success first."""
    prepared(workflow, "trap 'kill 0' EXIT; sleep 300 & echo 1 > out.txt")
    workflow.succeed("run")
    assert workflow.stage("stage-1")["status"] == "completed"
    assert workflow.trace() == ONCE
