"""Variants of running a stage: without tmux, synchronously, after kills, failures and retries."""

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


@pytest.mark.long
def test_monitor_without_tmux_is_detached_and_reported(workflow: Workflow, tmp_path: Path) -> None:
    """Each launch prints one line on stderr, and the workflow completes."""
    workflow.init(*chain())
    done = workflow.call("run", PATH=path_without("tmux", tmp_path / "bin"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("tmux is not installed") == 3
    assert [event["data"]["mode"] for event in workflow.events("stage.launched")] == ["setsid"] * 3
    check_chain(workflow)


@pytest.mark.long
def test_session_without_tmux_survives_a_kill(workflow: Workflow, tmp_path: Path) -> None:
    """After orchestrator and detached monitor were killed, the result is collected."""
    path = path_without("tmux", tmp_path / "bin")
    workflow.init(*chain())
    with ending(workflow.start("run", PATH=path)) as run:
        assert awaited(WINDOWS["the job has claimed its start"], workflow, run)
        strike(workflow, Victim.SESSION)
    workflow.succeed("rehydrate", PATH=path)
    workflow.succeed("run", PATH=path)
    check_chain(workflow)


@pytest.mark.long
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
def test_killed_synchronous_dispatch_runs_once(
    workflow: Workflow, victim: Victim, seconds: float
) -> None:
    """After a kill of `dispatch --sync`, the next `run` collects the result."""
    workflow.init(*chain(1.0))
    with ending(workflow.start("dispatch", "stage-1", "--sync")) as dispatch:
        awaited(after(seconds), workflow, dispatch)
        strike(workflow, victim)
    recover(workflow)
    check_chain(workflow)
    if workflow.events("attempt.started")[0]["data"]["mode"] == "sync":
        check_synchronous_launch(workflow)


def check_synchronous_launch(workflow: Workflow) -> None:
    """Check that the launch of the first stage is recorded in order and with all data.

    A monitor that was killed after the submission may have launched the job again.
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
def test_synchronous_dispatch_waits_for_the_end(workflow: Workflow) -> None:
    """`dispatch --sync` returns after the job has ended, and prints no status `running`."""
    workflow.init(*chain())
    workflow.succeed("dispatch", "stage-1", "--sync")
    assert workflow.stage("stage-1")["status"] == "post_processing"
    check_synchronous_launch(workflow)
    assert "status -> running" not in (workflow.root / "progress.log").read_text()
    recover(workflow)
    check_chain(workflow)


@pytest.mark.long
def test_killed_synchronous_dispatch_has_its_launch_recorded(
    workflow: Workflow,
) -> None:
    """If a kill prevented the record of the launch, the next check records it."""
    workflow.init(*chain(1.0))
    with ending(workflow.start("dispatch", "stage-1", "--sync")) as dispatch:
        assert awaited(WINDOWS["the job is submitted and not written down"], workflow, dispatch)
        strike(workflow, Victim.ORCHESTRATOR)
    workflow.succeed("rehydrate")
    recover(workflow)
    check_synchronous_launch(workflow)
    check_chain(workflow)


@pytest.mark.long
def test_killed_check_is_repeated(workflow: Workflow) -> None:
    """The command `verify` is killed with its run, and the next run verifies the stage."""
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
def test_killed_submission_check_refuses_nothing(workflow: Workflow, tmp_path: Path) -> None:
    """If the check of a submission is killed, `run` records no refusal."""
    workflow.init(*chain())
    with ending(workflow.start("run", WFCTL_DPDISP=slow_to_check(tmp_path / "slow"))) as run:
        until(lambda: kill_check(workflow) or run.poll() is not None)
        said, _ = run.communicate(timeout=60)
    assert run.returncode == 6
    assert "signal 9 ended `dargs check`" in said
    assert workflow.stage("stage-1")["status"] == "ready"
    recover(workflow)
    check_chain(workflow)


def slow_to_check(folder: Path) -> str:
    """Return the path of a dpdisp whose submission checks take minutes."""
    folder.mkdir()
    (folder / "dpdisp").symlink_to(Path(sys.executable).with_name("dpdisp"))
    (folder / "dargs").write_text('#!/bin/bash\nexec -a "dargs check" sleep 600\n')
    (folder / "dargs").chmod(0o755)
    return str(folder / "dpdisp")


def kill_check(workflow: Workflow) -> bool:
    """Kill the check of a submission; return False if no check is running."""
    found = [pid for pid, line in processes(workflow).items() if "dargs check" in line]
    kill(found)
    return bool(found)


@pytest.mark.long
def test_failed_stage_is_retried_after_a_fix(workflow: Workflow) -> None:
    """The error shows the reason, and the second attempt starts without old files."""
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
    """Check that the second attempt completed the stage and that the first one's files are kept."""
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
def test_killed_retry_does_not_accept_old_outputs(
    workflow: Workflow,
) -> None:
    """The output of an earlier attempt does not complete the retry: its command runs."""
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
def test_job_killed_twice_fails_without_a_retry(workflow: Workflow) -> None:
    """wfctl replaces the killed job once. After the second kill, the stage fails."""
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
    """Kill every process of an attempt's job once it runs, and no other process."""
    until(lambda: len(workflow.trace()) == number)
    strike(workflow, Victim.JOB)


@pytest.mark.long
def test_stage_overhead_is_small(workflow: Workflow) -> None:
    """wfctl adds little time to a stage whose computation takes two seconds."""
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
def test_no_process_remains_after_a_run(workflow: Workflow) -> None:
    """During a run the test finds the monitor, and after the run it finds no process."""
    workflow.init(*chain())
    with ending(workflow.start("run")) as run:
        assert awaited(WINDOWS["the job has claimed its start"], workflow, run)
        assert any("dpdisp-run.sh" in line for line in processes(workflow).values())
        run.wait(60)
    until(lambda: not processes(workflow))
