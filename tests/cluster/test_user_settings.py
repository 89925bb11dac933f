"""Settings of users and sites that change the output of Slurm's clients."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.support import Slurm, Sshd, init, traced, verdicts, write_machine
from tests.cluster.test_slurm import HERE, ONCE, check_completed
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow, until
from tests.crash.test_background import Maker, of_one, of_tasks
from tests.crash.victims import Victim, strike
from tests.rounds import first

pytestmark = pytest.mark.slow
#: Each variable hides the test's job from Slurm's clients.
FILTERS = {"SQUEUE_PARTITION": "gpu", "SQUEUE_STATES": "R", "SCANCEL_STATE": "RUNNING"}
LATER: dict[str, Any] = {"custom_flags": ["#SBATCH --begin=now+3600"]}


@pytest.mark.long
@pytest.mark.parametrize("far", first([False, True]))
def test_user_filters_do_not_hide_a_pending_job(
    workflow: Workflow, slurm: Slurm, sshd: Sshd, tmp_path: Path, far: bool
) -> None:
    """wfctl finds and cancels a pending job although the user's filters would hide it."""
    where = machine(sshd, tmp_path / "far", "Slurm") if far else HERE
    (sshd.folder / "home/.bashrc").write_text(
        "".join(f"export {name}={value}\n" for name, value in FILTERS.items())
    )
    path = write_machine(workflow, where)
    init(workflow, path, traced(workflow, "echo 1 > out.txt"), **LATER)
    workflow.succeed("dispatch", "stage-1", **FILTERS)
    until(lambda: slurm.jobs(tmp_path))
    pending = slurm.jobs(tmp_path)
    strike(workflow, Victim.SESSION)
    workflow.succeed("rehydrate", **FILTERS)
    # If the session was killed before it read the job id, the folder identifies the job.
    assert verdicts(workflow)[-1] in ("ORPHAN_RUNNING", "ORPHAN_RUNNING_UNRECORDED")
    assert slurm.jobs(tmp_path) == pending
    workflow.succeed("stage", "fail", "stage-1", "--stop", "--error", "enough", **FILTERS)
    assert slurm.jobs(tmp_path) == []


@pytest.mark.long
def test_user_filters_reach_the_command(workflow: Workflow) -> None:
    """Only wfctl's own calls of Slurm ignore the user's filters; the job still has them."""
    command = '[ "$SQUEUE_PARTITION" = gpu ] && echo 1 > out.txt'
    init(workflow, write_machine(workflow, HERE), traced(workflow, command))
    workflow.succeed("run", **FILTERS)
    check_completed(workflow, ONCE)


def write_squeue(folder: Path, *lines: str) -> dict[str, str]:
    """Write a wrapper of squeue, and return the environment that finds the wrapper first."""
    folder.mkdir()
    script = folder / "squeue"
    script.write_text("\n".join(["#!/bin/bash", *lines, f'exec {shutil.which("squeue")} "$@"', ""]))
    script.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.long
def test_site_message_on_stderr_of_squeue_is_ignored(workflow: Workflow, tmp_path: Path) -> None:
    """wfctl reads only the standard output of squeue, so a site's message changes nothing."""
    init(workflow, write_machine(workflow, HERE), traced(workflow, "echo 1 > out.txt"))
    note = "echo 'NOTE: maintenance on Monday!' >&2"
    workflow.succeed("run", "--time-limit", "60", **write_squeue(tmp_path / "bin", note))
    check_completed(workflow, ONCE)


def test_failing_squeue_is_reported_with_its_last_stderr_line(
    workflow: Workflow, tmp_path: Path
) -> None:
    """The error quotes the last stderr line of squeue, not the list printed before it."""
    init(workflow, write_machine(workflow, HERE), traced(workflow, "echo 1 > out.txt"), **LATER)
    workflow.succeed("dispatch", "stage-1")
    until(lambda: "it waits" in "".join(map(Path.read_text, logs(workflow))))
    environ = write_squeue(
        tmp_path / "bin", "echo '1|R|/x'", "echo 'the door is shut!' >&2", "exit 1"
    )
    strike(workflow, Victim.SESSION)
    workflow.succeed("rehydrate", **environ)
    [*_, observed] = workflow.events("attempt.observed")
    assert observed["data"]["evidence"]["queue"]["error"] == "the door is shut!"


def logs(workflow: Workflow) -> list[Path]:
    """Return the paths of the logs that the stage's monitors wrote."""
    return list(workflow.root.glob("stage-1/.attempts/*/dpdisp.log"))


#: Variables that Slurm sets for a job, and similar variables of the user.
OUTER = {"SLURM_JOB_ID": "77", "SLURM_CPUS_PER_TASK": "64", "PMI_RANK": "3", "PMIX_RANK": "3"}
OWN = {"SBATCH_COMMENT": "mine", "SLURM_EXIT_ERROR": "9"}


@pytest.mark.long
@pytest.mark.parametrize("made", first([of_one, of_tasks]))
def test_variables_of_an_outer_job_do_not_reach_an_inner_job(
    workflow: Workflow, made: Maker
) -> None:
    """A workflow inside a Slurm job hides that job's variables from its own jobs.

    The user's own defaults still reach its jobs.
    """
    outer = "$SLURM_JOB_ID/$SLURM_CPUS_PER_TASK$PMI_RANK$PMIX_RANK"
    seen = f"{outer}/$SBATCH_COMMENT$SLURM_EXIT_ERROR"
    command = f'echo {seen} > "{workflow.root}/seen"; echo 1 > out.txt'
    init(workflow, write_machine(workflow, HERE), made(workflow, command))
    workflow.succeed("run", **OUTER, **OWN)
    number, *others = (workflow.root / "seen").read_text().strip().split("/")
    assert number != OUTER["SLURM_JOB_ID"]
    assert others == ["", "mine9"]


@pytest.mark.long
@pytest.mark.parametrize("batch_type", first(["Shell", "Slurm"]))
def test_shell_banner_changes_no_answer(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, batch_type: str
) -> None:
    """Text that the remote profile prints before and after each command is ignored."""
    banner = "echo 'Welcome, 3 users'; trap 'echo Goodbye' EXIT\n"
    (sshd.folder / "home/.bashrc").write_text(banner)
    path = write_machine(workflow, machine(sshd, tmp_path / "far", batch_type))
    init(workflow, path, traced(workflow, "echo 1 > out.txt"))
    workflow.succeed("run", "--time-limit", "60")
    check_completed(workflow, ONCE)
    [launched] = workflow.events("stage.launched")
    assert launched["data"]["job_ids"][0].isdigit()


@pytest.mark.long
def test_repeated_launch_failure_is_reported_with_its_reason(
    workflow: Workflow, sshd: Sshd, tmp_path: Path
) -> None:
    """The machine cannot create the job folder, and the error states this reason."""
    broken = "mkdir() { echo 'mkdir: cannot create directory: no inode' >&2; return 1; }"
    (sshd.folder / "home/.bashrc").write_text(f"{broken}\nexport -f mkdir\n")
    path = write_machine(workflow, machine(sshd, tmp_path / "far"))
    init(workflow, path, traced(workflow, "echo 1 > out.txt"))
    assert workflow.call("run").returncode == 6
    found = workflow.stage("stage-1")
    assert found["status"] == "failed"
    assert "cannot create directory" in found["last_error"]
    assert verdicts(workflow)[-1] == "LAUNCHED_IN_VAIN"
    assert len(workflow.events("attempt.relaunched")) == 3
