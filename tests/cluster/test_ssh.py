"""Stages on a machine over SSH, with and without a scheduler."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from reconciler.control.stop_jobs import kill_processes_in_folder
from tests.cluster.support import (
    PROMPT,
    Slurm,
    Sshd,
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
ONCE = ["w-far/stage-1/att-0001"]
TWICE = [*ONCE, "w-far/stage-1/att-0002"]


def machine(sshd: Sshd, far: Path, batch_type: str = "Shell") -> dict[str, Any]:
    """Return the description of a machine that is reached through an sshd."""
    return {
        "batch_type": batch_type,
        "context_type": "SSHContext",
        "remote_root": str(far),
        "remote_profile": sshd.profile(),
    }


def check_completed(workflow: Workflow, trace: list[str]) -> None:
    """Check that the stage is completed without a retry and with the given trace."""
    found = workflow.stage("stage-1")
    assert (found["status"], found["retry_count"]) == ("completed", 0)
    assert (workflow.root / "stage-1/out.txt").read_text() == "1\n"
    assert workflow.trace() == trace


@pytest.mark.parametrize("batch_type", first(["Slurm", "Shell"]))
def test_stage_runs_over_ssh(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, batch_type: str
) -> None:
    """The job runs once on the remote machine, and inputs and results have exact names."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far", batch_type))
    far = f'case "$WFCTL_ROOT" in {tmp_path}/far/*) ;; *) exit 7 ;; esac'
    (workflow.root / "data").mkdir()
    (workflow.root / "data/a[1].txt").write_text("given\n")
    reads = '[ -d $WFCTL_ROOT/stage-1 ] && echo 1 > out.txt; cat "../data/a[1].txt" > "b[1]*.txt"'
    stage = traced(workflow, f"{far}; {reads}")
    outputs = ["stage-1/out.txt", "stage-1/b[1]*.txt"]
    init(workflow, path, {**stage, "inputs": ["data/a[1].txt"], "outputs": outputs})
    workflow.succeed("run")
    check_completed(workflow, ONCE)
    assert (workflow.root / "stage-1/b[1]*.txt").read_text() == "given\n"
    [launched] = workflow.events("stage.launched")
    found = launched["data"]
    assert found["job_ids"][0].isdigit()
    assert found["work_dir"].startswith(str(tmp_path / "far"))
    assert Path(found["work_dir"]).name == found["submission_hash"]


@pytest.mark.parametrize("batch_type", first(["Shell", "Slurm"]))
@pytest.mark.long
def test_temporarily_unreachable_machine_costs_no_attempt(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, slurm: Slurm, batch_type: str
) -> None:
    """While the machine is unreachable, the job continues and its state counts as unknown."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far", batch_type))
    init(workflow, path, traced(workflow, waiting(workflow)))
    with ending(workflow.start("run", **PROMPT)) as run:
        until(lambda: watched(workflow))
        sshd.stop()
        until(lambda: "UNKNOWN" in verdicts(workflow))
        assert workflow.stage("stage-1")["status"] == "running"
        let_go(workflow)
        sshd.start(**slurm.environ)
        assert run.wait(PATIENCE) == 0, workflow.said()
    check_completed(workflow, ONCE)


@pytest.mark.long
def test_unreachable_machine_at_the_launch_is_no_failure(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, slurm: Slurm
) -> None:
    """If the machine is unreachable at the launch, wfctl submits the job later."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    init(workflow, path, traced(workflow, "echo 1 > out.txt"))
    sshd.stop()
    with ending(workflow.start("run", **PROMPT)) as run:
        until(lambda: "UNKNOWN" in verdicts(workflow))
        sshd.start(**slurm.environ)
        assert run.wait(PATIENCE) == 0, workflow.said()
    check_completed(workflow, ONCE)


