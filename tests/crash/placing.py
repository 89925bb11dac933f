"""Workflows whose jobs run on each backend: locally, on a scheduler, or on another machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.support import Slurm, Sshd, write_machine
from tests.crash.cells import Backend
from tests.crash.support import Workflow
from tests.crash.victims import Victim, find, is_job, kill, suspend
from tests.crash.victims import strike as strike_near

#: Name of the work folder of jobs that do not run in the folder of their attempt.
SCRATCH = "work"


@contextmanager
def placed(
    workflow: Workflow, backend: Backend, request: pytest.FixtureRequest
) -> Iterator[tuple[Workflow, Sshd | None]]:
    """Prepare a workflow for a backend, and end all of its jobs afterwards."""
    if backend is Backend.SHELL:
        yield workflow, None
        return
    slurm: Slurm = request.getfixturevalue("slurm")
    sshd: Sshd | None = request.getfixturevalue("sshd") if backend.is_far else None
    yield replace(workflow, environ={**workflow.environ, **slurm.environ}), sshd
    for id_ in slurm.jobs(workflow.root.parent):
        slurm.ask("scancel", id_)
    kill(at_work(workflow))


def machine_of(
    workflow: Workflow, backend: Backend, sshd: Sshd | None, *, shared: bool
) -> str | None:
    """Write the machine file of a backend and return its path, or None for the local shell.

    With ``shared``, jobs run in a folder outside the root, as they always do on a remote machine.
    """
    if backend is Backend.SHELL:
        return None
    made: dict[str, Any] = {"batch_type": "Slurm" if backend.has_queue else "Shell"}
    made["context_type"] = "SSHContext" if backend.is_far else "LocalContext"
    if shared or backend.is_far:
        scratch = workflow.root.parent / SCRATCH
        scratch.mkdir(exist_ok=True)
        made["remote_root"] = str(scratch)
    if sshd is not None:
        made["remote_profile"] = sshd.profile()
    return write_machine(workflow, made)


def at_work(workflow: Workflow) -> list[int]:
    """Return the processes of the test's jobs, including those on the remote machine.

    A process belongs to the test if its working folder does. A remote job has no other sign of it.
    """
    found = (int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit())
    return [pid for pid in found if is_job(pid) and _is_ours(workflow, pid)]


def _is_ours(workflow: Workflow, pid: int) -> bool:
    try:
        folder = Path(f"/proc/{pid}/cwd").readlink()
        name = Path(f"/proc/{pid}/comm").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # The process with which Slurm supervises a job is not part of the job.
    return folder.is_relative_to(workflow.root.parent) and "slurmstepd" not in name


def strike(workflow: Workflow, victim: Victim) -> None:
    """Kill the processes of a victim on every machine."""
    if victim is Victim.EVERYTHING:
        suspend(set(find(workflow, victim)))
    if victim in (Victim.EVERYTHING, Victim.JOB):
        _strike_jobs(workflow)
    strike_near(workflow, victim)


def _strike_jobs(workflow: Workflow) -> None:
    stopped: set[int] = set()
    # Processes are stopped and searched again, so that no new child process is missed.
    while found := set(at_work(workflow)) - stopped:
        suspend(found)
        stopped |= found
    kill(stopped)
