"""A Slurm of one node for the games, and its faults: no game touches another Slurm."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

#: Folder and port of the Slurm of all games of this user.
PLACE = Path(f"/var/tmp/fault-games-{os.geteuid()}")
PORT = 26817 + 2 * (os.geteuid() % 3000)

#: Time in seconds in which a node registers with a new controller.
REGISTRATION = 5.0

#: Time in seconds in which the controller saves a new job on disk.
SAVING = 7.0

#: Seconds for which Slurm lists an ended job (the default of Slurm), and memory of the node in MB.
SETTINGS = {"MIN_JOB_AGE": "300", "NODE_MB": "16000"}

#: Script that starts a Slurm on this machine.
STARTER = Path(__file__).parents[2] / "tests" / "cluster" / "start-slurm.sh"


def find_obstacle() -> str:
    """Return why this machine cannot run Slurm, or an empty string."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [name for name in ("slurmctld", "munged") if not shutil.which(name, path=path)]
    return f"{', '.join(missing)} is missing" if missing else ""


def start_cluster() -> dict[str, str]:
    """Start Slurm unless it runs, and return the environment of its clients."""
    PLACE.mkdir(mode=0o755, exist_ok=True)
    subprocess.run(
        ["bash", str(STARTER), str(PLACE), str(PORT)], env=_environment(), check=True, timeout=120
    )
    return {"SLURM_CONF": str(PLACE / "slurm.conf")}


def stop_cluster() -> None:
    """Stop the Slurm daemons that the games have started."""
    subprocess.run(
        ["bash", str(STARTER), str(PLACE), str(PORT), "stop"], env=_environment(), check=True
    )


def run_client(*command: str) -> str:
    """Run a Slurm client, and return its output, also if it fails."""
    environ = _environment()
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False).stdout


def find_jobs(folder: Path, states: str = "all") -> list[str]:
    """Return the ids of the jobs in the given states that were submitted below a folder."""
    listed = run_client("squeue", "-h", "-t", states, "-o", "%i|%T|%Z").splitlines()
    jobs = [line.split("|", 2) for line in listed]
    return [job for job, _, place in jobs if Path(place).is_relative_to(folder)]


def kill_controller() -> None:
    """Kill the controller when it has saved its jobs, and wait until it has ended."""
    time.sleep(SAVING)
    number = int((PLACE / "slurmctld.pid").read_text())
    os.kill(number, signal.SIGKILL)
    while Path(f"/proc/{number}").exists():
        time.sleep(0.1)


def start_controller(*, forget_jobs: bool = False) -> None:
    """Start the controller, and wait until it answers; it may forget all jobs.

    Slurm drains a node that runs a job which the controller does not know. The node is resumed, as
    an administrator does. Raises TimeoutError if the controller does not answer within a minute.
    """
    subprocess.run(["slurmctld", *(["-c"] if forget_jobs else [])], env=_environment(), check=True)
    deadline = time.monotonic() + 60
    while "is UP" not in run_client("scontrol", "ping"):
        if time.monotonic() > deadline:
            raise TimeoutError("expected slurmctld to answer within 60 s")
        time.sleep(0.2)
    time.sleep(REGISTRATION)
    run_client("scontrol", "update", "NodeName=ALL", "State=RESUME")


def _environment() -> dict[str, str]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return {**os.environ, **SETTINGS, "PATH": path, "SLURM_CONF": str(PLACE / "slurm.conf")}
