"""The files of an attempt are removed while its job runs under a scheduler."""

from __future__ import annotations

import pytest

from tests.cluster.support import init, write_machine
from tests.cluster.test_sweep import HERE
from tests.crash.support import Workflow
from tests.crash.test_removed import CLEANED, in_git, removed_beneath, stage_of
from tests.rounds import first


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("how", first(list(CLEANED)))
def test_removed_files_of_a_slurm_job_start_no_second_job(workflow: Workflow, how: str) -> None:
    """After the removal of its files, no attempt of a Slurm job runs its command twice."""
    trace = workflow.root.parent / "lives"
    in_git(workflow)
    init(workflow, write_machine(workflow, HERE), stage_of("stage", trace))
    begun = removed_beneath(workflow, how, trace)
    assert max(begun.values()) == 1, begun
    assert len(begun) == (2 if how == "rm" else 1), begun