@pytest.mark.long
def test_remote_job_outlives_its_session(workflow: Workflow, sshd: Sshd, tmp_path: Path) -> None:
    """After session and monitor were killed, a new session finds the job running."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    init(workflow, path, traced(workflow, waiting(workflow)))
    with ending(workflow.start("run")) as run:
        until(lambda: watched(workflow))
        strike(workflow, Victim.SESSION)
        run.wait(PATIENCE)
    workflow.succeed("rehydrate")
    assert verdicts(workflow)[-1] == "ORPHAN_RUNNING"
    let_go(workflow)
    workflow.succeed("run")
    check_completed(workflow, ONCE)


@pytest.mark.long
def test_killed_remote_job_gets_a_new_attempt(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """If all processes of a remote job were killed, the stage starts a new attempt."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    init(workflow, path, traced(workflow, waiting(workflow)))
    with ending(workflow.start("run", **PROMPT)) as run:
        until(lambda: watched(workflow))
        assert kill_processes_in_folder(tmp_path / "far").left == ()
        until(lambda: workflow.trace() == TWICE)
        let_go(workflow)
        assert run.wait(PATIENCE) == 0, workflow.said()
    check_completed(workflow, TWICE)


@pytest.mark.parametrize("moment", first(["computing", "ended", "unlogged"], now=0))
def test_removed_remote_folder_runs_nothing_twice(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, moment: str
) -> None:
    """wfctl ends the processes in a removed remote folder before it starts a new attempt."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    init(workflow, path, traced(workflow, waiting(workflow)))
    workflow.succeed("dispatch", "stage-1")
    until(lambda: workflow.trace() == ONCE and watched(workflow))
    strike(workflow, Victim.SESSION)
    if moment != "computing":
        assert kill_processes_in_folder(tmp_path / "far").left == ()
    if moment == "unlogged":
        [log] = workflow.root.glob("stage-1/.attempts/att-0001-*/dpdisp.log")
        log.unlink()
    shutil.rmtree(tmp_path / "far")
    (tmp_path / "far").mkdir()
    workflow.succeed("rehydrate")
    expected = "ORPHAN_DIR_DELETED" if moment == "computing" else "PURGED"
    assert expected in verdicts(workflow)
    assert "NEVER_STARTED" not in verdicts(workflow)
    until(lambda: workflow.trace() == TWICE)
    folders = folders_of_processes_below(tmp_path / "far")
    assert all("att-0002" in folder for folder in folders), folders
    let_go(workflow)
    workflow.succeed("run")
    check_completed(workflow, TWICE)


@pytest.mark.long
def test_job_in_a_removed_folder_without_recorded_id_is_not_submitted_again(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """The monitor died before it recorded the id, and the machine shows no job any more."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    init(workflow, path, traced(workflow, waiting(workflow)))
    with ending(workflow.start("dispatch", "stage-1")) as dispatch:
        until(lambda: any("== " in log.read_text() for log in monitor_logs(workflow)))
        strike(workflow, Victim.ORCHESTRATOR)
        dispatch.wait(PATIENCE)
    until(lambda: workflow.trace() == ONCE)
    strike(workflow, Victim.SESSION)
    assert workflow.events("stage.launched") == []
    assert kill_processes_in_folder(tmp_path / "far").left == ()
    [log] = monitor_logs(workflow)
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if "job_id is" not in line))
    shutil.rmtree(tmp_path / "far")
    (tmp_path / "far").mkdir()
    workflow.succeed("rehydrate")
    assert verdicts(workflow)[:1] == ["PURGED"]
    let_go(workflow)
    workflow.succeed("run")
    check_completed(workflow, TWICE)


def monitor_logs(workflow: Workflow) -> list[Path]:
    """Return the logs of DPDispatcher of all attempts."""
    return list(workflow.root.glob("stage-1/.attempts/att-*/dpdisp.log"))


