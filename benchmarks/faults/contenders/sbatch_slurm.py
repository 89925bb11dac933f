"""Slurm alone: a shell script that submits each step with `sbatch --dependency`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults import slurm_cluster
from benchmarks.faults.work import Step

NAME = "sbatch"
PACKAGES: tuple[str, ...] = ()  # Slurm belongs to the machine
DOCUMENTATION = (
    "https://slurm.schedmd.com/sbatch.html#OPT_dependency",
    "https://slurm.schedmd.com/sbatch.html#OPT_kill-on-invalid-dep",
    "https://slurm.schedmd.com/squeue.html#OPT_states",
)
STATE: tuple[str, ...] = ()  # the state is the controller's list of jobs
SCHEDULER = "slurm"

#: A step is submitted unless Slurm lists a job of it that waits, runs or has completed.
_FUNCTIONS = """\
#!/bin/bash
set -e
declare -A ids

list_jobs() { # states
    squeue --me --states="$1" --noheader --format='%Z|%j|%i'
}

submit() { # name, command, names of the steps that it needs
    local name=$1 command=$2 condition=afterok need
    shift 2
    ids[$name]=$(grep -F "$PWD|$name|" <<< "$jobs" | tail -n 1 | cut -d '|' -f 3)
    [ -z "${ids[$name]}" ] || return 0
    for need; do condition+=:${ids[$need]}; done
    ids[$name]=$(sbatch --parsable --job-name="$name" ${1:+--dependency=$condition} \\
        --kill-on-invalid-dep=yes --wrap="$command")
}

check() { # names of all steps
    local completed name
    completed=$(list_jobs completed)
    for name; do
        grep -qF "$PWD|$name|${ids[$name]}" <<< "$completed" || { echo "$name failed"; return 1; }
    done
}

jobs=$(list_jobs pending,configuring,running,completing,completed)
"""


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the script. A last job waits for all steps; then squeue must list them as completed."""
    names = [step.name for step in steps]
    lines = [shlex.join(["submit", step.name, step.command, *step.needs]) for step in steps]
    lines.append('condition=$(IFS=:; echo "afterany:${ids[*]}")')
    lines.append('sbatch --wait --dependency="$condition" --output=/dev/null --wrap=true')
    lines.append(shlex.join(["check", *names]))
    (folder / "submit.sh").write_text(_FUNCTIONS + "\n".join(lines) + "\n")


def command(folder: Path, python: str) -> list[str]:
    """Return the command that submits all steps and waits for the last one."""
    return ["bash", "submit.sh"]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Return the same command: it submits again the steps whose jobs have not completed."""
    return [command(folder, python)]


def find_version(python: str) -> str:
    """Return the version of Slurm."""
    return slurm_cluster.run_client("slurmctld", "-V").split()[-1]
