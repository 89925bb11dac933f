"""The ways a stage is run and ends, beside the plain one."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import pytest

from reconciler.host import processes as processes_of_machine
from tests.crash.aftermath import check_chain, check_log, check_stage, recover
from tests.crash.moments import WINDOWS, after, awaited
from tests.crash.support import Workflow, chain, ending, is_written, stage, unmarked, until
from tests.crash.victims import Victim, kill, processes, strike
from tests.programs import path_without

pytestmark = pytest.mark.slow


def test_without_tmux_the_monitor_is_detached_and_it_is_said(
    workflow: Workflow, tmp_path: Path
) -> None:
    """One line on stderr a launch, and the same end."""
    workflow.init(*chain())
    done = workflow.call("run", PATH=path_without("tmux", tmp_path / "bin"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("tmux is not installed") == 3
    assert [event["data"]["mode"] for event in workflow.events("stage.launched")] == ["setsid"] * 3
    check_chain(workflow)


@pytest.mark.long
def test_a_session_without_tmux_survives_its_death_too(workflow: Workflow, tmp_path: Path) -> None:
    """Orchestrator and detached monitor killed, the job's result is collected."""
    path = path_without("tmux", tmp_path / "bin")
    workflow.init(*chain())
    with ending(workflow.start("run", PATH=path)) as run:
        assert awaited(WINDOWS["the job has claimed its start"], workflow, run)
        strike(workflow, Victim.SESSION)
    workflow.succeed("rehydrate", PATH=path)
    workflow.succeed("run", PATH=path)
    check_chain(workflow)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("seconds", "victim"),
    [
        (0.6, Victim.ORCHESTRATOR),
        pytest.param(0.6, Victim.SESSION, marks=pytest.mark.long),
        pytest.param(1.2, Victim.ORCHESTRATOR, marks=pytest.mark.long),
        (1.2, Victim.SESSION),
        pytest.param(2.0, Victim.ORCHESTRATOR, marks=pytest.mark.long),
        pytest.param(2.0, Victim.SESSION, marks=pytest.mark.long),
    ],
)
def test_a_synchronous_dispatch_killed_half_way_runs_once(
    workflow: Workflow, victim: Victim, seconds: float
) -> None:
    """Early, while it computes or late: the next run collects what the dispatch began."""
    workflow.init(*chain(1.0))
    with ending(workflow.start("dispatch", "stage-1", "--sync")) as dispatch:
        awaited(after(seconds), workflow, dispatch)
        strike(workflow, victim)
    recover(workflow)
    check_chain(workflow)
    if workflow.events("attempt.started")[0]["data"]["mode"] == "sync":
        check_synchronous_launch(workflow)


def check_synchronous_launch(workflow: Workflow) -> None:
    """Check that the first stage's launch is in the log, in its place, with all its facts.

    A monitor that was killed between the submission and its record may have launched it again.
    """
    told = [e for e in workflow.events("stage.launched") if e["data"]["stage"] == "stage-1"]
    first = told[-1]
    assert [one["data"]["again"] for one in told] == [False, True][: len(told)]
    end = workflow.events("stage.computed")[0]
    assert first["version"] < end["version"]
    launched, computed = first["data"], end["data"]
    assert (launched["mode"], launched["session"]) == ("sync", None)
    assert launched["job_ids"] == computed["facts"]["job_ids"]
    work = workflow.attempts("stage-1")[0] / "work"
    assert launched["work_dir"] == str(work / launched["submission_hash"])
    assert launched["host"] == processes_of_machine.host()
    assert launched["boot_id"] == processes_of_machine.boot_id()
    assert launched["dpdispatcher_version"] == version("dpdispatcher")
    assert "stage-1: att-0001 runs as job" in (workflow.root / "progress.log").read_text()


