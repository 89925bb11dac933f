"""Fixtures: a scheduler and an SSH server on loopback, and workflows that use them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.support import (
    PLACE,
    SLURM,
    SLURM_PORT,
    SSH,
    Slurm,
    Sshd,
    alone,
    free_port,
    script,
)
from tests.crash.conftest import workflow as plain_workflow
from tests.crash.support import Workflow
from tests.need import need_programs

plain = plain_workflow


@pytest.fixture(scope="session")
def slurm_conf() -> Path:
    """Start the shared Slurm unless it runs, and return the path of its configuration."""
    need_programs(*SLURM)
    PLACE.mkdir(exist_ok=True)
    with alone(PLACE / "starting"):
        script("start-slurm.sh", PLACE / "slurm", SLURM_PORT)
    return PLACE / "slurm" / "slurm.conf"


@pytest.fixture
def slurm(slurm_conf: Path, tmp_path: Path) -> Slurm:
    """Give the test a separate client configuration for the shared Slurm."""
    return Slurm(Path(shutil.copy(slurm_conf, tmp_path / "slurm.conf")))


@pytest.fixture
def workflow(plain: Workflow, slurm: Slurm) -> Iterator[Workflow]:
    """Create an empty root whose commands find Slurm, and cancel its jobs afterwards."""
    yield replace(plain, environ={**plain.environ, **slurm.environ})
    for id_ in slurm.jobs(plain.root.parent):
        slurm.ask("scancel", id_)


@pytest.fixture
def sshd(tmp_path: Path, slurm: Slurm) -> Iterator[Sshd]:
    """Start a separate sshd for the test, which the test may stop."""
    need_programs(*SSH)
    made = Sshd(tmp_path / "sshd", free_port())
    made.start(**slurm.environ)
    yield made
    script("start-sshd.sh", made.folder, made.port, "stop")
