"""DPDispatcher with Slurm: the submissions of dpdispatcher.py with another `batch_type`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.contenders import dpdispatcher
from benchmarks.faults.work import Step

NAME, PACKAGES, STATE = dpdispatcher.NAME, dpdispatcher.PACKAGES, dpdispatcher.STATE
DOCUMENTATION = (
    *dpdispatcher.DOCUMENTATION,
    "https://docs.deepmodeling.com/projects/dpdispatcher/en/latest/batch.html",
)
SCHEDULER = "slurm"

command, recover = dpdispatcher.command, dpdispatcher.recover


def write(steps: Sequence[Step], folder: Path, python: str) -> None:
    """Write the program of dpdispatcher.py, which submits to Slurm instead of the shell."""
    dpdispatcher.write(steps, folder, python)
    program = folder / "workflow.py"
    program.write_text(program.read_text().replace('"Shell"', '"Slurm"'))
