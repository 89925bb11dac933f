"""Every byte that a job wrote on another machine is brought here, or the log says where it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.support import Sshd, init, write_machine
from tests.cluster.test_ssh import machine
from tests.crash.support import Workflow
from tests.keeping.test_every_byte import check_kept
from tests.keeping.writers import job_of, written
from tests.rounds import first, rounds

pytestmark = pytest.mark.slow
#: Rounds of `make test`, of `make crash`, and all of them.
_SOME, _MORE, _ALL = 2, 8, 60


def check(workflow: Workflow, sshd: Sshd, folder: Path, seed: int) -> None:
    """Run the random job of a seed over SSH, and look for what it wrote."""
    job, manifest = job_of(seed), folder / "manifest"
    init(workflow, write_machine(workflow, machine(sshd, folder / "far")), job.stage(manifest))
    job.put(workflow.root / "stage-1")
    done = workflow.call("run")
    assert done.returncode in (0, 6), done
    assert written(manifest)
    check_kept(workflow.root, manifest, workflow.events("attempt.left"))


@pytest.mark.long
@pytest.mark.parametrize("seed", first(range(_SOME)))
def test_every_byte_that_a_far_job_wrote_is_kept(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, seed: int
) -> None:
    """In its place here, or where the log says."""
    check(workflow, sshd, tmp_path, seed)


@pytest.mark.parametrize("seed", rounds(range(_SOME, _ALL), _MORE))
def test_every_byte_that_more_far_jobs_wrote_is_kept(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, seed: int
) -> None:
    """The same of more of them."""
    check(workflow, sshd, tmp_path, seed)