def folders_of_processes_below(folder: Path) -> list[str]:
    """Return the working folders of the processes below a folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            found.append(str(place.readlink()))
    return [one for one in found if one.startswith(f"{folder}/")]


@pytest.mark.long
def test_failed_remote_job_reports_its_cause(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """The last error has the job id, its exit code and the last lines of stderr."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    init(workflow, path, traced(workflow, "echo the tap is dry >&2; exit 3"))
    assert workflow.call("run").returncode == 6
    found = workflow.stage("stage-1")
    [id_] = workflow.events("stage.launched")[0]["data"]["job_ids"]
    assert f"exit code 3 (job {id_})" in found["last_error"]
    assert "the tap is dry" in found["last_error"]
    assert (workflow.root / "stage-1/err").read_text() == "the tap is dry\n"


def test_missing_machine_file_stops_a_launch_but_not_a_plan(workflow: Workflow) -> None:
    """`init` only warns about a missing machine file, and `dispatch` starts nothing."""
    plan = {
        "workflow_id": "w-far",
        "default_backend": "far",
        "backend_profiles": {"far": {"type": "remote", "config_path": "nowhere.json"}},
        "stages": [traced(workflow, "true")],
    }
    (workflow.root / "plan.json").write_text(json.dumps(plan))
    made = workflow.call("init", "plan.json", "--consent", "trust")
    assert made.returncode == 0
    assert "nowhere.json is missing" in made.stderr
    done = workflow.call("dispatch", "stage-1")
    assert done.returncode == 5
    assert "nowhere.json of the stage stage-1 is missing" in done.stderr
    assert workflow.events("attempt.started") == []


@pytest.mark.long
def test_removed_machine_file_makes_a_job_unknown(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """Without its machine file, wfctl cannot know the state of the remote job."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    init(workflow, path, traced(workflow, waiting(workflow)))
    workflow.succeed("dispatch", "stage-1")
    until(workflow.trace)
    strike(workflow, Victim.SESSION)
    Path(path).rename(f"{path}.aside")
    workflow.succeed("reconcile")
    assert verdicts(workflow)[-1] == "UNKNOWN"
    Path(f"{path}.aside").rename(path)
    let_go(workflow)
    workflow.succeed("run")
    check_completed(workflow, ONCE)


@pytest.mark.long
def test_leftovers_over_ssh_are_downloaded_or_named(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """Files above the size limit stay remote, and the log names their machine and path."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    command = "echo 1 > out.txt; mkdir sub; echo r > 'sub/re start'; head -c 300000 /dev/zero > big"
    given = traced(workflow, command)
    limited = {**given, "parameters": {**given["parameters"], "bring_back_limit": "10 KB"}}
    init(workflow, path, limited)
    workflow.succeed("run")
    check_completed(workflow, ONCE)
    assert (workflow.root / "stage-1/sub/re start").read_text() == "r\n"
    [left] = workflow.events("attempt.left")
    files = {file["path"]: file for file in left["data"]["files"]}
    assert set(files) == {"stage-1/sub/re start", "stage-1/big"}
    assert Path(files["stage-1/big"]["at"]).stat().st_size == 300_000
    assert left["data"]["host"]


@pytest.mark.long
@pytest.mark.parametrize("batch_type", first(["Shell", "Slurm"]))
def test_remote_launch_found_by_two_sessions_is_recorded_once(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, batch_type: str
) -> None:
    """Two sessions find the same unrecorded job, and only one records its launch."""
    path = write_machine(workflow, machine(sshd, tmp_path / "far", batch_type))
    init(workflow, path, traced(workflow, waiting(workflow)))
    with ending(workflow.start("dispatch", "stage-1")) as dispatch:
        until(lambda: any((tmp_path / "far").rglob("*_job_id")))
        strike(workflow, Victim.SESSION)
        dispatch.wait(PATIENCE)
    for _ in range(3):
        strike(workflow, Victim.SESSION)
        [log] = workflow.root.glob("stage-1/.attempts/att-0001-*/dpdisp.log")
        log.unlink(missing_ok=True)
        workflow.succeed("rehydrate")
    let_go(workflow)
    workflow.succeed("run")
    check_completed(workflow, ONCE)
    recorded = [event["data"]["job_ids"] for event in workflow.events("stage.launched")]
    assert len([ids for ids in recorded if ids]) == 1, recorded