@pytest.mark.long
def test_a_synchronous_dispatch_waits_for_the_end(workflow: Workflow) -> None:
    """When the command returns, the stage is computed; it never ran for those who read along."""
    workflow.init(*chain())
    workflow.succeed("dispatch", "stage-1", "--sync")
    assert workflow.stage("stage-1")["status"] == "post_processing"
    check_synchronous_launch(workflow)
    assert "status -> running" not in (workflow.root / "progress.log").read_text()
    recover(workflow)
    check_chain(workflow)


@pytest.mark.long
def test_a_synchronous_dispatch_killed_before_it_tells_of_the_launch_is_told_of(
    workflow: Workflow,
) -> None:
    """The job is submitted, nobody has recorded it; the look that finds it does."""
    workflow.init(*chain(1.0))
    with ending(workflow.start("dispatch", "stage-1", "--sync")) as dispatch:
        assert awaited(WINDOWS["the job is submitted and not written down"], workflow, dispatch)
        strike(workflow, Victim.ORCHESTRATOR)
    workflow.succeed("rehydrate")
    recover(workflow)
    check_synchronous_launch(workflow)
    check_chain(workflow)


def test_a_verification_killed_half_way_is_done_again(workflow: Workflow) -> None:
    """The command that verifies dies with its run; the stage is verified by the next one."""
    verify = "echo verified >> verifications; while [ ! -e go ]; do sleep 0.05; done"
    workflow.init(stage("stage-1", "echo 1 > out.txt", verify=verify))
    begun = workflow.root / "verifications"
    with ending(workflow.start("run")) as run:
        until(lambda: is_written(begun))
        strike(workflow, Victim.SESSION)
    assert run.returncode == -9
    assert workflow.stage("stage-1")["status"] == "post_processing"
    (workflow.root / "go").touch()
    recover(workflow)
    check_stage(workflow, "stage-1", 1)
    assert begun.read_text() == "verified\n" * 2
    check_log(workflow)


@pytest.mark.long
def test_a_check_that_is_killed_refuses_nothing(workflow: Workflow, tmp_path: Path) -> None:
    """The run says what ended, nothing is recorded, and the next run goes through."""
    workflow.init(*chain())
    with ending(workflow.start("run", WFCTL_DPDISP=slow_to_check(tmp_path / "slow"))) as run:
        until(lambda: kill_check(workflow) or run.poll() is not None)
        said, _ = run.communicate(timeout=60)
    assert run.returncode == 6
    assert "`dargs check` was ended by signal 9" in said
    assert workflow.stage("stage-1")["status"] == "ready"
    recover(workflow)
    check_chain(workflow)


def slow_to_check(folder: Path) -> str:
    """Return the path of a dpdisp whose checks would take minutes."""
    folder.mkdir()
    (folder / "dpdisp").symlink_to(Path(sys.executable).with_name("dpdisp"))
    (folder / "dargs").write_text('#!/bin/bash\nexec -a "dargs check" sleep 600\n')
    (folder / "dargs").chmod(0o755)
    return str(folder / "dpdisp")


def kill_check(workflow: Workflow) -> bool:
    """Kill the check of a submission; False if none is at work."""
    found = [pid for pid, line in processes(workflow).items() if "dargs check" in line]
    kill(found)
    return bool(found)


def test_a_failed_stage_is_retried_beside_what_the_failure_left(workflow: Workflow) -> None:
    """The reason is DPDispatcher's; after a fix the second attempt starts on clean ground."""
    fails = "echo 0 > out.txt; test -e ../../../../../../fixed || { echo why >&2; exit 1; }"
    workflow.init(stage("stage-1", f"{fails}; echo 1 > out.txt"))
    done = workflow.call("run")
    failed = workflow.stage("stage-1")
    assert (done.returncode, failed["status"]) == (6, "failed")
    assert "exit code 1 (job" in failed["last_error"]
    assert "why" in failed["last_error"]
    (workflow.root / "fixed").touch()
    (workflow.root / "stage-1/out.txt").write_text("stale\n")
    workflow.succeed("stage", "retry", "stage-1", "--fix", "made what was missing")
    workflow.succeed("run")
    check_retried(workflow)


