"""Snakemake with Slurm: the rules of snakemake.py, which its plugin for Slurm submits."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults import slurm_cluster
from benchmarks.faults.contenders import snakemake
from benchmarks.faults.work import JOBS_AT_ONCE, Step

NAME, STATE = snakemake.NAME, snakemake.STATE
PACKAGES = (*snakemake.PACKAGES, "snakemake-executor-plugin-slurm==2.8.0")
DOCUMENTATION = (
    *snakemake.DOCUMENTATION,
    "https://snakemake.github.io/snakemake-plugin-catalog/plugins/executor/slurm.html",
)
SCHEDULER = "slurm"

#: Snakemake removes SLURM_CONF from the environment of a job, because most clusters have their
#: configuration in a default folder. This srun finds the Slurm of the games.
_SRUN = """\
#!/bin/sh
SLURM_CONF={place}/slurm.conf exec {program} "$@"
"""


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the Snakefile, and an srun that finds the Slurm of the games."""
    snakemake.write(steps, folder, python)
    srun = Path(python).with_name("srun")

    program = shutil.which("srun")
    srun.write_text(_SRUN.format(place=slurm_cluster.PLACE, program=program))
    srun.chmod(0o755)


def command(folder: Path, python: str) -> list[str]:
    """Submit up to four jobs at a time.

    The games have no accounting database, so Snakemake has to ask squeue for the status.
    """
    program = str(Path(python).with_name("snakemake"))
    options = ["--executor", "slurm", "--slurm-status-command", "squeue"]
    return [program, *options, "--jobs", str(JOBS_AT_ONCE)]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Remove a stale lock, then compute incomplete files again, as with snakemake.py."""
    unlock, _ = snakemake.recover(folder, python)
    return [unlock, [*command(folder, python), "--rerun-incomplete"]]
