"""Every byte that a remote job wrote is downloaded, or the log names its location."""

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
#: Number of random jobs that `make test` runs, that `make crash` runs, and that exist in total.
_SOME, _MORE, _ALL = 2, 8, 60


def check(workflow: Workflow, sshd: Sshd, folder: Path, seed: int) -> None:
    """Run a random job over SSH, and check that no file that it wrote is lost."""
    job, manifest = job_of(seed), folder / "manifest"
    init(workflow, write_machine(workflow, machine(sshd, folder / "far")), job.stage(manifest))
    job.put(workflow.root / "stage-1")
    done = workflow.call("run")
    assert done.returncode in (0, 6), done
    assert written(manifest)
    check_kept(workflow.root, manifest, workflow.events("attempt.left"))


@pytest.mark.long
@pytest.mark.parametrize("seed", first(range(_SOME)))
def test_every_byte_of_a_remote_job_is_kept(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, seed: int
) -> None:
    """Each file of a remote job is downloaded, or the log names its remote location."""
    check(workflow, sshd, tmp_path, seed)


@pytest.mark.parametrize("seed", rounds(range(_SOME, _ALL), _MORE))
def test_every_byte_of_more_remote_jobs_is_kept(
    workflow: Workflow, sshd: Sshd, tmp_path: Path, seed: int
) -> None:
    """Each file of further random remote jobs is downloaded or named in the log."""
    check(workflow, sshd, tmp_path, seed)
