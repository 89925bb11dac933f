"""Snakemake with Slurm: the rules of snakemake.py, which its plugin for Slurm submits."""

from __future__ import annotations

from pathlib import Path

from benchmarks.faults.contenders import snakemake
from benchmarks.faults.work import JOBS_AT_ONCE

NAME, STATE = snakemake.NAME, snakemake.STATE
PACKAGES = (*snakemake.PACKAGES, "snakemake-executor-plugin-slurm==2.8.0")
DOCUMENTATION = (
    *snakemake.DOCUMENTATION,
    "https://snakemake.github.io/snakemake-plugin-catalog/plugins/executor/slurm.html",
)
SCHEDULER = "slurm"

write = snakemake.write


def command(folder: Path, python: str) -> list[str]:
    """Submit up to four jobs at a time.

    The games have no accounting database, so Snakemake has to ask squeue for the status.
    """
    program = str(Path(python).parent / "snakemake")
    options = ["--executor", "slurm", "--slurm-status-command", "squeue"]
    return [program, *options, "--jobs", str(JOBS_AT_ONCE)]


def recover(folder: Path, python: str) -> list[list[str]]:
    """Remove a stale lock, then compute incomplete files again, as with snakemake.py."""
    unlock, _ = snakemake.recover(folder, python)
    return [unlock, [*command(folder, python), "--rerun-incomplete"]]
