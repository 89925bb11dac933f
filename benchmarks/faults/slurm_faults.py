"""Faults of a scheduler: the controller or a job disappears, or an answer gets lost."""

from __future__ import annotations

import shutil
import time

from benchmarks.faults import slurm_cluster
from benchmarks.faults.game import Game, UnplayableError
from benchmarks.faults.process_faults import wait_for_middle

#: Time in seconds for which the controller does not run.
OUTAGE = 20.0

#: Seconds of a middle step that still runs when Slurm ends the jobs that the controller forgot.
LONGER_THAN_REGISTRATION = 60.0

#: Seconds of a middle step that still runs when a tool submits its job again after a failure.
LONGER_THAN_RETRY = 90.0

#: The second submission reaches Slurm, but the client reports a failure, as after a timeout.
_SBATCH = """\
#!/bin/sh
case "$*" in *--test-only* | *--version*) exec {program} "$@" ;; esac
mkdir {place}/first-submission 2> /dev/null && exec {program} "$@"
mkdir {place}/second-submission 2> /dev/null || exec {program} "$@"
{program} "$@" > /dev/null 2>&1
echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
exit 1
"""


def kill_controller(game: Game) -> None:
    """Kill the controller while the middle step runs, and start it again after the step."""
    wait_for_middle(game)
    slurm_cluster.kill_controller()
    time.sleep(OUTAGE)
    slurm_cluster.start_controller()


def forget_jobs(game: Game) -> None:
    """Let the controller lose its list of jobs while the middle step runs.

    When the node registers again, Slurm ends the jobs that the controller does not know.
    """
    wait_for_middle(game)
    slurm_cluster.kill_controller()
    slurm_cluster.start_controller(forget_jobs=True)


def cancel_job(game: Game) -> None:
    """Cancel the job of the middle step with scancel."""
    wait_for_middle(game)
    for job in slurm_cluster.find_jobs(game.place, "running"):
        slurm_cluster.run_client("scancel", job)


def requeue_job(game: Game) -> None:
    """Requeue the job of the middle step, as an administrator does before maintenance."""
    wait_for_middle(game)
    for job in slurm_cluster.find_jobs(game.place, "running"):
        slurm_cluster.run_client("scontrol", "requeue", job)


def wait_for_failed_submission(game: Game) -> None:
    """Wait until the middle step runs, whose submission has failed.

    Raises UnplayableError if the tool has submitted only one job.
    """
    wait_for_middle(game)
    if not (game.place / "second-submission").exists():
        raise UnplayableError("the tool submits one job for all steps")


def let_submission_fail(game: Game) -> None:
    """Let the second `sbatch` report a failure although Slurm accepted the job."""
    programs = game.place / "bin"
    programs.mkdir()
    sbatch = programs / "sbatch"
    sbatch.write_text(_SBATCH.format(program=shutil.which("sbatch"), place=game.place))
    sbatch.chmod(0o755)
    game.first_programs = programs