def check_retried(workflow: Workflow) -> None:
    """Check that a second attempt completed the stage and the first one's files are kept."""
    found = workflow.stage("stage-1")
    assert (found["status"], found["retry_count"]) == ("completed", 1)
    assert workflow.trace() == ["w-crash/stage-1/att-0001", "w-crash/stage-1/att-0002"]
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n"
    kept = workflow.attempts("stage-1")[0] / "kept/stage-1"
    assert (kept / "out.txt").read_text() == "stale\n"
    assert (kept / "DPDISP_EXIT_CODE").read_text() == "1\n"
    marker = unmarked((kept / "DPDISP_DONE").read_text())
    assert marker.startswith("1\nw-crash/stage-1/att-0001 ")
    check_log(workflow)


@pytest.mark.long
def test_a_retry_killed_before_it_starts_does_not_take_old_outputs_for_its_own(
    workflow: Workflow,
) -> None:
    """The old one lies in place when the new attempt is recorded; the command runs all the same."""
    workflow.init(stage("stage-1", "test -e ../../../../../../fixed && echo 1 > out.txt"))
    assert workflow.call("run").returncode == 6
    (workflow.root / "fixed").touch()
    (workflow.root / "stage-1/out.txt").write_text("stale\n")
    workflow.succeed("stage", "retry", "stage-1", "--fix", "made what was missing")
    with ending(workflow.start("run")) as run:
        assert awaited(lambda w: w.committed("attempt.started") == 2, workflow, run)
        strike(workflow, Victim.SESSION)
    recover(workflow)
    check_retried(workflow)


@pytest.mark.long
def test_a_job_that_is_killed_twice_fails_without_a_retry(workflow: Workflow) -> None:
    """The first loss costs nothing, the second one is said; each attempt ran once."""
    workflow.init(stage("stage-1", "sleep 600"))
    with ending(workflow.start("run")) as run:
        for number in (1, 2):
            kill_attempt(workflow, number)
        run.wait(60)
    found = workflow.stage("stage-1")
    assert (run.returncode, found["status"], found["retry_count"]) == (6, "failed", 0)
    assert "lost twice" in found["last_error"]
    assert workflow.trace() == ["w-crash/stage-1/att-0001", "w-crash/stage-1/att-0002"]
    check_log(workflow)


def kill_attempt(workflow: Workflow, number: int) -> None:
    """Kill every process of an attempt's job once it runs, and nobody else."""
    until(lambda: len(workflow.trace()) == number)
    strike(workflow, Victim.JOB)


@pytest.mark.long
def test_a_stage_costs_little_more_than_its_computation(workflow: Workflow) -> None:
    """What a stage takes from its attempt's start to its completion, beyond its two seconds."""
    workflow.init(stage("stage-1", "sleep 2; echo 1 > out.txt"))
    before = time.monotonic()
    workflow.succeed("run")
    whole = time.monotonic() - before
    ends = (workflow.events(type_)[0] for type_ in ("stage.prepared", "stage.completed"))
    started, completed = (datetime.fromisoformat(event["occurred_at"]) for event in ends)
    overhead = (completed - started).total_seconds() - 2
    print(f"overhead of a stage {overhead:.2f} s, of the whole command {whole - 2:.2f} s")
    assert 0 < overhead < 30


@pytest.mark.long
def test_nothing_is_left_of_a_round(workflow: Workflow) -> None:
    """The look for what is left sees a live monitor, and none once the run is over."""
    workflow.init(*chain())
    with ending(workflow.start("run")) as run:
        assert awaited(WINDOWS["the job has claimed its start"], workflow, run)
        assert any("dpdisp-run.sh" in line for line in processes(workflow).values())
        run.wait(60)
    until(lambda: not processes(workflow))
