"""User-defined scheduler directives must be valid and must not repeat generated ones."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.errors import UnusableSubmission
from reconciler.submission import scheduler_directives

GOOD = [
    ("Slurm", "#SBATCH --mem=4G"),
    ("Slurm", "#SBATCH -n 4"),
    ("Slurm", "#SBATCH --time=1:00:00 --account=me"),
    ("PBS", "#PBS -l walltime=1:00:00"),
    ("Torque", "#PBS -A me"),
    ("LSF", "#BSUB -W 60"),
    ("SGE", "#$ -l h_rt=3600"),
]
WRONG = [
    ("Slurm", "--mem=4G"),
    ("Slurm", "# SBATCH --mem=4G"),
    ("Slurm", "#SBATCH--mem=4G"),
    ("Slurm", "#PBS -l mem=4gb"),
    ("Slurm", "#SBATCH --mem=4G\nrm x"),
    ("Slurm", "#SBATCH --comment=it's"),
    ("PBS", "#SBATCH --mem=4G"),
    ("LSF", "#PBS -W 60"),
    ("SGE", "#SBATCH -l h_rt=1"),
    ("Shell", "#SBATCH --mem=4G"),
]
DOUBLE = [
    ("Slurm", "#SBATCH --nodes=2", {}),
    ("Slurm", "#SBATCH -N 2", {}),
    ("Slurm", "#SBATCH -N2", {}),
    ("Slurm", "#SBATCH --mem=4G --ntasks-per-node 4", {}),
    ("Slurm", "#SBATCH --partition=long", {"queue_name": "debug"}),
    ("Slurm", "#SBATCH --gres=gpu:1", {"gpu_per_node": 1}),
    ("Slurm", "#SBATCH --array=0-3", {}),
    ("Slurm", "#SBATCH --chdir=/tmp", {}),
    ("PBS", "#PBS -l select=1:ncpus=4", {}),
    ("Torque", "#PBS -l nodes=1:ppn=4", {}),
    ("LSF", "#BSUB -n 4", {}),
    ("SGE", "#$ -pe mpi 4", {}),
]


@pytest.mark.parametrize(("batch_type", "line"), GOOD)
def test_valid_directive_is_accepted(batch_type: str, line: str) -> None:
    """A line with the scheduler's prefix is valid if DPDispatcher does not generate it."""
    scheduler_directives.check_directives(batch_type, {"custom_flags": [line]})


@pytest.mark.parametrize(("batch_type", "line"), WRONG)
def test_invalid_directive_is_refused(batch_type: str, line: str) -> None:
    """Without the scheduler's prefix, a line would be a comment or a shell command."""
    with pytest.raises(UnusableSubmission, match="custom_flags") as caught:
        scheduler_directives.check_directives(batch_type, {"custom_flags": [line]})
    assert caught.value.data["found"] == line


@pytest.mark.parametrize(("batch_type", "line", "resources"), DOUBLE)
def test_directive_generated_from_resources_is_refused(
    batch_type: str, line: str, resources: dict[str, Any]
) -> None:
    """The user must set the resource instead, because duplicate directives are ambiguous."""
    with pytest.raises(UnusableSubmission, match="from the resources"):
        scheduler_directives.check_directives(batch_type, {**resources, "custom_flags": [line]})


@pytest.mark.parametrize("line", ["#SBATCH --partition=long", "#SBATCH --gres=gpu:1"])
def test_directive_that_is_not_generated_is_accepted(line: str) -> None:
    """DPDispatcher writes such a line only if its resource is set, and here it is not set."""
    scheduler_directives.check_directives("Slurm", {"custom_flags": [line]})
